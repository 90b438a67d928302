"""Find where the lines of a file begin, by newline counts at coarse steps. The counts are made only
as far as needed and stay small for files of any size.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right

from bs4_common.streams.budget import Budget

#: Bytes between two counts at first. Counting newlines in blocks of this size takes 0.29 s for 505
#: MB (measured).
STRIDE = 64 * 1024
#: Counts held for each file: 128 KiB. When they are used up, every second one is dropped and the
#: stride doubles; a 100 GB file ends at 8 MiB.
MAX_COUNTS = 16384
#: A line longer than this is taken in pieces, so that no query walks back through gigabytes without
#: an LF.
LINE_LIMIT = 4 * 1024 * 1024


class LineIndex:
    """An index of one growing file, by which its lines are found quickly by their number. It has
    the number of newlines before each of many evenly spaced bytes of the file. `extend` reads the
    part of the file that is not covered yet; every other method reads only a small part of the
    file.
    """

    def __init__(self) -> None:
        self._stride = STRIDE
        self._counts = array("Q")
        """Element i is the number of newlines before offset (i + 1) * stride."""

    @property
    def scanned(self) -> int:
        """Return how many bytes, counted from the start of the file, the index covers."""
        return len(self._counts) * self._stride

    @property
    def newlines(self) -> int:
        """Return the number of newlines in the part of the file that the index covers."""
        return self._counts[-1] if self._counts else 0

    def extend(self, fd: int, size: int, budget: Budget, line: int) -> bool:
        """Continue to count the newlines of the open file `fd`, which has `size` bytes, in steps of
        64 KiB or more, and add the counts to the index. Return True once the index covers all but a
        last part that is shorter than a step, or once it covers the beginning of `line`, a 0-based
        line number. Return False if `budget`, the time of the query, was over before that; call
        again to continue.
        """
        while self.scanned + self._stride <= size and self.newlines <= line:
            if budget.spent:
                return False
            self._counts.append(self.newlines + _count(fd, self.scanned, self._stride))
            if len(self._counts) == MAX_COUNTS:
                self._counts = self._counts[1::2]
                self._stride *= 2
        return True

    def count(self, fd: int, size: int) -> int:
        """Return the number of newlines in the first `size` bytes of the open file `fd`. Call
        `extend` for this `size` first. The last part of the file, which is shorter than a step of
        the index and not covered by it, is read during this call.
        """
        return self.newlines + _count(fd, self.scanned, size - self.scanned)

    def before(self, fd: int, place: int) -> int:
        """Return the number of newlines before byte `place` of the open file `fd`. Call `extend`
        first. The bytes between the part of the file that the index covers and `place` are read
        during this call.
        """
        step = min(place // self._stride, len(self._counts))
        return (self._counts[step - 1] if step else 0) + _count(
            fd, step * self._stride, place - step * self._stride
        )

    def offset(self, fd: int, size: int, line: int) -> int | None:
        """Return the byte at which `line`, a 0-based line number, of the open file `fd` begins.
        Return None if the first `size` bytes of the file have fewer lines. Call `extend` for this
        line first.
        """
        if line == 0:
            return 0
        step = bisect_right(self._counts, line - 1)
        skipped = self._counts[step - 1] if step else 0
        return nth_newline(fd, step * self._stride, size, line - skipped)


def nth_newline(fd: int, start: int, end: int, count: int) -> int | None:
    """Return the offset, from the beginning of the open file `fd`, at which the line after the
    `count`-th newline (the first is 1) in its bytes [start, end) begins. Return None if there are
    fewer newlines in that range.
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
    """Return the byte at which the line that contains byte `offset` of the open file `fd` begins.
    If it begins more than `limit` bytes before `offset`, return `offset - limit` instead.
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
    """Return True if the last of the first `size` bytes of the open file `fd` is a newline. Return
    True also if `size` is 0.
    """
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"


def _count(fd: int, start: int, length: int) -> int:
    """Return the number of newlines in `length` bytes from `start` on."""
    newlines = 0
    while length > 0:
        block = os.pread(fd, min(STRIDE, length), start)
        if not block:
            break
        newlines += block.count(b"\n")
        start += len(block)
        length -= len(block)
    return newlines
