"""Filter the lines of a store, and map between a line's number in the store and its position among
the visible lines.
"""

from __future__ import annotations

import re
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypedDict

from bs4_console.logs.store import MARK, Block, LogStore
from bs4_console.logs.text import (
    ANSWERED,
    GLOG_LEVELS,
    LEVELS,
    count_request,
    kind_of_request,
    level_of,
    request_of,
)

#: The number of bytes of a line that an expression covers, as a filter and in a search. An
#: expression over an unbounded line makes Toolong hang (its issue 55). A plain text is searched in
#: the whole line. The pod's scanner has the same numbers.
REACH = 4096
FIND_REACH = 16 * 1024

#: The number of lines that are examined in one go: 1 to 8 ms, so that a key waits no longer.
SLICE_LINES = 4096
#: The number of lines in which the level of a continuation is searched. A traceback is shorter.
LEVEL_LINES = 500

#: Which neighbouring lines are shown as one. requests: requests of a kind that were answered well.
#: alike: lines that differ only in numbers.
Fold = Literal["requests", "alike", "none"]

#: The separator between the terms of a filter.
AND = " && "


class TermRow(TypedDict):
    """One term of a filter (a regular expression that lines must match, or must not match if `out`
    is True), in the form in which it is sent to the agent.
    """

    pattern: str
    ignore_case: bool
    out: bool
    """True if lines with the pattern are hidden."""


class SiftQuery(TypedDict):
    """The parameters of the agent's query "sift", which filters a log on the pod. `floor` is the
    lowest level that passes, a number as in Python's `logging` (0: every level).
    """

    terms: list[TermRow]
    floor: int


@dataclass(frozen=True)
class Term:
    """One part of a filter that a person has typed. `text` is a valid regular expression. With
    `ignore_case`, upper and lower case count as the same. If `out` is True, the lines that match
    are hidden; if it is False, the lines that do not match are hidden.
    """

    text: str
    ignore_case: bool
    out: bool

    @classmethod
    def parse(cls, text: str) -> Term:
        """Return the term that the person's `text` stands for. If it has no capital letter, upper
        and lower case count as the same. If it begins with `!`, lines that match are hidden. Text
        that is no valid regular expression is taken as plain text.
        """
        out, text = text.startswith("!"), text.removeprefix("!")
        try:
            re.compile(text.encode())
        except re.error:
            text = re.escape(text)
        return cls(
            text,
            not any(
                c.isupper() for c in text.replace("\\S", "").replace("\\W", "").replace("\\D", "")
            ),
            out,
        )

    def compile(self) -> re.Pattern[bytes]:
        """Return the term's regular expression, compiled for searching bytes."""
        return re.compile(
            self.text.encode(), re.MULTILINE | (re.IGNORECASE if self.ignore_case else 0)
        )

    @property
    def literal(self) -> str | None:
        """Return the plain text for which the term stands, or None if it uses the syntax of regular
        expressions. The pod finds a plain text a hundred times as fast.
        """
        bare = re.sub(r"\\([^A-Za-z0-9])", r"\1", self.text)
        if re.escape(bare) == self.text or not _META.search(self.text):
            return bare
        return None

    def reach(self, expression: int) -> int | None:
        """Return how many bytes at the start of a line have to be searched for this term. That is
        the argument `expression`, a number of bytes, if the term uses the syntax of regular
        expressions. It is None, which means the whole line, if the term is plain text.
        """
        if self.literal is None:
            return expression
        return None

    def as_dict(self) -> TermRow:
        """Return the term as a JSON object, in the form in which the agent's query "sift", which
        filters a log on the pod, takes it.
        """
        return {"pattern": self.text, "ignore_case": self.ignore_case, "out": self.out}


_META = re.compile(r"[\\.^$*+?{}\[\]|()]")


