"""A finished log in one pass and constant memory: to the signatures the lines that could matter to one, to the detectors its events.

Taking a line apart costs 6 us, looking at it 0.01 us a byte: so blocks of a megabyte are looked through for the words that signatures and
event rules need, and only the lines that hold one are taken apart. `thorough` takes every line apart; the findings are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from bs4_agent.detect.facts import LogEvent
from bs4_agent.detect.matcher import SELDOM, Key, Matcher, blank, dated
from bs4_agent.detect.signatures import Expression
from bs4_agent.detect.words import Words
from bs4_agent.trainers.base import LogLine, Trainer
from bs4_agent.trainers.lines import visible

#: Lines longer than this are cut for parsing; the offsets of the file stay true.
LINE_CAP = 64 * 1024
_BLOCK = 1 << 20
#: Events that healthy runs write all the time. As on a live pod, of each kind only the last few dozen count: they are read from the log's
#: last megabyte. All other kinds are looked for everywhere.
_FREQUENT = frozenset(
    {"step", "heartbeat", "holding", "barrier", "policy-update", "cancelled", "rollout-failed",
     "low-trainable", "start-step", "waiting-batch", "waiting-inference"}
)  # fmt: skip
#: Events kept of one log.
_EVENTS_KEPT = 20_000
_TEXT = 2000
_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
#: JSON may write any character as \\u00XX; nobody does so for letters, but a line that does must be read.
_ESCAPED = tuple(rf"\u00{digit}" for digit in range(2, 8))
#: Lines that are remembered as taken apart, and how long one may be.
_REMEMBERED, _SHORT = 512, 300
_NOTHING, _ANYTHING = re.compile(rb"(?!)"), re.compile(b"")
_CLOCK = re.compile(rb"\d\d:\d\d|\.\d{6}|,-;")
#: Bytes between two lines whose time is noted, so that no midnight is lost; and how far to look back for a line that has one.
_SAMPLE, _BACK = 128 * 1024, 400


@dataclass
class Log:
    """One log as it lies there. `name`: for evidence; `attempt`: 1 where nothing tells."""

    source: str
    name: str
    attempt: int = 1


@dataclass
class Read:
    """What a log gave. `events` in order; `steps`: how many lines of steps there were before those of the events; `t`: the time of its last
    line that has one; `lines`: how many it has."""

    log: Log
    events: list[LogEvent] = field(default_factory=list)
    steps: int = 0
    t: float | None = None
    lines: int = 0


@dataclass
class _Block:
    """Whole lines. `offset` and `line` (0-based) of the first one; `t`: the log's time before it."""

    data: bytes
    offset: int
    line: int
    t: float | None
    lines: _Lines = field(init=False)

    def __post_init__(self) -> None:
        self.lines = _Lines(self.data)


