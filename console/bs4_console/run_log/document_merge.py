"""Merges a Markdown document into the run log, in time proportional to the length of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bs4_console.run_log import document_import
from bs4_console.run_log.text import RUN_LEVEL, Chunk, closed, covers


@dataclass
class Imported:
    """The result of importing a Markdown document into the run log, as three lists of runs' names.
    `added` are runs that were not known before, `changed` are runs whose part of the document
    (section) differs from before, and `same` are runs whose part is the same.
    """

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)


class Merge:
    """One import into the run log. `known` are the chunks of the run log, and `earlier` the older
    versions of a run's section by its name. Afterwards `earlier` has those of this import too, and
    `done` says what became of each run.
    """

    def __init__(self, known: Sequence[Chunk], earlier: dict[str, list[str]]) -> None:
        self.done = Imported()
        self._known = [chunk for chunk in known if _is_cut(chunk)]
        # What stands before the first heading. Anywhere else it would belong to the chunk before.
        self._head: Chunk | None = None
        for chunk in known:
            if not _is_cut(chunk):
                self._take_head(chunk)
        self.earlier = earlier
        self._added: set[str] = set()
        # By heading, the numbers of the known chunks that this import has not matched yet. Each
        # known section matches one section of the imported document.
        self._open: dict[str | tuple[int, str], list[int]] = {}
        for number, chunk in enumerate(self._known):
            self._open.setdefault(chunk.heading, []).append(number)
        self._firsts = {heading: numbers[0] for heading, numbers in self._open.items()}
        # By the number of a known chunk, the new chunks behind it; -1 stands for the beginning.
        self._behind: dict[int, list[Chunk]] = {}
        # What was taken last: a known chunk, and how many of the new ones behind it.
        self._at = (-1, 0)

    def take(self, new: Chunk) -> None:
        """Take the next chunk of the imported document into the run log."""
        if not _is_cut(new):
            self._take_head(new)
        elif new.run:
            self._take_run(new)
        else:
            self._take_text(new)

    def merged(self) -> list[Chunk]:
        """Return the chunks of the run log with everything that was taken."""
        found = [] if self._head is None else [self._head]
        found += self._behind.get(-1, ())
        for number, chunk in enumerate(self._known):
            found.append(chunk)
            found += self._behind.get(number, ())
        return found

    def _take_head(self, new: Chunk) -> None:
        old = self._head
        if old is not None and covers(old.text, new.text):
            return
        if old is None or covers(new.text, old.text):
            self._head = new
        else:
            text = closed(old.text)
            gap = "" if text.endswith("\n") else "\n"
            self._head = Chunk(f"{text}{gap}{new.text}", old.level, old.title)

    def _take_run(self, new: Chunk) -> None:
        places = self._open.get(new.heading, ())
        if not places:
            if new.run not in self._added:
                self._added.add(new.run)
                self.done.added.append(new.run)
            self._insert(new)
            return
        # A name that was used twice in one document has two sections. Each imported section is
        # matched with the known one that it resembles.
        alike = (i for i in places if _alike(self._known[i].text, new.text))
        place = next(alike, places[0])
        old = self._known[place]
        earlier = self.earlier.setdefault(new.run, [])
        self._claim(new, place)
        # Older versions are kept below the first section of the name.
        kept = [old.text]
        if place == self._firsts[new.heading]:
            kept += earlier
        if any(covers(text, new.text) for text in kept):
            self.done.same.append(new.run)
            return
        self.done.changed.append(new.run)
        stays = (
            not covers(new.text, old.text)
            and document_import.record(old).final
            and not document_import.record(new).final
        )
        earlier.append(new.text if stays else old.text)
        if not stays:
            self._known[place] = new
        text = self._known[place].text
        earlier[:] = [older for older in earlier if not covers(text, older)]

    def _take_text(self, new: Chunk) -> None:
        places = self._open.get(new.heading, ())
        for place in places:
            if covers(self._known[place].text, new.text):
                self._claim(new, place)
                return
        for place in places:
            if covers(new.text, self._known[place].text):
                self._known[place] = new
                self._claim(new, place)
                return
        if places:
            self._at = max(self._at, (places[-1], 0))
        self._insert(new)

    def _insert(self, new: Chunk) -> None:
        """Insert a chunk behind the one that was taken last."""
        number, count = self._at
        self._behind.setdefault(number, []).insert(count, new)
        self._at = (number, count + 1)

    def _claim(self, new: Chunk, place: int) -> None:
        """Note that the known chunk with the number `place` is matched with `new`."""
        self._open[new.heading].remove(place)
        self._at = (place, 0)


def _is_cut(chunk: Chunk) -> bool:
    """Return True if the chunk begins with a heading at which documents are cut."""
    return 0 < chunk.level <= RUN_LEVEL


def _alike(text: str, other: str) -> bool:
    """Return True if one of two texts has all lines of the other."""
    return covers(text, other) or covers(other, text)
