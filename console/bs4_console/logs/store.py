"""The lines that a log view holds: raw chunks go in, numbered lines come out. The memory is bounded
whatever the pod writes.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from bs4_console.logs.text import ANSWERED, clean, clock_of, has_json

#: Bytes of text that one view holds. 64 MiB is about half a million lines of 120 characters. Older
#: lines are fetched from the pod again.
CAP_BYTES = 64 * 1024 * 1024
#: Bytes of one block of lines. The oldest block is dropped as a whole.
BLOCK_BYTES = 1024 * 1024
#: The number of bytes of an unfinished line that are shown and searched, because they are examined
#: again with every read.
OPEN_BYTES = 64 * 1024
#: Limits for long lines in bytes. Of a line longer than LINE_BYTES, only its first OPEN_BYTES and
#: the text that came with its end are kept. The same holds for a line longer than OPEN_BYTES while
#: all unfinished lines together hold OPEN_TOTAL.
LINE_BYTES = 4 * 1024 * 1024
OPEN_TOTAL = 16 * 1024 * 1024
#: The source number of the view's own lines (a gap, a new file).
MARK = 255

_NEWLINE = re.compile(rb"\n")
_LEFT_OUT = re.compile(" bytes left out … ".encode())


#: The place of a line on its pod: source, generation, byte offset. In generation 0 the place is not
#: known.
Place = tuple[int, int, int]
#: A line with its place: source, generation, byte offset, raw bytes without LF.
Row = tuple[int, int, int, bytes]


@dataclass(kw_only=True)
class Block:
    """A part of a LogStore. `data` has whole lines, each ended by LF, and `first` is the number in
    the LogStore of the first one. The arrays have one entry for each line: `starts` has its offset
    in `data`, `sources` the number of its log, `generations` the number of the log's file on the
    pod in which it is, and `offsets` the byte in that file. If the pod has filtered the log,
    `passed` is the filter's `key`, else None.
    """

    first: int
    data: bytearray = field(default_factory=bytearray)
    starts: array[int] = field(default_factory=lambda: array("Q"))
    sources: array[int] = field(default_factory=lambda: array("B"))
    generations: array[int] = field(default_factory=lambda: array("I"))
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    passed: object = None
    """The key of the filter that these lines passed on the pod, or None if no line is missing."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def footprint(self) -> int:
        """Return how many bytes of memory the block takes. That includes an index of 21 bytes for
        each line.
        """
        return len(self.data) + 21 * len(self.starts)

    def add(self, lines: bytes, source: int, generation: int, offsets: Sequence[int]) -> None:
        """Append the whole lines in `lines`, which belong to the log with the number `source`. They
        come from the log's file with the number `generation` on the pod. `offsets` has, for each
        line, the byte at which it begins in that file.
        """
        base = len(self.data)
        self.data += lines
        starts = line_starts(lines, base)
        self.starts.extend(starts)
        self.sources.frombytes(bytes((source,)) * len(starts))
        self.generations.extend(array("I", (generation,)) * len(starts))
        self.offsets.extend(offsets)

    def line(self, index: int) -> bytes:
        """Return the line at `index` in the block (from 0), without its LF."""
        following = index + 1
        end = self.starts[following] if following < len(self.starts) else len(self.data)
        return bytes(self.data[self.starts[index] : end - 1])


def line_starts(lines: bytes, base: int = 0) -> list[int]:
    """Return a list with the offset of the first byte of each line in `lines`, to each of which
    `base` is added. `lines` has only whole lines, each ended by LF.
    """
    return [base, *(match.end() + base for match in _NEWLINE.finditer(lines))][:-1]


