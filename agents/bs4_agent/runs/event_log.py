"""Journal each event of a run once, even if the agent dies in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from bs4_agent.errors import SpoolFull
from bs4_agent.runs.files import read_json, write_json


class JournalLike(Protocol):
    """The methods of `journal.Journal` that this module uses."""

    # `type` is the name in the journal.
    def append(self, type: str, /, **fields: Any) -> dict[str, Any]:  # noqa: A002
        """Write one record of this type and return it. Raises SpoolFull if the journal is full."""

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield all records, oldest first."""


class EventLog:
    """A writer of `run` records, which say what happened to a run, to the journal. It writes each
    event of an attempt only once, even if the agent dies and starts again.

    The file `told.json` beside the run's files (the mark file) names the events that were written.
    If an event is not named there, the journal itself is searched, because an agent may have died
    after it wrote the record and before it marked it.
    """

    def __init__(self, journal: JournalLike) -> None:
        self._journal = journal
        self._marks: dict[Path, list[str]] = {}
        self._written: set[tuple[str, int, str]] | None = None

    def has(self, directory: Path, event: str) -> bool:
        """Return True if the mark file in `directory` says that this event was written. The answer
        is cached, so a call every second is cheap.
        """
        return event in self._marked(directory)

    def append(
        self, directory: Path, run: str, attempt: int, event: str, fields: dict[str, Any]
    ) -> bool:
        """Journal the event with these fields unless it was journalled before. Return True if it
        was written now.

        Returns False if it was journalled before, and also if the journal is full. In the second
        case the event is not marked as written, so that a later call tries again.
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
