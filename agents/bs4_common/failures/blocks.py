"""Reading a file as blocks of whole lines, and the lines of a block by number. Offsets are always
offsets in the file, whatever is cut or left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import BinaryIO

from bs4_common.trainers.lines import visible

#: Lines longer than this are cut for parsing.
LINE_CAP = 64 * 1024
#: Bytes of the end of a block that are looked at together for its last line.
_TAIL = 4096


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

    def place(self, number: int, start: int) -> int:
        """Return the byte offset in the file of the line `number`, counted from 0 in the block,
        which begins at the byte `start` of `data`.
        """
        return self.offset + (start if self._raw is self.lines else self._raw.at(number)[0])


class Lines:
    """The lines in `data`, the bytes of a block (a piece of a log file that holds whole lines). A
    line is named by its number in the block, counted from 0. Where each line begins is computed
    only when it is first needed.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._count = -1
        self._starts: array[int] | None = None
        self._counted = (0, 0)
        """The offset up to which line ends were counted, and their number."""
        self.dated = 0
        """The times of the lines that begin before this offset have been taken."""

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
        return start, _capped(self.data[start : starts[number + 1] + number])

    def line_at(self, start: int) -> bytes:
        """Return the line that begins at the byte `start` of the block, as `at` does. It is found
        without the places of the other lines, whose computing takes 1 ms.
        """
        end = self.data.find(b"\n", start)
        return _capped(self.data[start:] if end < 0 else self.data[start:end])

    def before(self, offset: int, least: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield (byte offset in the block, the line as `at` returns it) for the lines that begin
        before `offset`, the last first. `offset` is where a line begins, or the end of the block.
        Lines that begin before `least` are left out.
        """
        end = offset - (offset > 0 and self.data[offset - 1 : offset] == b"\n")
        while offset > least:
            offset = self.data.rfind(b"\n", 0, end) + 1
            if offset < least:
                return
            yield offset, _capped(self.data[offset:end])
            end = offset - 1

    def next_start(self, offset: int) -> int:
        """Return the byte offset of the first line that begins at or after `offset`, or the length
        of the block if there is none.
        """
        if not offset:
            return 0
        return self.data.find(b"\n", offset - 1) + 1 or len(self.data)

    def number(self, offset: int) -> int:
        """Return the number of the line that begins at the byte `offset`. Calls with growing
        offsets count each line end once.
        """
        known, number = self._counted
        if offset < known:
            number -= self.data.count(b"\n", offset, known)
        else:
            number += self.data.count(b"\n", known, offset)
        self._counted = offset, number
        return number

    def count(self) -> int:
        """Return the number of lines in the block."""
        if self._count < 0:
            self._count = self.number(len(self.data)) + (not self.data.endswith(b"\n"))
        return self._count

    def written(self) -> Iterator[tuple[int, bytes]]:
        """Yield (byte offset in the block, the line as `at` returns it) for the lines from the last
        one that holds more than white space back to the first. Yield nothing if all lines are
        blank.
        """
        end, kept = len(self.data), 0
        while end and not kept:
            tail = max(0, end - _TAIL)
            kept = len(self.data[tail:end].rstrip())
            end = tail + kept
        if kept:
            start = self.data.rfind(b"\n", 0, end) + 1
            yield start, self.line_at(start)
            yield from self.before(start)

    def all(self) -> Iterator[tuple[int, bytes]]:
        """Yield (byte offset in the block, the line without its line feed) for each line from first
        to last. Of a line longer than 64 KiB, only the first 64 KiB are yielded.
        """
        start = 0
        for raw in self.data.removesuffix(b"\n").split(b"\n"):
            yield start, _capped(raw)
            start += len(raw) + 1


def _capped(raw: bytes) -> bytes:
    """Return a line without what lies beyond 64 KiB of it. A progress bar draws itself a thousand
    times before the line ends. The last drawing counts.
    """
    return raw if len(raw) <= LINE_CAP else visible(raw)[:LINE_CAP]


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
