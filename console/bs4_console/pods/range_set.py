"""Record which byte ranges of one file are held."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

#: Bytes of one line.
_WIDTH = 42


class RangeSet:
    """A set of ranges of byte offsets, each from `begin` up to but not including `end`, sorted and
    disjoint, that is saved in the file `path`. It records which bytes of a pod's file are saved on
    this machine.

    Each write appends a line `begin end` to the file, and ranges that touch are joined when the
    file is loaded. A range that continues the range written last extends that line instead, so a
    file that is only read on from its start has a single line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ranges: list[tuple[int, int]] = []
        self._last: tuple[int, int] | None = None
        """(offset in the file, begin of the range) of the last line."""
        for line in _lines(path):
            self._insert(*line)

    def add(self, begin: int, end: int) -> None:
        """Add the bytes from `begin` up to, but not including, `end` to the set and to its file.
        Raises OSError if the file cannot be written.
        """
        last = self._last
        with self.path.open("r+b" if self.path.exists() else "w+b") as handle:
            # Lines have a fixed width: a longer end must not run into the next line, and a torn
            # last line is overwritten.
            place, first = handle.seek(0, 2) // _WIDTH * _WIDTH, begin
            if last is not None and (last[1], begin) in self._ranges:
                place, first = last
            handle.seek(place)
            handle.write(b"%020d %020d\n" % (first, end))
        self._last = (place, first)
        self._insert(begin, end)

    def first_missing(self, offset: int) -> int:
        """Return the offset of the first byte at or after `offset` that is not in the set."""
        at = bisect_right(self._ranges, (offset, float("inf"))) - 1
        if at >= 0 and self._ranges[at][1] > offset:
            return self._ranges[at][1]
        return offset

    def first_held(self, offset: int) -> int | None:
        """Return the offset of the first byte at or after `offset` that is held, which means that
        one of the ranges in this set contains it. Return None if there is no such byte.
        """
        for begin, end in self._ranges:
            if end > offset:
                return max(begin, offset)
        return None

    def _insert(self, begin: int, end: int) -> None:
        first, last = begin, end
        apart = []
        for b, e in self._ranges:
            if b <= end and begin <= e:
                first, last = min(first, b), max(last, e)
            else:
                apart.append((b, e))
        self._ranges = sorted([*apart, (first, last)])


def _lines(path: Path) -> list[tuple[int, int]]:
    """Return the ranges in a file, without a torn last line."""
    try:
        text = path.read_text("ascii", "replace")
    except FileNotFoundError:
        return []
    found = []
    for line in text.splitlines(keepends=True):
        words = line.split()
        if line.endswith("\n") and len(words) == 2 and all(map(str.isdecimal, words)):
            found.append((int(words[0]), int(words[1])))
    return found