class Repeats:
    """Removes lines that repeat those of another log, because a launcher prints its trainer's log
    once more. A log is called a source here. Lines that are short or have no time of day are not
    removed, and neither are lines that a log itself repeats. `dropped` is the number of removed
    lines.

    If two sources have the same line, the copy that comes first stays. Sources are numbered so that
    those that repeat others come last. `owners` says to which source a line belongs if its copy
    from a source with a higher number came first.

    Whole chunks are compared as sets, which is fast. A chunk is examined line by line only if it
    has a line in common with another source. At least the last MEMORY (8192) lines of each source
    are remembered. Lines of fewer than LEAST (24) bytes are not compared.
    """

    #: The number of lines that are remembered of each source before the next such set begins. Two
    #: sets are kept. A repetition comes at most one read later.
    MEMORY = 8192
    #: Shorter lines are often equal by chance.
    LEAST = 24

    def __init__(self) -> None:
        self.dropped = 0
        self.owners: dict[bytes, int] = {}
        self._seen: dict[int, tuple[set[bytes], set[bytes]]] = {}

    def without(
        self, lines: bytes, source: int, offsets: Sequence[int]
    ) -> tuple[bytes, Sequence[int]]:
        """Remove from a chunk of one log the lines that another log has brought shortly before.
        `lines` are the whole lines of the chunk, `source` is the number of its log, and `offsets`
        has the byte at which each line begins in that log. Return the lines that are left, and
        their offsets. The chunk is remembered, so that later chunks of other logs are compared with
        it.
        """
        parts = [part + b"\n" for part in lines[:-1].split(b"\n")]
        others: list[set[bytes]] = []
        later: list[set[bytes]] = []
        for number, pair in self._seen.items():
            if number != source:
                others += pair
            if number > source:
                later += pair
        if not all(found.isdisjoint(parts) for found in others):
            pairs = zip(parts, offsets, strict=True)
            kept = [pair for pair in pairs if not self._repeats(pair[0], others)]
            if len(kept) < len(parts):
                self._own(parts, source, later)
            self.dropped += len(parts) - len(kept)
            parts, offsets = [line for line, _ in kept], [at for _, at in kept]
            lines = b"".join(parts)
        self._remember(parts, source)
        return lines, offsets

    def among(self, rows: Sequence[Row]) -> list[Row]:
        """Return the lines (rows) of one page without those that repeat a line of another log
        earlier in the page.
        """
        first: dict[bytes, int] = {}
        kept = []
        for row in rows:
            if (
                first.setdefault(row[3], row[0]) == row[0]
                or len(row[3]) < self.LEAST
                or clock_of(row[3]) is None
            ):
                kept.append(row)
        self.dropped += len(rows) - len(kept)
        return kept

    def _repeats(self, line: bytes, others: list[set[bytes]]) -> bool:
        """Return True if another source wrote this line and the line is long enough and has a
        clock.
        """
        return (
            any(line in found for found in others)
            and len(line) >= self.LEAST
            and clock_of(line) is not None
        )

    def _own(self, parts: Sequence[bytes], source: int, later: Sequence[set[bytes]]) -> None:
        """Note that those of `parts` which a source of a later rank has written first belong to
        `source`. At most MEMORY lines are remembered, the newest.
        """
        for part in parts:
            if self._repeats(part, list(later)):
                self.owners[part] = source
        while len(self.owners) > self.MEMORY:
            del self.owners[next(iter(self.owners))]

    def _remember(self, parts: list[bytes], source: int) -> None:
        """Remember the lines of a source, at most twice MEMORY."""
        new, old = self._seen.get(source, (set(), set()))
        if len(new) >= self.MEMORY:
            new, old = set(), new
        new.update(parts[-self.MEMORY :])
        self._seen[source] = (new, old)


