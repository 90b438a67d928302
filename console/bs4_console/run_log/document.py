"""The run log: one document of all runs. Documents are imported into it and notes are added to it,
and no line is ever lost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bs4_console import files
from bs4_console.errors import UsageError
from bs4_console.locations import data_dir
from bs4_console.run_log import document_import
from bs4_console.run_log import export as run_export
from bs4_console.run_log.document_merge import Imported, Merge
from bs4_console.run_log.record import Lesson, Note, RunRecord
from bs4_console.run_log.text import Chunk, chunks

SCHEMA = "bs4.run-log/1"


@dataclass
class Added:
    """What people added to one run in the run log: `notes`, `tags` in alphabetical order, and
    `price`, that of its pod in US dollars an hour, or None. `earlier` has older versions of the
    part of the imported document that is about this run.
    """

    notes: list[Note] = field(default_factory=list)
    earlier: list[str] = field(default_factory=list)
    price: float | None = None
    tags: list[str] = field(default_factory=list)


class RunLog:
    """The run log on this machine: a Markdown document about runs that a person has imported, and
    what people added to each run. It is saved in the file `<data>/runlog.json`. Every change reads
    the whole file and replaces it under a lock.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or data_dir() / "runlog.json"
        self.chunks: list[Chunk] = []
        self.added: dict[str, Added] = {}
        self._load()

    def records(self) -> dict[str, RunRecord]:
        """Return {name of a run: its record}, in the order of the imported document. If the
        document has both a section and a row of a table about a run, the section is used, because
        it holds more.
        """
        found: dict[str, RunRecord] = {}
        for chunk in self.chunks:
            if chunk.run and chunk.run not in found:
                found[chunk.run] = document_import.record(chunk)
        for run in document_import.rows(self.chunks):
            found.setdefault(run.name, run)
        for name, added in self.added.items():
            run = found.setdefault(name, RunRecord(name=name))
            run.notes = list(added.notes)
            run.mark(run.notes)
            run.tags = list(added.tags)
            if added.price is not None:
                run.price = added.price
        return found

    def noted_prices(self) -> dict[str, float]:
        """Return {name of a run: US dollars an hour} for the runs whose price a person has given
        with `runs note --price`. Prices of the imported document are left out.
        """
        found = {}
        for name, added in self.added.items():
            if added.price is not None:
                found[name] = added.price
        return found

    def lessons(self) -> list[Lesson]:
        """Return the lessons learned that the document has, those in the sections of its runs and
        those that are about the whole document, and behind them those that people noted for a run.
        """
        found = document_import.lessons(self.chunks)
        for name, added in self.added.items():
            found += [Lesson(name, "", note.text) for note in added.notes if note.lesson]
        return found

    def import_text(self, text: str) -> Imported:
        """Add a Markdown document to the run log, save it, and return which runs are new, changed
        or the same. A section is the part of a document below the heading of one run. What the run
        log does not have yet is inserted after what stands before it in the document. Any text can
        be imported; text of no run is kept as it is.

        If the section of a run differs from the one that the run log has, the imported section
        replaces the old one, which is kept as an earlier version. But if only the old section says
        how the run ended, it stays, and the imported one is kept as an earlier version. Raises
        UsageError if the file of the run log is damaged.
        """
        parts = chunks(text)
        listed = dict.fromkeys(run.name for run in document_import.rows(parts))
        with files.exclusive(self._path):
            self._load()
            merge = Merge(self.chunks, {name: a.earlier for name, a in self.added.items()})
            for new in parts:
                merge.take(new)
            self.chunks = merge.merged()
            for name, earlier in merge.earlier.items():
                self.added.setdefault(name, Added()).earlier = earlier
            self._save()
        done = merge.done
        told = {*done.added, *done.changed, *done.same}
        done.same += [name for name in listed if name not in told]
        return done

    def note(
        self,
        name: str,
        text: str,
        who: str,
        *,
        lesson: bool = False,
        price: float | None = None,
        status: str = "",
    ) -> None:
        """Add a note to the run `name` and save it. `lesson` marks the note as a lesson learned,
        and `who` is its author. `status`, if it is not "", becomes the run's status word, such as
        "ABANDONED", with `text` as the reason. `price` sets the price of the pod in US dollars an
        hour; None leaves it as it is. The caller must have checked that the run exists.
        """
        with files.exclusive(self._path):
            self._load()
            added = self.added.setdefault(name, Added())
            if text or status:
                added.notes.append(Note(time.time(), who, text, lesson, status))
            if price is not None:
                added.price = price
            self._save()

    def tag(self, name: str, tags: Sequence[str], who: str, *, remove: bool = False) -> list[str]:
        """Give the run `name` these tags (words by which a person groups runs), or with `remove`
        take them from it. This is saved with a note whose author is `who`. Return the run's tags
        afterwards. The caller must have checked that the run exists.
        """
        with files.exclusive(self._path):
            self._load()
            added = self.added.setdefault(name, Added())
            now = set(added.tags) | set(tags)
            if remove:
                now = set(added.tags) - set(tags)
            if now != set(added.tags):
                said = "no longer tagged" if remove else "tagged"
                added.notes.append(Note(time.time(), who, f"{said} {', '.join(tags)}"))
                added.tags = sorted(now)
                self._save()
            return added.tags

    def export(self, own: Iterable[RunRecord] = ()) -> str:
        """Return the run log as one Markdown document, with the notes and older sections that were
        added to it. `own` are records made from pods' journals (the agents' logs of actions and
        incidents), which are merged in. If there is nothing to merge, the text equals the imported
        document byte for byte.
        """
        return run_export.document(
            self.chunks, {name: (a.notes, a.earlier) for name, a in self.added.items()}, list(own)
        )

    def _load(self) -> None:
        self.chunks, self.added = [], {}
        if not self._path.exists():
            return
        try:
            data = json.loads(self._path.read_bytes())
            if data["schema"] != SCHEMA:
                raise UsageError(
                    f"{self._path} was written by another version of bs4-console.",
                    "Use the newer one.",
                )
            self.chunks = [Chunk(c["text"], c["level"], c["title"]) for c in data["chunks"]]
            for name, entry in data["added"].items():
                self.added[name] = Added(
                    [Note(**note) for note in entry["notes"]],
                    entry["earlier"],
                    entry["price"],
                    entry.get("tags", []),
                )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{self._path} is damaged ({type(error).__name__}).",
                "Move it aside and import your run log again.",
            ) from error

    def _save(self) -> None:
        kept = {}
        for name, added in self.added.items():
            if added != Added():
                kept[name] = asdict(added)
        parts = [asdict(chunk) for chunk in self.chunks]
        data = {"schema": SCHEMA, "chunks": parts, "added": kept}
        files.replace(self._path, json.dumps(data, ensure_ascii=False).encode())
