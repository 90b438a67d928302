"""Which byte ranges of one file are held."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

#: Bytes of one line.
_WIDTH = 42


class Spans:
    """Sorted, disjoint `[begin, end)` ranges, kept in `path`: a line `begin end` for each write,
    joined when the file is read again.

    A write that goes on where the last one ended rewrites that line, so that a stream that is only
    followed has one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ranges: list[tuple[int, int]] = []
        self._last: tuple[int, int] | None = None
        """The last line's (place in the file, begin of its range)."""
        for line in _lines(path):
            self._insert(*line)

    def add(self, begin: int, end: int) -> None:
        """Held from now on. OSError when it cannot be written down."""
        going_on = (
            self._last is not None and self._ranges and (self._last[1], begin) in self._ranges
        )
        with self.path.open("r+b" if self.path.exists() else "w+b") as handle:
            # Fixed width: a longer end must not run into the next line, and a torn last line is
            # written over.
            if going_on and self._last:
                place = self._last[0]
            else:
                place = handle.seek(0, 2) // _WIDTH * _WIDTH
            if going_on and self._last:
                first = self._last[1]
            else:
                first = begin
            handle.seek(place)
            handle.write(b"%020d %020d\n" % (first, end))
        self._last = (place, first)
        self._insert(begin, end)

    def first_missing(self, offset: int) -> int:
        """The first byte at or behind `offset` that is not held."""
        at = bisect_right(self._ranges, (offset, float("inf"))) - 1
        if at >= 0 and self._ranges[at][1] > offset:
            return self._ranges[at][1]
        return offset

    def first_held(self, offset: int) -> int | None:
        """The first byte at or behind `offset` that is held; None when none is."""
        for begin, end in self._ranges:
            if end > offset:
                return max(begin, offset)
        return None

    def _insert(self, begin: int, end: int) -> None:
        joined = []
        for b, e in self._ranges:
            if b <= end and begin <= e:
                joined.append((b, e))
        apart = []
        for b, e in self._ranges:
            if not (b <= end and begin <= e):
                apart.append((b, e))
        merged = (min([begin, *(b for b, _ in joined)]), max([end, *(e for _, e in joined)]))
        self._ranges = sorted([*apart, merged])


def _lines(path: Path) -> list[tuple[int, int]]:
    """What a torn file still says for certain."""
    try:
        text = path.read_text("ascii", "replace")
    except FileNotFoundError:
        return []
    found = []
    for line in text.splitlines(keepends=True):
        words = line.split()
        if (
            line.endswith("\n")
            and len(words) == 2
            and words[0].isdecimal()
            and words[1].isdecimal()
        ):
            found.append((int(words[0]), int(words[1])))
    return found
