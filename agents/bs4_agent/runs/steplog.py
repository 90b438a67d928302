"""The record stream `steps/<run>`: each step of each side (trainer or orchestrator) once, from log
lines and from the trainer's metrics file, even if those are read twice.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import cast

from bs4_agent.runs.records import start_by_clock
from bs4_agent.streams.registry import Streams
from bs4_common.clock import stamp
from bs4_common.errors import SpoolFull
from bs4_common.files import open_regular
from bs4_common.runs.model import Attempt
from bs4_common.streams.segments import RecordNotJson, RecordTooLarge, SegmentStream, parse
from bs4_common.telemetry import StepRecord
from bs4_common.trainers.base import Trainer
from bs4_common.trainers.steps import StepReader

#: Bytes of the stream. At 350 bytes a record, that is 45,000 steps of both sides.
_CAP = 32 << 20
#: Records that are remembered, to recognise those that are read a second time. After a kill -9 at
#: most the last seconds are.
_REMEMBERED = 1024
_METRICS_CHUNK = 1 << 20
#: A row may carry the time at which its step began, so it may be this many seconds older than its
#: attempt.
_CLOCK_SLACK_S = 5.0

_Key = tuple[int, str, int]
#: The fields of a record that say when it was written.
_STAMPED = ("t", "m", "b")


class StepLog:
    """The writer of one run's stream steps/<run>. It makes step records from log lines and writes
    them in the order of these lines. `directory` has the stream's files.

    `metrics_place` is `{"inode", "offset"}`: the inode of the trainer's metrics file and the byte
    up to which it was read. It is None until the file was read for the first time.
    """

    def __init__(
        self,
        streams: Streams,
        directory: Path,
        trainer: Trainer,
        run: str,
        metrics_place: dict[str, int] | None,
    ) -> None:
        self.metrics_place = metrics_place
        self._trainer = trainer
        self._stream = SegmentStream(directory, _CAP)
        self._reader = StepReader(trainer, run)
        self._recorded: dict[_Key, StepRecord] = {}
        self._pending: deque[StepRecord] = deque()
        for _, line in deque(self._stream.lines(), maxlen=_REMEMBERED):
            if (record := _ours(line)) is not None:
                self._remember(record)
        streams.add(f"steps/{run}", self._stream)

    def anchor(self, attempt: int, wall: float) -> None:
        """Set the time of attempt number `attempt`, so that its log lines that have only a time of
        day can be dated. `wall` is a Unix time in seconds within half a day of the attempt's first
        line, such as the attempt's start.
        """
        self._reader.anchor(attempt, wall)

    def feed(
        self, source: str, raw: bytes, cursor: str, attempt: int, near: float | None
    ) -> list[StepRecord]:
        """Read one line of the log with the name `source`, such as "trainer", and return the new
        step records that it makes. Most lines make none, and the list is then empty. The records
        are queued; `flush` writes them to the stream.

        `raw` is the line's bytes, `cursor` its place in the log's stream, and `attempt` the number
        of the attempt that wrote it. `near` is the Unix time in seconds at which the line was
        written, or None if the line is read long after that.
        """
        return self._take(self._reader.feed(source, raw, cursor, attempt, near=near))

    def feed_metrics(self, path: Path, attempt: Attempt) -> list[StepRecord]:
        """Read the rows that the trainer has added to its metrics file `path` since the last call,
        at most 1 MiB, and return the new step records that they make. The records are queued;
        `flush` writes them to the stream.

        Rows that earlier attempts wrote are skipped. The list is empty if nothing is new or there
        is no such file.
        """
        try:
            found = path.stat()
        except FileNotFoundError:
            return []
        place = self.metrics_place
        if place is None or place["inode"] != found.st_ino or place["offset"] > found.st_size:
            place = {"inode": found.st_ino, "offset": 0}
        if place["offset"] == found.st_size:
            return []
        with open_regular(path) as handle:
            handle.seek(place["offset"])
            data = handle.read(_METRICS_CHUNK)
        whole = data.rfind(b"\n") + 1 or (len(data) if len(data) == _METRICS_CHUNK else 0)
        self.metrics_place = {"inode": place["inode"], "offset": place["offset"] + whole}
        records: list[StepRecord] = []
        for row in data[:whole].splitlines():
            records += self._reader.feed_metrics(row, attempt.number)
        since = start_by_clock(attempt) - _CLOCK_SLACK_S
        return self._take([row for row in records if row.get("log_t", since) >= since])

    def known(self, attempt: int) -> list[StepRecord]:
        """Return the step records of attempt number `attempt` among the last 1,024 records of the
        run's stream, oldest first.
        """
        found = []
        for key, record in self._recorded.items():
            if key[0] == attempt:
                found.append(record)
        return found

    def flush(self) -> None:
        """Write the queued records to the stream steps/<run>. Raises SpoolFull if there is no room
        on the disk; the records that were not written stay queued for the next call.

        A record that can never be written, because it has more than 256 KiB or a value that JSON
        cannot express, is dropped. After all others were written, the first such record's error
        (RecordTooLarge or RecordNotJson) is raised.
        """
        refused: RecordTooLarge | RecordNotJson | None = None
        while self._pending:
            record: StepRecord = {**stamp(), **self._pending.popleft()}
            try:
                self._stream.append(record)
            except SpoolFull:
                self._pending.appendleft(record)
                raise
            except (RecordTooLarge, RecordNotJson) as error:
                refused = refused or error
        if refused is not None:
            raise refused

    @property
    def written(self) -> bool:
        """Return True if no record is queued, so that all records are in the stream."""
        return not self._pending

    def _take(self, records: list[StepRecord]) -> list[StepRecord]:
        """Queue the records that are new and return them."""
        fresh = [record for record in records if self._remember(record)]
        self._pending.extend(fresh)
        return fresh

    def _remember(self, record: StepRecord) -> bool:
        """Remember a record. Return False if it was recorded before. A record with other or more
        numbers replaces the earlier one for readers.
        """
        key = (record["attempt"], record["side"], record["step"])
        content = cast(
            "StepRecord", {name: value for name, value in record.items() if name not in _STAMPED}
        )
        before = self._recorded.pop(key, None)
        if before is not None and content.items() <= before.items():
            self._recorded[key] = before
            return False
        self._recorded[key] = content
        while len(self._recorded) > _REMEMBERED:
            del self._recorded[next(iter(self._recorded))]
        return True


def _ours(line: bytes) -> StepRecord | None:
    """Return the record in a line if it names an attempt, a side and a step as a StepLog writes
    them, or else None. Another program may have written to the file.
    """
    record = parse(line) or {}
    names = record.get("attempt"), record.get("side"), record.get("step")
    return cast("StepRecord", record) if list(map(type, names)) == [int, str, int] else None
