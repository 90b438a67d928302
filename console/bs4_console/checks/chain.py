"""Check the hash chain of a journal line by line, wherever its lines come from.

Each record carries `seq`, which counts from 1, and `prev`, the SHA-256 of the line before it
(bs4_common.journal). A change of a line therefore shows at the line after it. What no chain shows:
a change of the newest line that leaves it a record, newest lines that are missing, and a journal
that was written anew from its beginning. Those show only against a copy, see `Anchor`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from bs4_common.foreign_json import integer
from bs4_common.journal import GENESIS, digest
from bs4_common.streams.segments import parse

Status = Literal["whole", "broken", "unknown"]
Where = Literal["kept", "live", "directory"]

#: Digests that are remembered, to recognise a pod that went on from an earlier record. A segment
#: holds fewer records.
_RECENT = 20_000
#: Sentences that are kept for one journal; a hostile one could make as many as it has lines.
_SENTENCES = 20


@dataclass(frozen=True)
class Break:
    """One place at which the hash chain of a journal (the agent's log of actions and incidents) is
    broken, for example where a record does not hold the hash of the line before it. `offset` is the
    byte in `file` at which the line begins that shows the break, and `detail` is a sentence about
    it.
    """

    file: str
    offset: int
    detail: str


@dataclass(frozen=True)
class Anchor:
    """The number and digest of one journal record, as kept at another place than the journal (the
    agent's log of actions and incidents). A journal that was not changed must contain it. `seq` is
    the record's number and `digest` the SHA-256 of its line.
    """

    seq: int
    digest: str


class ChainRow(TypedDict):
    """The result of checking one journal (the agent's log of actions and incidents), as `audit
    --json` prints it. `status` is "whole", "broken" or "unknown". `where` says what was checked
    ("kept" files of this console, a "live" pod, or another "directory"), `path` is its place, and
    `pod` the pod's name or None. `files` and `records` count what was read; `first_seq` and
    `last_seq` are the numbers of the first and last record. `breaks` is the number of broken places
    and `first_break` the first of them. `unknown` has the reasons why something could not be
    checked, and `notes` further sentences.
    """

    status: Status
    where: Where
    pod: str | None
    path: str
    files: int
    records: int
    first_seq: int | None
    last_seq: int | None
    breaks: int
    first_break: Break | None
    unknown: Sequence[str]
    notes: Sequence[str]


@dataclass(kw_only=True)
class Checked:
    """The result of checking the hash chain of one journal (the agent's log of actions and
    incidents). `where` says what was checked: files that this console "kept", a "live" pod, or
    another "directory". `path` is the journal's place there, and `pod` the pod's name ("" for no
    pod). `files` and `records` count what was read, and `first_seq` and `last_seq` are the numbers
    of the first and last record. `breaks` is the number of broken places, of which `first_break` is
    the first. `unknown` has the reasons why something could not be checked, and `notes` further
    sentences for a person.
    """

    where: Where
    pod: str
    path: str
    files: int = 0
    records: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    breaks: int = 0
    first_break: Break | None = None
    unknown: list[str] = field(default_factory=list)
    """Why the chain could not be checked everywhere."""
    notes: list[str] = field(default_factory=list)

    @property
    def status(self) -> Status:
        """Return in one word whether the journal's hash chain is intact. In this chain each record
        has the hash of the line before it. "broken" means that the chain is broken somewhere.
        "unknown" means that a part could not be checked, or that the journal has no record. "whole"
        means that everything was checked and nothing is broken.
        """
        if self.breaks:
            return "broken"
        if self.unknown or not self.records:
            return "unknown"
        return "whole"

    def as_dict(self) -> ChainRow:
        """Return the result as the JSON object that `audit --json` prints for each journal (the
        agent's log of actions and incidents), with the schema bs4.audit/1.
        """
        return {
            "status": self.status,
            "where": self.where,
            "pod": self.pod or None,
            "path": self.path,
            "files": self.files,
            "records": self.records,
            "first_seq": self.first_seq,
            "last_seq": self.last_seq,
            "breaks": self.breaks,
            "first_break": self.first_break,
            "unknown": self.unknown,
            "notes": self.notes,
        }


class ChainCheck:
    """Checks the hash chain of one journal (the agent's log of actions and incidents), in which
    each record holds the hash of the line before it. Call `line` for each line in order, `hole` at
    a place where lines are missing for a known reason, and `end` after the last line. `checked` is
    the result for the lines so far.
    """

    def __init__(self, checked: Checked, anchor: Anchor | None = None) -> None:
        """`anchor`: a record that this journal must hold as it was kept elsewhere."""
        self.checked = checked
        self._anchor = anchor
        self._digest: str | None = None
        """The digest of the line before. None where that line is not known."""
        self._seq: int | None = None
        self._recent: deque[str] = deque(maxlen=_RECENT)

    @property
    def last(self) -> Anchor | None:
        """Return the number and digest of the newest record that was checked by the method `line`.
        Return None if it has checked no line yet, or if the newest line is not a record or was
        followed by a hole (lines that are missing).
        """
        if self._seq is None or self._digest is None:
            return None
        return Anchor(self._seq, self._digest)

    def line(self, file: str, offset: int, line: bytes, *, first: bool = False) -> None:
        """Check the next line of the journal (the agent's log of actions and incidents), without
        its LF, and add what is wrong to `checked`. The line begins at byte `offset` of `file`.
        `first` is True for the first line of the journal's first file, which must be record 1.
        """
        record = parse(line) or {}
        seq, prev = integer(record.get("seq")), record.get("prev")
        if seq is None or seq < 1 or not isinstance(prev, str):
            self.broken(file, offset, "The line is no record of a journal.")
            self._seq = None
        else:
            problem = self._link(seq, prev, first=first)
            if problem:
                self.broken(file, offset, problem)
            self._count(seq)
            self._seq = seq
        self._digest = digest(line)
        self._recent.append(self._digest)
        self._compare(file, offset)

    def hole(self, reason: str) -> None:
        """Note that lines are missing at this place for `reason`, which is an innocent one, for
        example that they were never read. The status of the journal (the agent's log of actions and
        incidents) then becomes "unknown" and not "broken". The next line is not compared with the
        lines before the hole.
        """
        self.doubt(reason)
        self._digest = self._seq = None

    def doubt(self, reason: str) -> None:
        """Add `reason`, a sentence that says why a part of the journal (the agent's log of actions
        and incidents) could not be checked, to the result. It makes the journal's status "unknown"
        unless the chain is broken. Only the first 20 are kept.
        """
        if len(self.checked.unknown) < _SENTENCES:
            self.checked.unknown.append(reason)

    def broken(self, file: str, offset: int, detail: str) -> None:
        """Count one break of the hash chain (each record of a journal holds the hash of the one
        before it) at byte `offset` of `file`. `detail` is a sentence about it. Only the first break
        is kept with its place and sentence.
        """
        if self.checked.first_break is None:
            self.checked.first_break = Break(file, offset, detail)
        self.checked.breaks += 1

    def end(self, file: str, offset: int) -> None:
        """Say in the result, the attribute `checked`, whether records are missing at the end of
        the journal (the agent's log of actions and incidents). They are if another place has a
        record that is newer than the last one that `line` was given. `file` and `offset` (in bytes)
        are where the journal's last line ends. Call this after the last line.
        """
        anchor, last = self._anchor, self.checked.last_seq
        if anchor is not None and last is not None and last < anchor.seq:
            self.broken(
                file,
                offset,
                f"The journal ends with record {last}, but this machine keeps its record "
                f"{anchor.seq}: newer records were removed, or lost when the pod lost power.",
            )

    def _link(self, seq: int, prev: str, *, first: bool) -> str:
        """Return why a record does not follow from the line before it, or "" if it does."""
        if first and seq != 1:
            return f"The first file begins with record {seq}; those before it are missing."
        if self._digest is None:
            return _beginning(seq, prev)
        if prev == self._digest:
            if self._seq is not None and seq != self._seq + 1:
                return f"The record has the number {seq}, expected is {self._seq + 1}."
            return ""
        if self._seq is None:
            return "The line before this record is not the one that was written."
        if seq > self._seq + 1:
            missing = seq - self._seq - 1
            return f"Before record {seq} there are {missing} missing behind record {self._seq}."
        if prev in self._recent:
            return (
                f"Record {seq} follows an earlier record than {self._seq}: the pod lost what came "
                "between, as a loss of power does, or somebody removed it there."
            )
        return (
            f"Record {seq} does not follow from record {self._seq} as it is here: one of the two "
            "was changed."
        )

    def _count(self, seq: int) -> None:
        """Count a record."""
        self.checked.records += 1
        if self.checked.first_seq is None:
            self.checked.first_seq = seq
            if seq > 1:
                self.checked.notes.append(f"It begins with record {seq}; older ones have left.")
        self.checked.last_seq = seq

    def _compare(self, file: str, offset: int) -> None:
        """Compare the last line with the record that was kept elsewhere."""
        anchor = self._anchor
        if anchor is None or self._seq != anchor.seq:
            return
        if self._digest == anchor.digest:
            self.checked.notes.append(f"Record {anchor.seq} is the one that this machine keeps.")
        else:
            self.broken(
                file, offset, f"Record {anchor.seq} differs from the one that this machine keeps."
            )


def _beginning(seq: int, prev: str) -> str:
    """Return why a record cannot be the first that is known, or "" if it can."""
    if seq == 1 and prev != GENESIS:
        return "Record 1 names a record before it, and there is none before the first."
    return ""
