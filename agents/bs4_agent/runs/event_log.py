"""Journal each event of a run once, even if the agent dies in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from bs4_agent.errors import SpoolFull
from bs4_agent.runs.files import read_json, write_json


class JournalLike(Protocol):
    """The part of `journal.Journal` that is needed here."""

    # `type` is the name in the journal.
    def append(self, type: str, /, **fields: Any) -> dict[str, Any]:  # noqa: A002
        """Write one record of this type and return it. Raises SpoolFull."""

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield all records, oldest first."""


class EventLog:
    """Appends `run` records to the journal, each event once.

    A mark file beside the run's files names the events that were written. If a mark is missing, the
    journal itself is searched, because an agent may have died between the record and its mark.
    """

    def __init__(self, journal: JournalLike) -> None:
        self._journal = journal
        self._marks: dict[Path, list[str]] = {}
        self._written: set[tuple[str, int, str]] | None = None

    def has(self, directory: Path, event: str) -> bool:
        """Return True if the mark file in `directory` has this event. It is cheap enough for every
        second.
        """
        return event in self._marked(directory)

    def append(
        self, directory: Path, run: str, attempt: int, event: str, fields: dict[str, Any]
    ) -> bool:
        """Append the record unless it is there already. Return True if it was appended now. If the
        spool is full, nothing is marked and this returns False, so that the caller can try again.
        """
        marks = self._marked(directory)
        if event in marks:
            return False
        new = (run, attempt, event) not in self._in_journal()
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

    def _in_journal(self) -> set[tuple[str, int, str]]:
        """Return the run events that were journalled before this process wrote its first one, as
        (run, attempt, event).
        """
        if self._written is None:
            records = (record for record in self._journal.records() if record.get("type") == "run")
            self._written = {
                (record["run"], record.get("attempt") or 0, record["event"]) for record in records
            }
        return self._written
