"""A file as blocks of whole lines, and the lines of a block by number. Offsets are those of the
file, whatever is cut or left out.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import BinaryIO

from bs4_agent.trainers.lines import visible

#: Lines longer than this are cut for parsing.
LINE_CAP = 64 * 1024


@dataclass
class Block:
    """Whole lines. `offset` and `line` (0-based) of the first one; `t`: the log's time before
    it.
    """

    data: bytes
    offset: int
    line: int
    t: float | None
    lines: Lines = field(init=False)

    def __post_init__(self) -> None:
        self.lines = Lines(self.data)


class Lines:
    """The lines of a block by number; found when first asked for."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._count = -1
        self._starts: array[int] | None = None
        self.dated = 0
        """Lines above this one have told their time."""

    def _index(self) -> array[int]:
        """How many bytes stand before each line, and before one behind the last, line ends not
        counted.
        """
        if self._starts is None:
            self._starts = array("q", accumulate(map(len, self.data.split(b"\n")), initial=0))
        return self._starts

    def any(self, find: Callable[[bytes, int, int], object], first: int, last: int) -> bool:
        """Whether `find` finds anything in these lines, or they hold what hides words."""
        starts = self._index()
        begin, end = starts[first] + first, starts[last + 1] + last
        return find(self.data, begin, end) is not None or self.data.find(b"\x1b", begin, end) >= 0

    def at(self, number: int) -> tuple[int, bytes]:
        """(offset in the block, the line without LF; of a long one at most LINE_CAP of what a
        terminal shows).
        """
        starts = self._index()
        start = starts[number] + number
        raw = self.data[start : starts[number + 1] + number]
        # A progress bar draws itself a thousand times before the line ends: what counts is what was
        # drawn last.
        return start, raw if len(raw) <= LINE_CAP else visible(raw)[:LINE_CAP]

    def index(self, offset: int) -> int:
        """The number of the first line that begins at or behind `offset`."""
        starts = self._index()
        return bisect_left(range(len(starts)), offset, key=lambda number: starts[number] + number)

    def count(self) -> int:
        if self._count < 0:
            self._count = self.data.count(b"\n") + (not self.data.endswith(b"\n"))
        return self._count

    def last_written(self) -> int:
        """The number of the last line with anything but white space in it, -1 where there is
        none.
        """
        end = len(self.data.rstrip())
        if end:
            return self.data.count(b"\n", 0, end)
        return -1

    def all(self) -> Iterator[tuple[int, bytes]]:
        for number in range(self.count()):
            yield self.at(number)


def blocks(handle: BinaryIO, size: int) -> Iterator[tuple[int, bytes]]:
    """(offset, whole lines), about `size` bytes each. Of a line without end only the beginning is
    kept, so memory stays what it is.
    """
    offset, rest, dropped = 0, b"", 0
    while True:
        data = handle.read(size)
        if not data:
            break
        if dropped:
            end = data.find(b"\n")
            if end < 0:
                dropped += len(data)
                continue
            yield offset, rest + b"\n"
            offset += len(rest) + dropped + end + 1
            rest, dropped, data = b"", 0, data[end + 1 :]
        whole = rest + data
        end = whole.rfind(b"\n") + 1
        if end:
            yield offset, whole[:end]
            offset += end
        rest = whole[end:]
        if len(rest) > size:
            dropped = len(rest) - LINE_CAP
            rest = rest[:LINE_CAP]
    if rest:
        yield offset, rest
