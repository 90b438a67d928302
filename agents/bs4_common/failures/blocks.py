"""Reading a file as blocks of whole lines, and the lines of a block by number. Offsets are always
offsets in the file, whatever is cut or left out.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import BinaryIO

from bs4_common.trainers.lines import visible

#: Lines longer than this are cut for parsing.
LINE_CAP = 64 * 1024


@dataclass
class Block:
    """A piece of a log file that holds whole lines. `offset` (bytes) and `line` (counted from 0)
    are the place of its first line in the file. `t` is the time of the last line above the block
    that shows one, as a Unix time in seconds (in a kernel log perhaps since the boot), or None if
    no line shows one.
    """

    data: bytes
    offset: int
    line: int
    t: float | None
    raw: bytes | None = None
    """The lines as they stand in the file, if something was taken off them."""
    lines: Lines = field(init=False)

    def __post_init__(self) -> None:
        self.lines = Lines(self.data)
        self._raw = self.lines if self.raw is None else Lines(self.raw)

    def place(self, number: int) -> int:
        """Return the byte offset in the file of the line `number`, counted from 0 in the block."""
        return self.offset + self._raw.at(number)[0]


class Lines:
    """The lines in `data`, the bytes of a block (a piece of a log file that holds whole lines). A
    line is named by its number in the block, counted from 0. Where each line begins is computed
    only when it is first needed.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._count = -1
        self._starts: array[int] | None = None
        self.dated = 0
        """The times of the lines above this one have been taken."""

    def _index(self) -> array[int]:
        """Return how many bytes, without line ends, stand before each line, with a last entry for
        the end.
        """
        if self._starts is None:
            self._starts = array("q", accumulate(map(len, self.data.split(b"\n")), initial=0))
        return self._starts

    def any(self, find: Callable[[bytes, int, int], object], first: int, last: int) -> bool:
        """Return True if `find` finds a match in the lines with the numbers `first` to `last` (both
        included). Return True also if these lines hold a terminal's escape sequence, because it
        could split a word. `find(data, begin, end)` searches `data` from byte `begin` to byte `end`
        and returns None for no match.
        """
        starts = self._index()
        begin, end = starts[first] + first, starts[last + 1] + last
        return find(self.data, begin, end) is not None or self.data.find(b"\x1b", begin, end) >= 0

    def at(self, number: int) -> tuple[int, bytes]:
        """Return (byte offset in the block, the line without its line feed) of the line `number`.
        Of a line longer than 64 KiB, only the first 64 KiB of what a terminal would show are
        returned.
        """
        starts = self._index()
        start = starts[number] + number
        raw = self.data[start : starts[number + 1] + number]
        # A progress bar draws itself a thousand times before the line ends. The last drawing
        # counts.
        return start, raw if len(raw) <= LINE_CAP else visible(raw)[:LINE_CAP]

    def index(self, offset: int) -> int:
        """Return the number of the first line that begins at or after `offset`, in bytes from the
        beginning of the block.
        """
        starts = self._index()
        return bisect_left(range(len(starts)), offset, key=lambda number: starts[number] + number)

    def count(self) -> int:
        """Return the number of lines in the block."""
        if self._count < 0:
            self._count = self.data.count(b"\n") + (not self.data.endswith(b"\n"))
        return self._count

    def last_written(self) -> int:
        """Return the number of the last line that holds more than white space, or -1 if all lines
        are blank.
        """
        end = len(self.data.rstrip())
        if end:
            return self.data.count(b"\n", 0, end)
        return -1

    def all(self) -> Iterator[tuple[int, bytes]]:
        """Yield (byte offset in the block, the line without its line feed) for each line from first
        to last. Of a line longer than 64 KiB, only the first 64 KiB are yielded.
        """
        for number in range(self.count()):
            yield self.at(number)


def blocks(handle: BinaryIO, size: int) -> Iterator[tuple[int, bytes]]:
    """Read a file and yield (byte offset, data) for one piece after the other. Each piece has about
    `size` bytes and ends at the end of a line. Of a line longer than a piece, only the first 64 KiB
    are kept.
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
