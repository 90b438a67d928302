"""What of the runs has been journalled: each event once, whatever dies in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from bs4_agent.errors import SpoolFull
from bs4_agent.runs.files import read_json, write_json


class JournalLike(Protocol):
    """What is needed of `journal.Journal`."""

    # The journal's own name.
    def append(self, type: str, /, **fields: Any) -> dict[str, Any]: ...  # noqa: A002

    def records(self) -> Iterator[dict[str, Any]]: ...


class Told:
    """Appends `run` records. A mark beside the run's files says which were written; where the mark
    is missing the journal itself is asked, because we may have died between the record and its
    mark.
    """

    def __init__(self, journal: JournalLike) -> None:
        self._journal = journal
        self._marks: dict[Path, list[str]] = {}
        self._written: set[tuple[str, int, str]] | None = None

    def told(self, directory: Path, event: str) -> bool:
        """Whether the mark says so: cheap enough to be asked every second."""
        return event in self._marked(directory)

    def tell(
        self, directory: Path, run: str, attempt: int, event: str, fields: dict[str, Any]
    ) -> bool:
        """Append the record unless it is there; True when it was appended now. With the spool full
        nothing is marked: call again.
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
        if directory not in self._marks:
            self._marks[directory] = (read_json(directory / "told.json") or {"events": []})[
                "events"
            ]
        return self._marks[directory]

    def _in_journal(self) -> set[tuple[str, int, str]]:
        """Run events that were journalled before this process wrote its first one."""
        if self._written is None:
            records = (record for record in self._journal.records() if record.get("type") == "run")
            self._written = {
                (record["run"], record.get("attempt") or 0, record["event"]) for record in records
            }
        return self._written