@dataclass(frozen=True)
class LogFilter:
    """What a person wants to see of a log. A line is shown if it passes every one of `terms` and
    its level is at least `floor`, a number as in Python's `logging` (0: every level). A line
    without a level counts as having that of the line before it. `fold` says which neighbouring
    lines are shown as one: "requests" (the same request to a server, answered well), "alike" (lines
    that differ only in numbers) or "none". `found` is the text that a person searches for, or ""; a
    request that contains it is not folded with others.
    """

    terms: tuple[Term, ...] = ()
    floor: int = 0
    fold: Fold = "none"
    found: str = ""

    @classmethod
    def parse(cls, text: str, floor: int = 0, *, fold: Fold = "none", found: str = "") -> LogFilter:
        """Return the filter that `text`, typed by a person after `/`, stands for: one or more
        regular expressions with `&& ` between them, all of which must match. An expression that
        begins with `!` hides the lines that match it. `floor` is the lowest level to show, a number
        as in Python's `logging` (0: every level). `fold` and `found` become the fields of these
        names: which neighbouring lines are shown as one, and the text that a person searches for.
        """
        words = (word for word in text.split(AND) if word.removeprefix("!"))
        return cls(tuple(map(Term.parse, words)), floor, fold, found)

    @property
    def active(self) -> bool:
        """Return True if the filter can hide lines, by its terms, its level or folding (showing
        similar lines once).
        """
        return self.sifts or self.fold != "none"

    @property
    def sifts(self) -> bool:
        """Return True if the filter can leave out lines by its terms or its level. Then the pod can
        filter the log and need not send these lines. Folding (showing similar lines once) does not
        count, because only the console does it.
        """
        return bool(self.terms) or self.floor > 0

    @property
    def key(self) -> object:
        """Return a value by which two filters can be compared. It is equal for both if they let the
        same lines pass by their terms and their level. Folding (showing similar lines once) makes
        no difference.
        """
        return (self.terms, self.floor)

    @cached_property
    def patterns(self) -> list[tuple[re.Pattern[bytes], bool, int | None]]:
        """Return one tuple for each term of the filter: its compiled expression; True if the lines
        that match are hidden, or False if the lines that do not match are; and how many bytes at
        the start of a line to search (None: the whole line).
        """
        found = []
        for term in self.terms:
            found.append((term.compile(), term.out, term.reach(REACH)))
        return found

    def matches(self, line: bytes) -> bool:
        """Return True if a line passes all terms of the filter. The line's level is not checked."""
        return all(
            (pattern.search(line[:reach]) is None) == out for pattern, out, reach in self.patterns
        )

    def query(self) -> SiftQuery:
        """Return the parameters for the agent's query "sift", which filters a log on the pod by
        this filter.
        """
        return {"terms": [term.as_dict() for term in self.terms], "floor": self.floor}


def sought(text: str) -> Term:
    """Return the term for a text that a person searches for. If the text has a capital letter,
    upper and lower case are different, else they count as the same. Unlike in a filter, a `!` at
    the beginning is an ordinary character.
    """
    return Term.parse(text if not text.startswith("!") else re.escape(text))


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """Return the regular expression for bytes that finds the lines with `text`, which a person has
    typed as a search. The function `sought` says how upper and lower case count.
    """
    return sought(text).compile()


@lru_cache(maxsize=8)
def find_reach(expression: str) -> int | None:
    """Return how many bytes at the start of a line are to be searched for `expression`, which a
    person has typed as a search. It is a fixed number if the text uses the syntax of regular
    expressions, which are slow. It is None, which means the whole line, if it is plain text.
    """
    return Term(expression, ignore_case=False, out=False).reach(FIND_REACH)


@lru_cache(maxsize=8)
def words_from(floor: int) -> re.Pattern[bytes]:
    """Return a regular expression for bytes that matches the names of all levels that are at least
    `floor`, a number as in Python's `logging`. For 30, for example, it matches WARNING and ERROR.
    It also matches the letter, with month, day and hour, with which a line of such a level begins
    in glog's form, for example `W1130 06:`.
    """
    words = sorted(word.encode() for word, level in LEVELS.items() if level >= floor)
    for letter, level in GLOG_LEVELS.items():
        if level >= floor:
            # A set of letters would cost the engine its quick look for the first character.
            words.append(letter + rb"\d{3,4} \d\d:")
    return re.compile(b"|".join(words))


