"""Which lines of a store are shown, and where a line is among them."""

from __future__ import annotations

import re
import time
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bs4_console.core.log_store import MARK, Block, LogStore
from bs4_console.core.log_text import level_of

#: Bytes of a line that a pattern looks at: a pattern over an unbounded line is how Toolong hangs (its issue 55).
REACH = 4096


#: Between the terms of a filter.
AND = " && "


@dataclass(frozen=True)
class Term:
    """`text`: a valid regular expression. `out`: lines that match are left out."""

    text: str
    ignore_case: bool
    out: bool

    @classmethod
    def parse(cls, text: str) -> Term:
        """Small letters match both cases, `!` in front leaves out; what is no valid expression is taken literally."""
        out, text = text.startswith("!"), text.removeprefix("!")
        try:
            re.compile(text.encode())
        except re.error:
            text = re.escape(text)
        return cls(text, not any(c.isupper() for c in text.replace("\\S", "").replace("\\W", "").replace("\\D", "")), out)

    def compile(self) -> re.Pattern[bytes]:
        return re.compile(self.text.encode(), re.MULTILINE | (re.IGNORECASE if self.ignore_case else 0))

    @property
    def literal(self) -> str | None:
        """The text itself where the expression is one: the pod finds that a hundred times as fast."""
        bare = re.sub(r"\\([^A-Za-z0-9])", r"\1", self.text)
        return bare if re.escape(bare) == self.text or not _META.search(self.text) else None

    def as_dict(self) -> dict[str, Any]:
        return {"pattern": self.text, "ignore_case": self.ignore_case, "out": self.out}


_META = re.compile(r"[\\.^$*+?{}\[\]|()]")


@dataclass(frozen=True)
class LogFilter:
    """`terms`: all must hold. `floor`: least level; a line without a level goes with the one before it. `fold`: of neighbours that differ
    in numbers only the first is shown."""

    terms: tuple[Term, ...] = ()
    floor: int = 0
    fold: bool = False

    @classmethod
    def parse(cls, text: str, floor: int = 0, *, fold: bool = False) -> LogFilter:
        """What a person typed after `/`: regular expressions with ` && ` between them, `!` in front of one leaves out."""
        words = [word for word in text.split(AND) if word.removeprefix("!")]
        return cls(tuple(Term.parse(word) for word in words), floor, fold)

    @property
    def active(self) -> bool:
        return bool(self.terms) or self.floor > 0 or self.fold

    @property
    def sifts(self) -> bool:
        """Whether it leaves out lines that a pod need not send."""
        return bool(self.terms) or self.floor > 0

    @property
    def key(self) -> object:
        """Equal for filters that let the same lines through."""
        return (self.terms, self.floor)

    @cached_property
    def patterns(self) -> list[tuple[re.Pattern[bytes], bool]]:
        return [(term.compile(), term.out) for term in self.terms]

    def matches(self, line: bytes) -> bool:
        line = line[:REACH]
        return all((pattern.search(line) is None) == out for pattern, out in self.patterns)

    def query(self) -> dict[str, Any]:
        """The arguments of a `sift`."""
        return {"terms": [term.as_dict() for term in self.terms], "floor": self.floor}


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """Smart case: a capital letter makes the match exact."""
    return Term.parse(text if not text.startswith("!") else re.escape(text)).compile()


def kind_of(line: bytes) -> bytes:
    """What is the same in lines that say the same: all but its numbers and the bars drawn from them."""
    return _NUMBERS.sub(b"0", line[:REACH])


_NUMBERS = re.compile(rb"[0-9][0-9.,:]*(?:e[+-]?[0-9]+)?|[\xe2\x96\x80-\x9f#]{2,}|\s{2,}")


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
        self.folded: dict[int, int] = {}
        """How many lines like it follow a shown line and are folded away."""
        self._alike: tuple[int, bytes] = (0, b"")

    def set(self, wanted: LogFilter) -> None:
        self.filter = wanted
        self._hits = array("q")
        self._low = self._high = self.store.first
        self._level = 0
        self.folded, self._alike = {}, (0, b"")

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
        alike, self._alike = self._alike, (0, b"")
        self._hits = array("q", self._matching(block, 0)) + self._hits
        self._low, self._level, self._alike = block.first, level, alike

    def _matching(self, block: Block, start: int) -> list[int]:
        wanted = self.filter
        first = next(((pattern, out) for pattern, out in wanted.patterns if not out), None)
        if block.passed is not None and block.passed == wanted.key:
            found = list(range(block.first + start, block.first + len(block)))
        elif first is not None and not wanted.floor:
            found = self._by_search(block, start, first[0])
        elif wanted.sifts:
            found = [block.first + i for i in range(start, len(block)) if self._keeps(block, i)]
        else:
            found = list(range(block.first + start, block.first + len(block)))
        return self._fold(block, found) if wanted.fold else found

    def _fold(self, block: Block, numbers: list[int]) -> list[int]:
        shown = []
        for number in numbers:
            alike = kind_of(block.line(number - block.first)) if block.sources[number - block.first] != MARK else b""
            if alike and alike == self._alike[1]:
                self.folded[self._alike[0]] = self.folded.get(self._alike[0], 0) + 1
            else:
                shown.append(number)
                self._alike = (number, alike)
        return shown

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