class Reader:
    """`read` one log through."""

    def __init__(self, trainer: Trainer, matcher: Matcher, log: Log, *, thorough: bool = False) -> None:
        self._trainer, self._matcher, self._log = trainer, matcher, log
        self._find = None if thorough else _finder(matcher, trainer, log.source)
        self._done = frozenset(matcher.done)
        words = trainer.event_words(log.source, _FREQUENT)
        self._eventful = _NOTHING if not words else _ANYTHING if "" in words else _words_finder(words)
        self._finders: dict[Key | str, re.Pattern[bytes]] = {}
        self._parsed: dict[bytes, LogLine] = {}
        self._found = Read(log)
        self._rare: list[tuple[int, LogEvent]] = []
        self._kept: list[_Block] = []

    def read(self, handle: BinaryIO) -> Read:
        """Errors: OSError of the handle."""
        for offset, data in _blocks(handle):
            block = _Block(data, offset, self._found.lines, self._matcher.time())
            self._kept.append(block)
            self._block(block)
            while len(self._kept) > 1 and sum(len(b.data) for b in self._kept[1:]) >= _BLOCK:
                self._count_steps(self._kept.pop(0))
        self._found.t = self._matcher.time()
        self._found.events = self._events(self._kept)
        return self._found

    def _block(self, block: _Block) -> None:
        view, lines = block.data, block.lines
        if self._find is not None and self._matcher.done != self._done:
            self._done = frozenset(self._matcher.done)
            self._find = _finder(self._matcher, self._trainer, self._log.source)
            self._matcher.armed -= {key for key in self._matcher.armed if key[1] not in SELDOM}
        if b"\x1b" in view:
            view = _ANSI.sub(b"", view)  # one line stays one line, and words are whole again
        sampled = 0
        for index in self._candidates(view):
            start, raw = lines.at(index)
            while start - sampled > _SAMPLE:
                sampled += _SAMPLE
                self._date_before(lines, lines.index(sampled))
            self._line(lines, index, block, start, raw)
        count = lines.count()
        self._date_before(lines, count)
        self._found.lines = block.line + count
        for index in range(lines.last_written(), -1, -1):
            if not blank(self._trainer.parse_line(self._log.source, lines.at(index)[1])):
                self._matcher.last_line = max(self._matcher.last_line, block.line + index + 1)
                break

    def _candidates(self, view: bytes) -> Iterator[int]:
        """0-based numbers of the lines to take apart, in order."""
        if self._find is None:
            yield from range(view.count(b"\n") + (not view.endswith(b"\n")))
            return
        number = place = 0
        nexts: dict[Key | None, int] = {}
        while place < len(view):
            for key in (None, *self._matcher.armed):
                if nexts.get(key, -1) < place:
                    match = self._finder(key).search(view, place)
                    nexts[key] = len(view) if match is None else match.start()
            start = min(nexts[key] for key in (None, *self._matcher.armed))
            if start == len(view):
                return
            number += view.count(b"\n", place, start)
            yield number
            place = view.find(b"\n", start) + 1 or len(view)
            number += 1

    def _finder(self, key: Key | None) -> re.Pattern[bytes]:
        """For what is looked for everywhere (None), or for one expression that counts only at times."""
        if key is None:
            return self._find or _NOTHING
        if key not in self._finders:
            signature, _ = self._matcher.rules.rules[key[0]]
            self._finders[key] = _words_finder(signature.roles[key[1]].needs)
        return self._finders[key]

    def _back(self, expression: Expression, first: int, last: int) -> int | None:
        """The last of these lines (1-based) that matches, as far back as lines are kept."""
        if expression.text not in self._finders:
            self._finders[expression.text] = _words_finder(expression.needs) if expression.needs else _ANYTHING
        find = self._finders[expression.text].search
        for block in reversed(self._kept):
            for index in range(min(last - block.line, block.lines.count()) - 1, max(0, first - block.line - 1) - 1, -1):
                _, raw = block.lines.at(index)
                if find(raw) is None and b"\x1b" not in raw:
                    continue
                text = self._parse(raw).text
                if any(expression.search(part) for part in text.split("\n")):
                    return block.line + index + 1
        return None

    def _parse(self, raw: bytes) -> LogLine:
        """Lines without a time of their own (of tracebacks) come again and again: they are taken apart once."""
        line = self._parsed.get(raw)
        if line is None:
            line = self._trainer.parse_line(self._log.source, raw)
            if line.clock is None and line.timestamp is None and len(raw) < _SHORT:
                if len(self._parsed) >= _REMEMBERED:
                    self._parsed.clear()
                self._parsed[raw] = line
        return line

    def _line(self, lines: _Lines, index: int, block: _Block, start: int, raw: bytes) -> None:
        line = self._parse(raw)

        def date_above() -> None:
            self._date_before(lines, index)

        place = self._place(block.offset + start, block.line + index + 1)
        self._matcher.feed(line, place, self._back, None if dated(line) else date_above)
        if self._eventful.search(raw) is None and b"\x1b" not in raw:
            return
        event = self._trainer.event(self._log.source, line)
        if event is not None and event.kind not in _FREQUENT and len(self._rare) < _EVENTS_KEPT:
            date_above()
            self._matcher.date(line)
            moment = self._matcher.time()
            text = line.text[:_TEXT]
            self._rare.append((place["line"], LogEvent(event, moment or 0.0, text, **place)))

    def _place(self, offset: int, number: int) -> dict[str, Any]:
        return {"source": self._log.source, "stream": "", "cursor": "", "file": self._log.name, "offset": offset, "line": number}

    def _date_before(self, lines: _Lines, index: int) -> None:
        """Tell the matcher the time of the nearest line above `index` that has one, unless it was told already."""
        for number in range(index - 1, max(lines.dated, index - _BACK) - 1, -1):
            _, raw = lines.at(number)
            if _CLOCK.search(raw, 0, 300) is None:
                continue
            line = self._parse(raw)
            if dated(line):
                self._matcher.date(line)
                break
        lines.dated = max(lines.dated, index)

    def _count_steps(self, block: _Block) -> None:
        self._found.steps += block.data.count(b"SUCCESS Step ") + block.data.count(b'"message": "Step ')

    def _events(self, kept: list[_Block]) -> list[LogEvent]:
        """The rare ones of the whole log and the frequent ones of its end, in order."""
        events = list(self._rare)
        for block in kept:
            clock = self._matcher.clock_at(block.t)
            for index, (start, raw) in enumerate(block.lines.all()):
                line = self._trainer.parse_line(self._log.source, raw)
                clock.date(line)
                event = self._trainer.event(self._log.source, line)
                if event is not None and event.kind in _FREQUENT:
                    place = self._place(block.offset + start, block.line + index + 1)
                    events.append((place["line"], LogEvent(event, clock.time() or 0.0, line.text[:_TEXT], **place)))
        return [event for _, event in sorted(events, key=lambda entry: entry[0])][-_EVENTS_KEPT:]


