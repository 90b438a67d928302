"""The lines a log view holds: raw chunks in, numbered lines out, bounded in memory whatever the pod writes."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field

from bs4_console.core.log_text import clean, clock_of

#: Bytes of text one view keeps. 64 MiB is about half a million lines of 120 characters; what is older is asked from the pod again.
CAP_BYTES = 64 * 1024 * 1024
#: Lines are kept in blocks of about this size, so that the oldest can go in one move.
BLOCK_BYTES = 1024 * 1024
#: An unfinished line longer than this keeps only its beginning. A line has no right to unbounded memory.
OPEN_BYTES = 64 * 1024
#: Source number of the view's own lines (a gap, a new file).
MARK = 255

_NEWLINE = re.compile(rb"\n")


@dataclass
class Block:
    """Whole lines, each ended by LF; `starts` holds their offsets, `sources` where each came from, `first` the number of the first."""

    first: int
    data: bytearray = field(default_factory=bytearray)
    starts: array[int] = field(default_factory=lambda: array("Q"))
    sources: array[int] = field(default_factory=lambda: array("B"))

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def footprint(self) -> int:
        """With the index: 9 bytes a line, which is not little when the lines are short."""
        return len(self.data) + 9 * len(self.starts)

    def add(self, lines: bytes, source: int) -> None:
        base = len(self.data)
        self.data += lines
        ends = [match.end() + base for match in _NEWLINE.finditer(lines)]
        self.starts.append(base)
        self.starts.extend(ends[:-1])
        self.sources.frombytes(bytes((source,)) * len(ends))

    def line(self, index: int) -> bytes:
        end = self.starts[index + 1] - 1 if index + 1 < len(self.starts) else len(self.data) - 1
        return bytes(self.data[self.starts[index] : end])


class Repeats:
    """Leaves out lines that another source has just written: a launcher prints its trainer's log once more. Lines without a clock stay,
    and so do lines that one source repeats itself.

    Whole chunks are compared as sets, in C; only a chunk that has something in common with another source is looked at line by line.
    """

    #: Lines that are remembered of each source, and as many again before they are forgotten; a repetition is at most a read behind.
    MEMORY = 8192
    #: Shorter lines are alike too often.
    LEAST = 24

    def __init__(self) -> None:
        self.dropped = 0
        self._seen: dict[int, tuple[set[bytes], set[bytes]]] = {}

    def without(self, lines: bytes, source: int) -> bytes:
        parts = lines.splitlines(keepends=True)
        others = [found for number, pair in self._seen.items() if number != source for found in pair]
        if not all(found.isdisjoint(parts) for found in others):
            kept = [line for line in parts if not self._repeats(line, others)]
            self.dropped += len(parts) - len(kept)
            parts, lines = kept, b"".join(kept)
        self._remember(parts, source)
        return lines

    def _repeats(self, line: bytes, others: list[set[bytes]]) -> bool:
        return any(line in found for found in others) and len(line) >= self.LEAST and clock_of(line) is not None

    def _remember(self, parts: list[bytes], source: int) -> None:
        new, old = self._seen.get(source, (set(), set()))
        if len(new) >= self.MEMORY:
            new, old = set(), new
        new.update(parts[-self.MEMORY :])
        self._seen[source] = (new, old)


class LogStore:
    """Numbered lines of one or more sources in the order of their arrival.

    A line keeps its number for as long as it is held: numbers are absolute, the first line ever appended is 0 and lines put before
    it are negative. So a number is an anchor that neither pruning nor filtering moves. `first <= n < end` are held; the unfinished
    last line of each source follows as `end`, `end + 1`, ... until it is finished.
    """

    def __init__(self, cap_bytes: int = CAP_BYTES, *, repeats: Repeats | None = None) -> None:
        self.cap_bytes = cap_bytes
        self.repeats = repeats
        self.first = 0
        self.end = 0
        self.bytes = 0
        self.received = 0
        """Bytes ever appended, for the rate."""
        self.full = False
        """Whether the cap refused older lines."""
        self._blocks: list[Block] = []
        self._open: dict[int, bytes] = {}

    def __len__(self) -> int:
        """Lines that can be shown, the unfinished ones included."""
        return self.end - self.first + len(self.open_sources)

    @property
    def blocks(self) -> list[Block]:
        return self._blocks

    @property
    def open_sources(self) -> list[int]:
        """Sources with an unfinished line, in order."""
        return sorted(source for source, text in self._open.items() if text)

    def append(self, data: bytes, source: int = 0) -> None:
        """Raw bytes as they came, cut anywhere."""
        self.received += len(data)
        cut = data.rfind(b"\n") + 1
        held = self._open.get(source, b"")
        if cut == 0:
            self._open[source] = _bounded(held + data)
            return
        self._open[source] = _bounded(data[cut:]) if cut < len(data) else b""
        self._add(clean(held + data[:cut] if held else data[:cut]), source)

    def unfinished(self, text: bytes, source: int = 0) -> None:
        """The unfinished last line of `source` as it is now, in place of what was held of it (a chunk that `repeats`)."""
        self._open[source] = _bounded(text)

    def finish(self, source: int = 0) -> None:
        """The unfinished line of `source` will never be continued: its file ended."""
        if held := self._open.pop(source, b""):
            self._add(clean(held + b"\n"), source)

    def mark(self, text: str) -> None:
        """A line of the view's own: a gap, the start of another file."""
        self._add(text.encode() + b"\n", MARK)

    def prepend(self, data: bytes, source: int = 0) -> int:
        """Whole older lines of a store that has one source; returns how many. Refused (0, and `full`) when there is no room."""
        lines = clean(data)
        block = Block(0)
        if lines:
            block.add(lines, source)
        if self.bytes + block.footprint > self.cap_bytes:
            self.full = True
            return 0
        if len(block):
            self.first -= len(block)
            block.first = self.first
            self._blocks.insert(0, block)
            self.bytes += block.footprint
        return len(block)

    def line(self, number: int) -> tuple[int, bytes]:
        """(source, cleaned bytes without LF) of a held line; IndexError outside."""
        if number >= self.end:
            source = self.open_sources[number - self.end]
            return source, clean(self._open[source] + b"\n")[:-1]
        block = self._blocks[self.block_of(number)]
        index = number - block.first
        return block.sources[index], block.line(index)

    def block_of(self, number: int) -> int:
        """Index of the block that holds line `number`."""
        if not self.first <= number < self.end:
            raise IndexError(number)
        return bisect_right(self._blocks, number, key=lambda block: block.first) - 1

    def clear(self) -> None:
        """Forget everything, numbers too: the view starts elsewhere."""
        self._blocks.clear()
        self._open.clear()
        self.first = self.end = self.bytes = 0
        self.full = False

    def _add(self, lines: bytes, source: int) -> None:
        if self.repeats is not None and source != MARK:
            lines = self.repeats.without(lines, source)
            if not lines:
                return
        if not self._blocks or len(self._blocks[-1].data) >= BLOCK_BYTES:
            self._blocks.append(Block(self.end))
        block = self._blocks[-1]
        before = block.footprint
        block.add(lines, source)
        self.bytes += block.footprint - before
        self.end = block.first + len(block)
        while self.bytes > self.cap_bytes and len(self._blocks) > 1:
            self.bytes -= self._blocks.pop(0).footprint
            self.first = self._blocks[0].first


def _bounded(line: bytes) -> bytes:
    """An unfinished line within OPEN_BYTES: of a progress bar its last rewrite, of anything else its beginning."""
    if len(line) <= OPEN_BYTES:
        return line
    last = line.rfind(b"\r", 0, len(line) - 1)
    return line[max(last, 0) :][:OPEN_BYTES]
