"""Journal each event of a run once, even if the agent dies in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from bs4_common.errors import SpoolFull
from bs4_common.files import read_json, write_json
from bs4_common.ledger import JournalRecord


class JournalLike(Protocol):
    """The methods of the agent's journal that an EventLog uses: append a record, and read all
    records.
    """

    # `type` is the name in the journal.
    def append(self, type: str, /, **fields: Any) -> JournalRecord:  # noqa: A002
        """Write one record with this type and these fields to the journal, and return the record.
        Raises SpoolFull if the journal (the agent's log of actions and incidents) is full.
        """

    def records(self) -> Iterator[JournalRecord]:
        """Yield all records of the journal, oldest first."""


class EventLog:
    """A writer of records of type `run`, which say what happened to a run (such as
    "attempt-started" or "attempt-ended"), to the agent's journal. It writes each event of an
    attempt only once, even if the agent dies and starts again.

    The file `told.json` in the directory of the run or the attempt lists the events that were
    written. If an event is not listed there, the journal (the agent's log of actions and incidents)
    itself is searched, because an agent may have died after it wrote the record and before it
    listed the event.
    """

    def __init__(self, journal: JournalLike) -> None:
        self._journal = journal
        self._marks: dict[Path, list[str]] = {}
        self._written: set[str] | None = None

    def has(self, directory: Path, event: str) -> bool:
        """Return True if the file `told.json` in `directory`, the directory of a run or of an
        attempt, lists this event (such as "attempt-started") as written to the journal (the agent's
        log of actions and incidents). The answer is cached, so a call every second is cheap.
        """
        return event in self._marked(directory)

    def append(self, directory: Path, run: str, attempt: int, event: str, **fields: Any) -> bool:
        """Write a record of the event (such as "attempt-started") of this run and attempt to the
        journal, with the additional keys `fields`, unless that event was written before. Return
        True if it was written by this call. `attempt` 0 stands for an event of the run itself.
        `directory` is that of the run or the attempt, where the file told.json lists the events
        that were written.

        Return False if the event was written before, and also if the journal (the agent's log of
        actions and incidents) is full. In the second case the event is not listed as written, so
        that a later call tries again.
        """
        marks = self._marked(directory)
        if event in marks:
            return False
        new = _name(run, attempt, event) not in self._in_journal()
        if new:
            try:
                self._journal.append("run", event=event, run=run, attempt=attempt or None, **fields)
            except SpoolFull:
                return False
        marks.append(event)
        write_json(directory / "told.json", {"events": marks})
        return new

    def _marked(self, directory: Path) -> list[str]:
        """Return the events in the mark file of `directory`."""
        if directory not in self._marks:
            self._marks[directory] = (read_json(directory / "told.json") or {"events": []})[
                "events"
            ]
        return self._marks[directory]

    def _in_journal(self) -> set[str]:
        """Return the names of the run events that were journalled before this process wrote its
        first one.
        """
        if self._written is None:
            self._written = set()
            for record in self._journal.records():
                if record.get("type") == "run":
                    name = _name(record.get("run"), record.get("attempt"), record.get("event"))
                    self._written.add(name)
        return self._written


def _name(run: object, attempt: object, event: object) -> str:
    """Return a text that names an event of an attempt, or of the run itself. The journal may hold
    records that no agent has written, so any value is taken.
    """
    return f"{attempt or 0} {event} {run}"
