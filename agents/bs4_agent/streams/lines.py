"""Where the lines of a file begin: newline counts at coarse steps, built as far as someone asked,
small for files of any size.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right

from bs4_agent.streams.budget import Budget

#: Bytes between two counts at first. Counting newlines in blocks of this size takes 0.29 s for 505
#: MB (lab.md, part E).
STRIDE = 64 * 1024
#: Counts held per file: 128 KiB. When they are used up every second one is dropped and the stride
#: doubles; a 100 GB file ends at 8 MiB.
MAX_COUNTS = 16384
#: A "line" without LF for longer than this is taken in pieces: no query walks back through
#: gigabytes of it.
LINE_LIMIT = 4 * 1024 * 1024


class LineIndex:
    """Newline counts of one file that only grows. `extend` costs a read of what is new, everything
    else at most one stride.
    """

    def __init__(self) -> None:
        self._stride = STRIDE
        self._counts = array("Q")
        """Newlines before offset (i + 1) * stride."""

    @property
    def scanned(self) -> int:
        """Bytes from the start of the file that are indexed."""
        return len(self._counts) * self._stride

    @property
    def newlines(self) -> int:
        """Newlines among the indexed bytes."""
        if self._counts:
            return self._counts[-1]
        return 0

    def extend(self, fd: int, size: int, budget: Budget, line: int) -> bool:
        """Index the whole strides below `size`, or until the end of `line` is among them; False
        when the budget ended first.
        """
        while self.scanned + self._stride <= size and self.newlines <= line:
            if budget.spent:
                return False
            newlines = _count(fd, self.scanned, self._stride)
            self._counts.append(self.newlines + newlines)
            if len(self._counts) == MAX_COUNTS:
                self._counts = self._counts[1::2]
                self._stride *= 2
        return True

    def count(self, fd: int, size: int) -> int:
        """Newlines in the first `size` bytes, all whole strides of which are indexed."""
        return self.newlines + _count(fd, self.scanned, size - self.scanned)

    def before(self, fd: int, place: int) -> int:
        """Newlines before offset `place`, which lies among the indexed bytes or in the stride
        behind them.
        """
        step = min(place // self._stride, len(self._counts))
        return (self._counts[step - 1] if step else 0) + _count(
            fd, step * self._stride, place - step * self._stride
        )

    def offset(self, fd: int, size: int, line: int) -> int | None:
        """Where 0-based `line`, up to which `extend` has come, begins; None when the first `size`
        bytes have fewer newlines.
        """
        if line == 0:
            return 0
        step = bisect_right(self._counts, line - 1)
        skipped = self._counts[step - 1] if step else 0
        return nth_newline(fd, step * self._stride, size, line - skipped)


def nth_newline(fd: int, start: int, end: int, count: int) -> int | None:
    """The offset behind the `count`-th newline (from 1) of [start, end), or None when there are
    fewer.
    """
    while start < end:
        block = os.pread(fd, min(STRIDE, end - start), start)
        if not block:
            return None
        found = block.count(b"\n")
        if found >= count:
            position = -1
            for _ in range(count):
                position = block.index(b"\n", position + 1)
            return start + position + 1
        count -= found
        start += len(block)
    return None


def line_start(fd: int, offset: int, limit: int = LINE_LIMIT) -> int:
    """Where the line begins that `offset` lies in (`offset` itself when a line begins there),
    looking back at most `limit` bytes.
    """
    lowest = max(0, offset - limit)
    while offset > lowest:
        begin = max(lowest, offset - STRIDE)
        newline = os.pread(fd, offset - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        offset = begin
    return lowest


def ends_with_newline(fd: int, size: int) -> bool:
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"


def _count(fd: int, start: int, length: int) -> int:
    newlines = 0
    while length > 0:
        block = os.pread(fd, min(STRIDE, length), start)
        if not block:
            break
        newlines += block.count(b"\n")
        start += len(block)
        length -= len(block)
    return newlines
