"""The journal: an append-only, hash-chained record of what happened on this pod and what was done
about it.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from bs4_common.clock import stamp
from bs4_common.digest import sha256
from bs4_common.errors import AgentError, SpoolFull
from bs4_common.streams.segments import SegmentStream, parse
from bs4_common.withheld import Withheld

if TYPE_CHECKING:
    from bs4_common.ledger import JournalRecord

#: `prev` of the first record.
GENESIS = "0" * 64


class Journal:
    """The journal of a pod, the agent's log of actions and incidents: a stream of records
    `{"t","m","b","seq","prev","type",...}` to which records are only ever added. It may be called
    from any thread.

    `t` is the Unix time in seconds, `m` the time in seconds of the monotonic clock of the boot
    whose id is `b`. `prev` is the SHA-256 (hex) of the previous line without its newline, so that a
    change of a line shows in the line after it. `seq` counts the records from 1. `prev` and `seq`
    continue after a restart of the agent.

    The argument `withheld` is a store for records with secrets. If it is given, secrets are
    replaced in the lines that are written, and `prev` is computed from these lines. The store keeps
    the whole record of such a line if an action may need the secrets, so that a restarted agent can
    carry out the action. It keeps the record as long as the line is in the journal. Without
    `withheld`, records are written as they are.
    """

    def __init__(self, stream: SegmentStream, withheld: Withheld | None = None) -> None:
        self.stream = stream
        self._withheld = withheld
        self._lock = threading.Lock()
        self._oldest = stream.oldest
        last = stream.last_line()
        self._prev, self._seq = GENESIS, 0
        if last is not None:
            self._prev = digest(last)
            self._seq = _seq(_parsed(last)) or max(map(_seq, self.records()), default=0)

    def append(self, type_: str, *, sync: bool = False, **fields: Any) -> JournalRecord:
        """Write one record of the type `type_` with the given fields to the journal, the agent's
        log, and return the record. Added to it are `t` (Unix time in seconds), `m` (seconds of the
        monotonic clock), `b` (the id of the machine's boot), `seq` (the record's number) and `prev`
        (the hash of the line before). With `sync`, the record is on disk before the call returns,
        as it must be for a record that says what the agent is about to do. Raises SpoolFull if the
        record cannot be written.

        The returned record has all secrets, also those that are left out of the record on disk.
        """
        with self._lock:
            stamped = {**stamp(), "seq": self._seq + 1, "prev": self._prev, "type": type_, **fields}
            record = cast("JournalRecord", stamped)
            line = _line(record)
            if self._withheld is not None:
                shown = self._withheld.shown(cast("JournalRecord", fields))
                whole, line = line, _line({**record, **shown})
                if line != whole:
                    self._keep(self._withheld, line, record)
            try:
                self.stream.append_line(line, sync=sync)
            except (AgentError, OSError):
                if self._withheld is not None:
                    self._withheld.forget(digest(line))
                raise
            self._seq += 1
            self._prev = digest(line)
            if self.stream.oldest != self._oldest:
                self._oldest = self.stream.oldest
                self._sweep()
        return record

    def _sweep(self) -> None:
        """Delete what was withheld of records that have left the journal with their segment. What
        cannot be read here is left to the next start.
        """
        if self._withheld is None:
            return
        # The record that led here is on disk, so its caller must not get an error any more.
        with contextlib.suppress(OSError):
            first = next((_parsed(line) for _, line in self.stream.lines()), None)
            if first is None:
                return
            for name in self._withheld.names():
                whole = self._withheld.whole(name)
                if whole is not None and _seq(whole) < _seq(first):
                    self._withheld.forget(name)

    @staticmethod
    def _keep(withheld: Withheld, line: bytes, record: JournalRecord) -> None:
        """Keep the record whole. Raises SpoolFull if that is not possible."""
        try:
            withheld.keep(digest(line), record)
        except OSError as error:
            raise SpoolFull(
                f"{error.filename or withheld} cannot be written: {error.strerror or error}; "
                "free space, then repeat."
            ) from error

    def records(self) -> Iterator[JournalRecord]:
        """Yield every record of the journal (the agent's log) that is still on the disk, oldest
        first. Secrets that were replaced in a record when it was written stay replaced.
        """
        return cast("Iterator[JournalRecord]", self.stream.records())

    def whole_records(self) -> Iterator[JournalRecord]:
        """Yield every record of the journal (the agent's log) that is still on the disk, oldest
        first, with the secrets that an action may need again. These secrets are kept in files apart
        from the journal. After the last record, the secrets of records that the journal does not
        have any more are deleted. Until all records were yielded, nothing may be appended.
        """
        unseen = self._withheld.names() if self._withheld is not None else set()
        if self._withheld is None or not unseen:
            yield from self.records()
            return
        for _, line in self.stream.lines():
            record = _parsed(line)
            if record is None:
                continue
            name = digest(line)
            if name in unseen:
                unseen.discard(name)
                record = self._withheld.whole(name) or record
            yield record
        for name in unseen:
            self._withheld.forget(name)

    def verify(self) -> list[str]:
        """Check that no record of the journal was changed or removed. Each record has its number
        (`seq`, one more than that of the record before) and the hash of the line before (`prev`).
        Return one sentence for each problem, which names the place in the journal. Return an empty
        list if there is none. If the oldest records have been deleted, the `prev` of the first one
        left cannot be checked.
        """
        problems = []
        prev: str | None = None
        seq: int | None = None
        for cursor, line in self.stream.lines():
            record = _parsed(line)
            if record is None:
                problems.append(f"The line at {cursor} is no record.")
                seq = None
            else:
                expected = prev or (GENESIS if _seq(record) == 1 else None)
                if expected is not None and record.get("prev") != expected:
                    problems.append(
                        f"The line before {cursor} is not the one that was written: its hash "
                        "differs."
                    )
                if seq is not None and record.get("seq") != seq + 1:
                    problems.append(
                        f"The record at {cursor} is number {record.get('seq')}, expected {seq + 1}."
                    )
                seq = _seq(record)
            prev = digest(line)
        return problems


def _line(record: JournalRecord) -> bytes:
    """Return the line of a record without its newline."""
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode()


def digest(line: bytes) -> str:
    """Return the SHA-256 digest of a line of the journal (the agent's log), in hex. The next line
    has it as `prev`.
    """
    return sha256(line).hexdigest()


def _parsed(line: bytes) -> JournalRecord | None:
    """Return the record in a line, or None if there is none."""
    return cast("JournalRecord | None", parse(line))


def _seq(record: JournalRecord | None) -> int:
    """Return the record's number, or 0 if it has none."""
    seq: object = record.get("seq") if record else None
    return seq if isinstance(seq, int) else 0