class LogStore:
    """The lines of one or more logs (sources) that are held in memory, in the order in which they
    are shown. If they take more than `cap_bytes`, the oldest are dropped.

    Each line has a number that never changes: the first line ever appended has 0, and lines put
    before it have negative numbers. The finished lines have the numbers n with `first <= n < end`.
    The unfinished last line of each log follows as `end`, `end + 1`, ... until it is finished.
    """

    def __init__(self, cap_bytes: int = CAP_BYTES, *, repeats: Repeats | None = None) -> None:
        self.cap_bytes = cap_bytes
        self.repeats = repeats
        self.first = 0
        self.end = 0
        self.bytes = 0
        self.received = 0
        """The number of bytes ever appended, to compute a rate."""
        self.revision = 0
        """A number that grows whenever an unfinished line may have changed."""
        self.full = False
        """True if the cap refused older lines."""
        self.requests = False
        """True once a line of an access log was held whose request was answered well."""
        self.json = False
        """True once a line of JSON was held, which is shown in the usual form of a log line."""
        self._blocks: list[Block] = []
        self._open: dict[int, _Open] = {}
        self.complete_from: int | None = None
        """Below this number only lines that passed a filter are held. None: all lines are held."""

    def __len__(self) -> int:
        """Return the number of lines that can be shown, including the unfinished ones."""
        return self.end - self.first + len(self.open_sources)

    @property
    def blocks(self) -> list[Block]:
        """Return the blocks, which are the parts into which the finished lines are divided in
        memory, oldest first.
        """
        return self._blocks

    @property
    def open_sources(self) -> list[int]:
        """Return the numbers of those logs (sources) whose last line is unfinished, in ascending
        order.
        """
        return sorted(source for source, held in self._open.items() if held.text)

    def append(self, data: bytes, source: int = 0, cursor: str | None = None) -> None:
        """Append bytes of the log with the number `source`, exactly as they are on the pod; they
        may end in the middle of a line. `cursor` is the place of the first one on the pod,
        GENERATION:OFFSET (the number of one of the log's files, and the byte in it), or None if it
        is not known.
        """
        self.received += len(data)
        self.revision += 1
        generation, offset = _place(cursor)
        held = self._open.get(source)
        cut = data.rfind(b"\n") + 1
        if cut == 0:
            crowded = sum(len(other.text) for other in self._open.values()) > OPEN_TOTAL
            held = held or _Open(b"", generation, offset, 0)
            self._open[source] = held.grown(data, OPEN_BYTES if crowded else LINE_BYTES)
            return
        whole = data[:cut]
        starts = line_starts(whole, offset)
        if held and held.size:
            whole = held.text + held.ellipsis(whole.find(b"\n")) + whole
            starts[0], generation = held.offset, held.generation or generation
        rest = data[cut:]
        self._open[source] = _Open(rest, generation, offset + cut, len(rest)).bounded()
        self._add(clean(whole), source, generation, starts)

    def unfinished(self, text: bytes, source: int = 0, cursor: str | None = None) -> None:
        """Replace the unfinished last line of the log with the number `source` by `text`. Use this
        for a chunk that brings that line again from its start, longer than before. `cursor` is the
        line's place on the pod (GENERATION:OFFSET), or None if it is not known.
        """
        generation, offset = _place(cursor)
        self.revision += 1
        self._open[source] = _Open(text, generation, offset, len(text)).bounded()

    def finish(self, source: int = 0) -> None:
        """Turn the unfinished last line of the log with the number `source` into a finished line,
        because the log's file has ended and no more of the line will come. Do nothing if there is
        no such line.
        """
        held = self._open.pop(source, None)
        self.revision += 1
        if held and held.text:
            self._add(
                clean(held.text + held.ellipsis(0) + b"\n"), source, held.generation, [held.offset]
            )

    def mark(self, text: str) -> None:
        """Append a line `text` that is in no log. It tells the reader something about the logs, for
        example that a part is missing or that another file begins.
        """
        self._add(text.encode() + b"\n", MARK, 0, [0])

    def extend(self, rows: Sequence[Row], passed: object = None) -> None:
        """Append the whole lines `rows` in the given order; they may be of several logs. If the pod
        has filtered the logs, so that only some lines came, `passed` is that filter's `key`, else
        None.
        """
        for source, generation, offset, line in rows:
            self._add(clean(line + b"\n"), source, generation, [offset], passed)

    def prepend_rows(self, rows: Sequence[Row], passed: object = None) -> int:
        """Put the earlier lines `rows`, whole and in the given order, before all other lines.
        Return the number of lines that were put there. If they do not fit into memory, none is put
        there, 0 is returned, and the attribute `full` becomes True. If the pod has filtered the
        logs, so that only some lines came, `passed` is that filter's `key`, else None.
        """
        block = Block(first=0, passed=passed)
        for source, generation, offset, line in self.repeats.among(rows) if self.repeats else rows:
            block.add(clean(line + b"\n"), source, generation, [offset])
        self.requests = self.requests or ANSWERED.search(block.data) is not None
        self.json = self.json or has_json(block.data)
        if passed is not None and self.complete_from is None:
            self.complete_from = self.first
        if self.bytes + block.footprint > self.cap_bytes:
            self.full = True
            return 0
        if len(block):
            self.first -= len(block)
            block.first = self.first
            self._blocks.insert(0, block)
            self.bytes += block.footprint
        return len(block)

    def place(self, number: int) -> Place | None:
        """Return the place on the pod of the line with this number, as three numbers: that of its
        log, that of the log's file (the generation), and the byte offset in that file. Return None
        if the place is not known. It is None too for a line that the console itself has added with
        `mark`, because that line is in no log. Raises IndexError if the store has no such line.
        """
        if number >= self.end:
            source = self.open_sources[number - self.end]
            place = (source, self._open[source].generation, self._open[source].offset)
        else:
            block = self._blocks[self.block_of(number)]
            index = number - block.first
            place = (block.sources[index], block.generations[index], block.offsets[index])
        return place if place[1] else None

    def number_at(self, place: Place) -> int | None:
        """Return the number of the line that begins at `place` on the pod, or None if it is not in
        memory. This takes 4 ms for half a million lines.
        """
        source, generation, offset = place
        for block in self._blocks:
            index = -1
            try:
                while True:
                    index = block.offsets.index(offset, index + 1)
                    if block.sources[index] == source and block.generations[index] == generation:
                        return block.first + index
            except ValueError:
                continue
        for number, open_source in enumerate(self.open_sources, self.end):
            held = self._open[open_source]
            if (open_source, held.generation, held.offset) == place:
                return number
        return None

    def cut_lines(self) -> list[int]:
        """Return the numbers of the lines of which only the beginning and the end are held, because
        they are very long. Return an empty list if there are none. This takes 20 ms for 64 MiB.
        """
        rows = []
        for block in self._blocks:
            for found in _LEFT_OUT.finditer(block.data):
                rows.append(block.first + bisect_right(block.starts, found.start()) - 1)
        return rows

    def line(self, number: int) -> tuple[int, bytes]:
        """Return two things for the line with this number: the number of its log, with which the
        log's lines were added, and its bytes without control sequences and LF. The lines of all
        logs are numbered together: the first line that was appended has 0, and lines put before it
        have negative numbers. Raises IndexError if the line is not in memory.
        """
        if number >= self.end:
            source = self.open_sources[number - self.end]
            return source, clean(self._open[source].shown + b"\n")[:-1]
        block = self._blocks[self.block_of(number)]
        index = number - block.first
        return block.sources[index], block.line(index)

    def passed(self, number: int) -> object:
        """Return the key (`LogFilter.key`) of the filter that was set when the pod sent the line
        with this number, or None if no filter was set, so that its neighbours were sent too. Raises
        IndexError if the line is not in memory or is unfinished.
        """
        return self._blocks[self.block_of(number)].passed

    def block_of(self, number: int) -> int:
        """Return the index in `blocks` of the block that has the line with this number. Raises
        IndexError if the line is not in memory or is unfinished.
        """
        if not self.first <= number < self.end:
            raise IndexError(number)
        return bisect_right(self._blocks, number, key=lambda block: block.first) - 1

    def clear(self) -> None:
        """Remove all lines, and number the next ones from 0 again. A view does this when it moves
        to another place in the logs.
        """
        self._blocks.clear()
        self._open.clear()
        self.revision += 1
        self.first = self.end = self.bytes = 0
        self.full, self.complete_from = False, None

    def drop(self) -> None:
        """Remove all lines, but do not begin to number from 0 again: the next line gets the number
        that `end` has now.
        """
        self._blocks.clear()
        self._open.clear()
        self.revision += 1
        self.first, self.bytes, self.full, self.complete_from = self.end, 0, False, None

    def _add(
        self,
        lines: bytes,
        source: int,
        generation: int,
        offsets: Sequence[int],
        passed: object = None,
    ) -> None:
        if self.repeats is not None and source != MARK:
            lines, offsets = self.repeats.without(lines, source, offsets)
            if not lines:
                return
        if (
            not self._blocks
            or len(self._blocks[-1].data) >= BLOCK_BYTES
            or self._blocks[-1].passed != passed
        ):
            self._blocks.append(Block(first=self.end, passed=passed))
        self.requests = self.requests or ANSWERED.search(lines) is not None
        self.json = self.json or has_json(lines)
        block = self._blocks[-1]
        before = block.footprint
        block.add(lines, source, generation, offsets)
        self.bytes += block.footprint - before
        self.end = block.first + len(block)
        while self.bytes > self.cap_bytes and len(self._blocks) > 1:
            self.bytes -= self._blocks.pop(0).footprint
            self.first = self._blocks[0].first


