"""Which lines of a store are shown, and where a line is among them."""

from __future__ import annotations

import re
import time
from array import array
from bisect import bisect_left
from dataclasses import dataclass

from bs4_console.core.log_store import MARK, Block, LogStore
from bs4_console.core.log_text import level_of

#: Bytes of a line that a pattern looks at: a pattern over an unbounded line is how Toolong hangs (its issue 55).
REACH = 4096


@dataclass(frozen=True)
class LogFilter:
    """`pattern`: lines that match (or, inverted, do not). `floor`: least level; a line without a level goes with the one before it."""

    pattern: re.Pattern[bytes] | None = None
    invert: bool = False
    floor: int = 0

    @classmethod
    def parse(cls, text: str, floor: int = 0) -> LogFilter:
        """What a person typed after `/`: a regular expression, `!` in front inverts. Small letters match both cases; what is no
        valid expression is taken literally."""
        invert, text = text.startswith("!"), text.removeprefix("!")
        return cls(compile_pattern(text) if text else None, invert and bool(text), floor)

    @property
    def active(self) -> bool:
        return self.pattern is not None or self.floor > 0

    def matches(self, line: bytes) -> bool:
        return self.pattern is None or (self.pattern.search(line[:REACH]) is None) == self.invert


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """Smart case: a capital letter makes the match exact."""
    flags = re.MULTILINE | (0 if any(c.isupper() for c in text) else re.IGNORECASE)
    try:
        return re.compile(text.encode(), flags)
    except re.error:
        return re.compile(re.escape(text.encode()), flags)


class Lens:
    """The visible lines of a store under a filter, built in slices so that typing a filter never blocks the screen.

    Without a filter it is the identity and costs nothing. Positions are 0-based among the visible lines, numbers are the store's.
    """

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.filter = LogFilter()
        self._hits: array[int] = array("q")
        self._low = self._high = store.first
        self._level = 0

    def set(self, wanted: LogFilter) -> None:
        self.filter = wanted
        self._hits = array("q")
        self._low = self._high = self.store.first
        self._level = 0

    def __len__(self) -> int:
        return len(self._hits) if self.filter.active else len(self.store)

    @property
    def pending(self) -> bool:
        """Whether lines were not looked at yet."""
        return self.filter.active and (self._high < self.store.end or self._low > self.store.first)

    def number(self, position: int) -> int:
        """The store's number of the visible line at `position`."""
        return self._hits[position] if self.filter.active else self.store.first + position

    def position(self, number: int) -> int:
        """Where the line is, or the first visible one after it: the anchor of a view survives a change of filter."""
        if not self.filter.active:
            return min(max(number - self.store.first, 0), max(len(self.store) - 1, 0))
        return min(bisect_left(self._hits, number), max(len(self._hits) - 1, 0))

    def step(self, budget_s: float = 0.008) -> bool:
        """Look at more lines for about `budget_s`; True while some are left. Block by block: a block takes 1 to 10 ms."""
        if not self.filter.active:
            return False
        self._forget_pruned()
        deadline = time.perf_counter() + budget_s
        while self.pending:
            self._scan_newer() if self._high < self.store.end else self._scan_older()
            if time.perf_counter() > deadline:
                break
        return self.pending

    def _forget_pruned(self) -> None:
        if self._low >= self.store.first:
            return
        cut = bisect_left(self._hits, self.store.first)
        if cut:
            self._hits = self._hits[cut:]
        self._low = self.store.first
        self._high = max(self._high, self._low)

    def _scan_newer(self) -> None:
        block = self.store.blocks[self.store.block_of(self._high)]
        start = self._high - block.first
        self._hits.extend(self._matching(block, start))
        self._high = block.first + len(block)

    def _scan_older(self) -> None:
        block = self.store.blocks[self.store.block_of(self._low - 1)]
        level, self._level = self._level, 0
        self._hits = array("q", self._matching(block, 0)) + self._hits
        self._low, self._level = block.first, level

    def _matching(self, block: Block, start: int) -> list[int]:
        wanted = self.filter
        if wanted.pattern is not None and not wanted.invert and not wanted.floor:
            return self._by_search(block, start, wanted.pattern)
        return [block.first + i for i in range(start, len(block)) if self._keeps(block, i)]

    def _keeps(self, block: Block, index: int) -> bool:
        if block.sources[index] == MARK:
            return True
        line = block.line(index)
        if self.filter.floor:
            own = level_of(line)
            self._level = self._level if own is None else own
            if self._level < self.filter.floor:
                return False
        return self.filter.matches(line)

    def _by_search(self, block: Block, start: int, pattern: re.Pattern[bytes]) -> list[int]:
        """One C-level search a hit instead of one a line: 130 MB take 0.1 s when little matches."""
        hits: list[int] = []
        starts, data, count = block.starts, block.data, len(block)
        index = start
        while index < count and (found := pattern.search(data, starts[index])):
            index = bisect_left(starts, found.start() + 1, index) - 1
            # The expression may have matched across a line's end: the line alone decides.
            if self.filter.matches(block.line(index)):
                hits.append(block.first + index)
            index += 1
        return hits

    def find(self, pattern: re.Pattern[bytes], after: int, step: int) -> int | None:
        """The nearest visible line beyond position `after` in direction `step` (+1, -1) that matches, as a position."""
        position = after + step
        while 0 <= position < len(self):
            source, line = self.store.line(self.number(position))
            if source != MARK and pattern.search(line[:REACH]):
                return position
            position += step
        return None