def _finder(matcher: Matcher, trainer: Trainer, source: str) -> re.Pattern[bytes] | None:
    """What a line must hold to be taken apart, whatever came before; None where that is not known and every line has to be."""
    rules, done = matcher.rules, frozenset(matcher.done)
    if (trainer.id, source, done) not in rules.finders:
        events = trainer.event_words(source, _FREQUENT)
        needs = [(key, needs) for key, needs in rules.needs if key[1] not in SELDOM and key not in done]
        words: Words[object] = Words([*needs, *((word, [word]) for word in events), ("escaped", _ESCAPED)])
        unknown = rules.words.always or words.always or "" in events
        rules.finders[trainer.id, source, done] = None if unknown else re.compile(words.expression().encode("ascii"))
    return rules.finders[trainer.id, source, done]


def _words_finder(needs: Iterable[str]) -> re.Pattern[bytes]:
    return re.compile(Words([("", (*needs, *_ESCAPED))]).expression().encode("ascii"))


class _Lines:
    """The lines of a block by number; found when first asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._count = -1
        self._starts: list[int] | None = None
        self.dated = 0
        """Lines above this one have told their time."""

    def _index(self) -> list[int]:
        if self._starts is None:
            starts = [0]
            starts += [match.end() for match in re.finditer(rb"\n", self._data)]
            if starts[-1] == len(self._data):
                starts.pop()
            self._starts = starts
        return self._starts

    def at(self, number: int) -> tuple[int, bytes]:
        """(offset in the block, the line without LF; of a long one at most LINE_CAP of what a terminal shows)."""
        starts = self._index()
        start = starts[number]
        end = starts[number + 1] - 1 if number + 1 < len(starts) else len(self._data)
        raw = self._data[start:end]
        if end == len(self._data):
            raw = raw.rstrip(b"\n")
        # A progress bar draws itself a thousand times before the line ends: what counts is what was drawn last.
        return start, raw if len(raw) <= LINE_CAP else visible(raw)[:LINE_CAP]

    def index(self, offset: int) -> int:
        """The number of the first line that begins at or behind `offset`."""
        return self._data.count(b"\n", 0, offset)

    def count(self) -> int:
        if self._count < 0:
            self._count = self._data.count(b"\n") + (not self._data.endswith(b"\n"))
        return self._count

    def last_written(self) -> int:
        """The number of the last line with anything but white space in it, -1 where there is none."""
        end = len(self._data.rstrip())
        return self._data.count(b"\n", 0, end) if end else -1

    def all(self) -> Iterator[tuple[int, bytes]]:
        for number in range(self.count()):
            yield self.at(number)


def _blocks(handle: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """(offset, whole lines), about a megabyte each. Of a line without end only the beginning is kept, so memory stays what it is."""
    offset, rest, dropped = 0, b"", 0
    while True:
        data = handle.read(_BLOCK)
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
        if len(rest) > _BLOCK:
            dropped = len(rest) - LINE_CAP
            rest = rest[:LINE_CAP]
    if rest:
        yield offset, rest