def kind_of(line: bytes) -> bytes:
    """Return the beginning of a line in which every number, every progress bar and every wide gap
    between words is replaced by a 0. Two lines that differ only in these give the same result, so
    they are found to be of one kind.
    """
    return _NUMBERS.sub(b"0", line[:REACH])


_NUMBERS = re.compile(rb"[0-9][0-9.,:]*(?:e[+-]?[0-9]+)?|[\xe2\x96\x80-\x9f#]{2,}|\s{2,}")


class Lens:
    """The lines of a LogStore (lines held in memory) that are visible under a filter. They are
    found in short steps, by calls of `step`, so that typing a filter never blocks the screen.

    A position is a 0-based index among the visible lines, and a number is that of a line in the
    LogStore. Without a filter every line is visible and nothing is computed. Unfinished lines that
    pass the filter come last, as in the LogStore, because they are the important ones when a run
    hangs.
    """

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.filter = LogFilter()
        self._found = compile_pattern("")
        self._hits: array[int] = array("q")
        self._middle = self._low = self._high = store.first
        self._level: int | None = None
        """The level of the last line before `_high`, or None if it is not known yet."""
        self.folded: dict[int, int] = {}
        """For a shown line, the number of similar lines that follow it and are hidden."""
        self.requests: dict[int, Counter[bytes]] = {}
        """For a shown line that stands for several requests, how often there is each of them."""
        self._alike: tuple[int, bytes] = (0, b"")
        self._open: list[int] = []
        self._open_key: object = None

    def set(self, wanted: LogFilter, near: int | None = None) -> None:
        """Use the filter `wanted` from now on, and forget which lines were found visible before.
        The next calls of `step` first examine the lines around the line with the number `near` in
        the LogStore, or the newest lines if `near` is None.
        """
        self.filter = wanted
        self._found = compile_pattern(wanted.found)
        self._hits = array("q")
        self._middle = self._low = self._high = self._slice_before(
            self.store.end if near is None else near
        )
        self._level = None
        self.folded, self.requests, self._alike = {}, {}, (0, b"")
        self._open_key = None

    def _slice_before(self, number: int) -> int:
        """Return the number at which a slice around line `number` starts."""
        return max(self.store.first, min(number, self.store.end) - SLICE_LINES // 2)

    def __len__(self) -> int:
        if self.filter.active:
            return len(self._hits) + len(self._unfinished())
        return len(self.store)

    @property
    def pending(self) -> bool:
        """Return True while there are lines in the LogStore that were not yet examined for the
        filter.
        """
        return self.filter.active and (self._high < self.store.end or self._low > self.store.first)

    def number(self, position: int) -> int:
        """Return the number in the LogStore of the visible line at `position`, a 0-based index
        among the visible lines.
        """
        if not self.filter.active:
            return self.store.first + position
        if position < len(self._hits):
            return self._hits[position]
        return self.store.end + self._unfinished()[position - len(self._hits)]

    def position(self, number: int) -> int:
        """Return the position, a 0-based index among the visible lines, of the line with this
        number in the LogStore. If that line is hidden, return the position of the first visible
        line after it, or of the last one if there is none after it. A view uses this to keep its
        place when the filter changes.
        """
        if not self.filter.active:
            return min(max(number - self.store.first, 0), max(len(self.store) - 1, 0))
        if number < self.store.end:
            at = bisect_left(self._hits, number)
        else:
            at = len(self._hits) + bisect_left(self._unfinished(), number - self.store.end)
        return min(at, max(len(self) - 1, 0))

    def stands_for(self, number: int) -> int:
        """Return the number, in the LogStore, of the line that the screen shows in place of the
        line `number`. If only folding is on (similar lines are shown as one), that is the line that
        stands for it and its like. In all other cases it is `number` itself, even if that line is
        hidden by a person's search terms or a lowest level.
        """
        if not self.filter.active or self.filter.sifts or not self._low <= number < self._high:
            return number
        at = bisect_right(self._hits, number)
        return self._hits[at - 1] if at else number

    def _unfinished(self) -> list[int]:
        """Return the indexes of the store's unfinished lines that pass. Unfinished lines change
        with every read and are examined again after it. They enter `_hits` only when they are
        whole, so that no line is shown twice.
        """
        key = (self.store.revision, self.store.end)
        if key != self._open_key:
            self._open_key = key
            count = len(self.store.open_sources)
            level = self._level_before(self.store.end) if self.filter.floor and count else 0
            self._open = []
            for n in range(count):
                if self._passes(self.store.line(self.store.end + n)[1], level):
                    self._open.append(n)
        return self._open

    def _passes(self, line: bytes, level: int) -> bool:
        """Return True if a line passes. `level` is the level of the line before it."""
        own = level_of(line) if self.filter.floor else None
        return (level if own is None else own) >= self.filter.floor and self.filter.matches(line)

    def step(self, budget_s: float = 0.008) -> bool:
        """Examine further lines of the LogStore, for about `budget_s` seconds, for whether they
        pass the filter. Those nearest to the line that was given to `set` come first. Return True
        if there are lines left to examine.
        """
        if not self.filter.active:
            return False
        self._forget_pruned()
        deadline = time.perf_counter() + budget_s
        while self.pending:
            newer, older = self._high < self.store.end, self._low > self.store.first
            if newer and (not older or self._high - self._middle <= self._middle - self._low):
                self._scan_newer()
            else:
                self._scan_older()
            if time.perf_counter() > deadline:
                break
        return self.pending

    def _forget_pruned(self) -> None:
        """Forget the results for lines that the store no longer holds."""
        first = self.store.first
        if self._low >= first:
            return
        cut, folded = bisect_left(self._hits, first), 0
        for gone in self._hits[:cut]:
            folded = self.folded.pop(gone, 0)
            self.requests.pop(gone, None)
        if cut:
            self._hits = self._hits[cut:]
        if self._alike[0] < first:
            self._alike = (0, b"")
        self._low = first
        self._high = max(self._high, first)
        if folded:
            # Lines that were folded into one that is gone may still be held. They are examined
            # again, so that one of them is shown.
            self._low = self._hits[0] if self._hits else self._high

    def _scan_newer(self) -> None:
        block = self.store.blocks[self.store.block_of(self._high)]
        start = self._high - block.first
        stop = min(start + SLICE_LINES, len(block))
        if self._level is None:
            self._level = self._level_before(self._high)
        self._hits.extend(self._matching(block, start, stop))
        self._high = block.first + stop

    def _scan_older(self) -> None:
        block = self.store.blocks[self.store.block_of(self._low - 1)]
        stop = self._low - block.first
        start = max(0, stop - SLICE_LINES)
        level, self._level = self._level, self._level_before(block.first + start)
        alike, self._alike = self._alike, (0, b"")
        found = array("q", self._matching(block, start, stop))
        alike = self._joined(found, alike)
        self._hits = found + self._hits
        self._low, self._level, self._alike = block.first + start, level, alike

    def _joined(self, older: array[int], newest: tuple[int, bytes]) -> tuple[int, bytes]:
        """Continue a fold over the edge of two slices. Return the newest shown line with its kind.

        The lines of the older slice's last kind that begin the newer results are folded into it.
        """
        if self.filter.fold == "none" or not older or not self._hits:
            if self._hits:
                return newest
            return self._alike
        last, kind = self._alike
        first = self._hits[0]
        if not kind or self._kind(self.store.line(first)[1]) != kind:
            return newest
        self.folded[last] = self.folded.get(last, 0) + 1 + self.folded.pop(first, 0)
        if self.filter.fold == "requests":
            newer, counts = self._requests_at(first), self._requests_at(last)
            for name, times in newer.items():
                count_request(counts, name, times)
            self.requests.pop(first)
        self._hits = self._hits[1:]
        if newest[0] == first:
            return (last, kind)
        return newest

    def _level_before(self, number: int) -> int:
        """Return the level of the last line before `number` that has one, or 0 if none within
        LEVEL_LINES has.
        """
        for before in range(number - 1, max(self.store.first, number - LEVEL_LINES) - 1, -1):
            source, line = self.store.line(before)
            if source != MARK and (own := level_of(line)) is not None:
                return own
        return 0

    def _matching(self, block: Block, start: int, stop: int) -> list[int]:
        """Return the numbers of the lines `start` to `stop` of a block that pass."""
        wanted = self.filter
        first = next((pattern for pattern, out, _ in wanted.patterns if not out), None)
        if not wanted.sifts or (block.passed is not None and block.passed == wanted.key):
            found = list(range(block.first + start, block.first + stop))
            # The levels of these lines are not known.
            self._level = None if wanted.floor else self._level
        elif first is not None and not wanted.floor:
            found = self._by_search(block, start, stop, first)
        elif wanted.floor and MARK not in block.sources:
            found = self._by_level(block, start, stop)
        else:
            found = []
            for i in range(start, stop):
                if self._keeps(block, i):
                    found.append(block.first + i)
        if wanted.fold != "none" and found:
            return self._fold(block, found)
        return found

    def _kind(self, line: bytes) -> bytes:
        """Return what a line has in common with those that are folded with it, or b"" if it is
        folded with none.
        """
        if self.filter.fold != "requests":
            return kind_of(line)
        return kind_of_request(self._request(line))[0]

    def _request(self, line: bytes) -> bytes:
        """Return the request in a line, or b"" if it has none or is to be a line of its own."""
        request = request_of(line)
        if request and self.filter.found:
            reach = find_reach(self._found.pattern.decode())
            if self._found.search(line[:reach]):
                return b""
        return request

    def _requests_at(self, shown: int) -> Counter[bytes]:
        """Return how often there is each of the requests for which a shown line stands, by their
        names. It can be changed.
        """
        if shown not in self.requests:
            name = kind_of_request(request_of(self.store.line(shown)[1]))[1]
            self.requests[shown] = Counter({name: 1})
        return self.requests[shown]

    def _fold(self, block: Block, numbers: list[int]) -> list[int]:
        """Return the numbers without the lines that are like their predecessor, and count those in
        `folded`.
        """
        if self.filter.fold == "requests":
            # One search in C says that there are none, as in almost every log.
            start, stop = numbers[0] - block.first, numbers[-1] - block.first + 1
            if next(_candidates(block, start, stop, ANSWERED), None) is None:
                self._alike = (numbers[-1], b"")
                return numbers
            return self._fold_requests(block, numbers)
        shown = []
        for number in numbers:
            alike = b""
            if block.sources[number - block.first] != MARK:
                alike = self._kind(block.line(number - block.first))
            if alike and alike == self._alike[1]:
                self.folded[self._alike[0]] = self.folded.get(self._alike[0], 0) + 1
            else:
                shown.append(number)
                self._alike = (number, alike)
        return shown

    def _fold_requests(self, block: Block, numbers: list[int]) -> list[int]:
        """Return the numbers without the lines whose request is of the kind of the line before.
        These are counted in `folded`, and each of their requests, by its name, in `requests`.
        """
        shown = []
        head, kind = self._alike
        counts: Counter[bytes] | None = None
        for number in numbers:
            request = b""
            if block.sources[number - block.first] != MARK:
                request = self._request(block.line(number - block.first))
            alike, name = kind_of_request(request)
            if not alike or alike != kind:
                shown.append(number)
                head, kind, counts = number, alike, None
                continue
            if counts is None:
                counts = self._requests_at(head)
            if name in counts:
                counts[name] += 1
            else:
                count_request(counts, name)
            self.folded[head] = self.folded.get(head, 0) + 1
        self._alike = (head, kind)
        return shown

    def _keeps(self, block: Block, index: int) -> bool:
        """Return True if one line of a block passes. The level of the line is remembered for the
        next one.
        """
        if block.sources[index] == MARK:
            return True
        line = block.line(index)
        if self.filter.floor:
            own = level_of(line)
            self._level = (self._level or 0) if own is None else own
            if self._level < self.filter.floor:
                return False
        return self.filter.matches(line)

    def _by_level(self, block: Block, start: int, stop: int) -> list[int]:
        """Return the passing lines under a level filter. After a line below the floor, only a line
        with the word of a higher level can pass, and one search in C finds the next such word.
        """
        hits: list[int] = []
        words = words_from(self.filter.floor)
        index = start
        while index < stop:
            if (self._level or 0) < self.filter.floor:
                found = words.search(block.data, block.starts[index])
                if found is None:
                    break
                index = bisect_left(block.starts, found.start() + 1, index) - 1
                if index >= stop:
                    break
            if self._keeps(block, index):
                hits.append(block.first + index)
            index += 1
        return hits

    def _by_search(
        self, block: Block, start: int, stop: int, pattern: re.Pattern[bytes]
    ) -> list[int]:
        """Return the passing lines with one search in C per hit instead of one per line: 130 MB
        take 0.1 s if few lines match.
        """
        found = _candidates(block, start, stop, pattern)
        rows = []
        for i in found:
            if self.filter.matches(block.line(i)):
                rows.append(block.first + i)
        return rows

    def find(self, pattern: re.Pattern[bytes], after: int, step: int) -> int | None:
        """Search the visible lines for the one that matches `pattern` and is nearest to the
        position `after`, and return its position, or None if none matches. A position is a 0-based
        index among the visible lines. `step` is the direction: +1 searches the lines after `after`,
        and -1 those before it. The line at `after` itself is not searched.
        """
        position, reach = after + step, find_reach(pattern.pattern.decode())
        while 0 <= position < len(self):
            number = self.number(position)
            if number < self.store.first:
                return None  # the lines before it are gone too
            if number >= self.store.end:  # an unfinished line
                if pattern.search(self.store.line(number)[1][:reach]):
                    return position
                position += step
                continue
            block = self.store.blocks[self.store.block_of(number)]
            index = number - block.first
            if step > 0:
                start, stop = (index, min(index + SLICE_LINES, len(block)))
            else:
                start, stop = (max(0, index + 1 - SLICE_LINES), index + 1)
            found = self._first_of(self._searched(block, start, stop, pattern), step)
            if found is not None:
                return found
            if step < 0:
                position = self.position(block.first + start) - 1
                continue
            edge = block.first + stop
            position = self.position(edge)
            if position < len(self) and self.number(position) < edge:
                return None  # nothing is visible from the edge on
        return None

    def _first_of(self, numbers: Sequence[int], step: int) -> int | None:
        """Return the position of the first visible line of `numbers` in the direction `step`, or
        None.
        """
        for number in numbers if step > 0 else reversed(numbers):
            position = self.position(number)
            if position < len(self) and self.number(position) == number:
                return position
        return None

    def _searched(
        self, block: Block, start: int, stop: int, pattern: re.Pattern[bytes]
    ) -> list[int]:
        """Return the numbers of the lines that match, without the view's own lines."""
        reach = find_reach(pattern.pattern.decode())
        rows = []
        for i in _candidates(block, start, stop, pattern):
            if block.sources[i] != MARK and pattern.search(block.line(i)[:reach]):
                rows.append(block.first + i)
        return rows


def _candidates(block: Block, start: int, stop: int, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """Yield the indexes of the lines between `start` and `stop` in which a match begins. The match
    may reach over the line's end, so the caller must check the line alone.
    """
    starts, data = block.starts, block.data
    end = starts[stop] if stop < len(starts) else len(data)
    index = start
    while index < stop and (found := pattern.search(data, starts[index], end)):
        index = bisect_left(starts, found.start() + 1, index) - 1
        yield index
        index += 1