@dataclass(frozen=True)
class _Open:
    """An unfinished line: the part of it that is held, its place, and its current size in bytes."""

    text: bytes
    generation: int
    offset: int
    size: int

    @property
    def shown(self) -> bytes:
        """Return the text to show. A long line is cut, and the text says how many bytes it has so
        far.
        """
        long = len(self.text) > OPEN_BYTES or (self.size > OPEN_BYTES and b"\r" not in self.text)
        if long:
            return self.text[:OPEN_BYTES] + f" … {self.size:,} bytes so far".encode()
        return self.text

    def grown(self, data: bytes, limit: int) -> _Open:
        """Return the line with `data` appended. `limit` is the number of bytes that may be held of
        it.
        """
        cut = self.size > len(self.text) and b"\r" not in self.text and b"\r" not in data
        return _Open(
            self.text if cut else self.text + data,
            self.generation,
            self.offset,
            self.size + len(data),
        ).bounded(limit)

    def bounded(self, limit: int = LINE_BYTES) -> _Open:
        """Return the line with less text if it is too long: the last rewrite of a progress bar, or
        the first OPEN_BYTES of a line longer than `limit` bytes.
        """
        if len(self.text) <= OPEN_BYTES:
            return self
        last = self.text.rfind(b"\r", 0, len(self.text) - 1)
        if last < 0 and len(self.text) <= limit:
            return self
        return _Open(
            self.text[max(last, 0) :][:OPEN_BYTES], self.generation, self.offset, self.size
        )

    def ellipsis(self, more: int) -> bytes:
        """Return the text that stands for the bytes that are not held, or b"" if all are. `more` is
        the number of bytes that end the line, and they follow this text.
        """
        left_out = self.size - len(self.text)
        if left_out and b"\r" not in self.text:
            return f" … {left_out:,} of {self.size + more:,} bytes left out … ".encode()
        return b""


def _place(cursor: str | None) -> tuple[int, int]:
    """Return the generation and offset of a cursor. Return (0, 0) without a cursor, and for a
    generation that does not fit its array.
    """
    generation, colon, offset = (cursor or "").partition(":")
    number = int(generation) if colon else 0
    if 0 < number < 1 << 32:
        return (number, int(offset))
    return (0, 0)
