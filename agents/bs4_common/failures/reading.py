"""Reading a finished log in one pass and constant memory. The signatures get the lines that could
matter to them, the detectors get its events.

Parsing a line costs 6 us, searching it costs 0.01 us a byte. So blocks of a megabyte are searched
for the words that signatures and event rules need, and only the lines that hold a word are parsed
(`prefilter.py`). A signature that is ended again and again (errors between two steps) counts from
its last end on, and earlier lines of a block are passed over. With `thorough`, every line is
parsed; the findings are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO

from bs4_common.failures.blocks import LINE_CAP, Block, Lines, blocks
from bs4_common.failures.clothing import Clothing, learnt
from bs4_common.failures.evidence import Place
from bs4_common.failures.facts import LogEvent
from bs4_common.failures.literals import Literals
from bs4_common.failures.matcher import SELDOM, Key, Matcher, blank, dated
from bs4_common.failures.prefilter import ESCAPED, Prefilter
from bs4_common.failures.quoted_output import (
    MOST_LINES,
    SAMPLE_PARTS,
    asks,
    headless,
    opens,
    sample,
    sample_over,
    samples,
)
from bs4_common.failures.signatures import Expression
from bs4_common.trainers.base import Event, LogLine, Trainer

_BLOCK = 1 << 20
#: Events that healthy runs write all the time. As on a live pod, only the last few dozen of each
#: kind count, so they are read from the log's last megabyte. All other kinds are searched for
#: everywhere.
_FREQUENT = frozenset(
    {
        "step",
        "heartbeat",
        "holding",
        "barrier",
        "policy-update",
        "cancelled",
        "rollout-failed",
        "low-trainable",
        "start-step",
        "waiting-batch",
        "waiting-inference",
    }
)
#: Events of one log that are kept at most.
_EVENTS_KEPT = 20_000
_TEXT = 2000
_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
#: How many parsed lines are remembered, and how long such a line may be.
_REMEMBERED, _SHORT = 512, 300
_NOTHING = re.compile(rb"(?!)")
_CLOCK = re.compile(rb"\d\d:\d\d|\.\d{6}|,-;")
#: Finds of words of finished signatures after which the expression is built again, which takes 25
#: ms.
_IDLE = 10_000
#: Stands for an event's word in a key, in place of a signature's index.
_EVENT = -1
#: Lines that may look like the end of a signature without being one before the search for the last
#: end is given up.
_TRIES = 16
#: Bytes between two lines whose time is taken, so that no midnight is lost; and lines to search
#: back for one with a time.
_SAMPLE, _BACK = 128 * 1024, 400


@dataclass
class Log:
    """What is known of a finished log before it is read; its lines come separately. `source` says
    which program wrote it, for example "trainer". `name` is how the lines of it that are shown as
    evidence of a failure name it, for example its file name. `attempt` is the number of the start
    of the run to which it belongs, or 1 if that is unknown.
    """

    source: str
    name: str
    attempt: int = 1


@dataclass
class Read:
    """What was found in one log. `events` are in the order of their lines. Of frequent kinds of
    events (such as training steps) only those near the log's end are kept; `steps` is the number of
    step events that were left out. `t` is the time of the last line that shows one, as a Unix time
    in seconds, or None. `lines` is the number of lines in the log.
    """

    log: Log
    events: list[LogEvent] = field(default_factory=list)
    steps: int = 0
    t: float | None = None
    lines: int = 0


class Reader:
    """Reads one finished log from its beginning to its end, feeds the lines that may matter to a
    matcher, and collects the log's events. With `thorough`, every line is parsed.
    """

    def __init__(
        self, trainer: Trainer, matcher: Matcher, log: Log, *, thorough: bool = False
    ) -> None:
        self._trainer, self._matcher, self._log = trainer, matcher, log
        self._prefilter = None if thorough else _main(matcher, trainer, log.source, frozenset())
        self._settled = self._left_out = frozenset[Key]()
        words = trainer.event_words(log.source, _FREQUENT)
        self._eventful = _finder(words) if words else _NOTHING
        self._events_done = frozenset((_EVENT, word) for word in words)
        self._finders: dict[str, re.Pattern[bytes]] = {}
        self._sieves: dict[Key, Prefilter[Key]] = {}
        self._parsed: dict[bytes, LogLine] = {}
        self._found = Read(log)
        self._walked = 0
        """The number of the last line whose header was searched for."""
        self._clothing: Clothing | None = None
        self._rare: list[LogEvent] = []
        self._kept: list[Block] = []

    def read(self, handle: BinaryIO) -> Read:
        """Read the log from `handle` and return what was found in it. Matches of log signatures
        (patterns of known failures) are not in the result, but afterwards in the matcher with which
        this object was made. Raises OSError if the handle cannot be read.
        """
        for offset, data in blocks(handle, _BLOCK):
            if not offset:
                kernel = self._log.source == "kernel"
                self._clothing = learnt(data, self._grammar, self._matcher.names, kernel=kernel)
            raw = None
            if self._clothing is not None:
                raw, data = data, self._clothing.block(data)
            block = Block(data, offset, self._found.lines, self._matcher.time(), raw)
            self._kept.append(block)
            self._block(block)
            self._release(_BLOCK)
        self._found.t = self._matcher.time()
        self._release(_BLOCK - LINE_CAP)
        self._found.events = self._events(self._kept)
        return self._found

    def _block(self, block: Block) -> None:
        """Search one block and feed the lines that could matter."""
        view, lines = block.data, block.lines
        last = self._last_line(lines)
        self._adjust()
        if b"\x1b" in view:
            view = _ANSI.sub(b"", view)  # one line stays one line, and words are whole again
        sampled = 0
        for index, begin in self._candidates(view, lines, last):
            start, raw = lines.at(index) if begin < 0 else (begin, lines.line_at(begin))
            while start - sampled > _SAMPLE:
                sampled += _SAMPLE
                self._date_before(lines, lines.next_start(sampled))
            self._line(index, start, block, raw)
        self._date_before(lines, len(lines.data))
        self._found.lines = block.line + lines.count()
        if last >= 0:
            number = block.line + lines.number(last) + 1
            self._matcher.last_line = max(self._matcher.last_line, number)

    def _last_line(self, lines: Lines) -> int:
        """Return the offset of the last line that is not blank, or -1 if there is none."""
        for start, raw in lines.written():
            if not blank(self._trainer.parse_line(self._log.source, raw)):
                return start
        return -1

    def _adjust(self) -> None:
        """Update the keys that the next block is searched for."""
        matcher, prefilter = self._matcher, self._prefilter
        if prefilter is None:
            return
        matcher.armed = {key for key in matcher.armed if key[1] in SELDOM}
        settled = matcher.done | {
            (index, role)
            for index in (*matcher.flapping, *matcher.standing)
            for role in ("pattern", "cleared_by")
        }
        if len(self._rare) >= _EVENTS_KEPT:
            settled |= self._events_done
        if settled == self._settled:
            return
        self._settled = frozenset(settled)
        if prefilter.idle > _IDLE or not self._left_out <= settled:
            self._left_out = self._settled
            prefilter = self._prefilter = (
                _main(matcher, self._trainer, self._log.source, self._settled) or prefilter
            )
        prefilter.skip(self._settled)

    def _candidates(self, view: bytes, lines: Lines, last: int) -> Iterator[tuple[int, int]]:
        """Yield (0-based number, byte offset in the block) of the lines to parse, in order. The
        offset is -1 if it is not known. `last` is the offset of the last line that is not blank.
        """
        main = self._prefilter
        if main is None:
            for number in range(lines.count()):
                yield number, -1
            return
        own = view is lines.data
        shown = lines if own else Lines(view)
        late = dict(self._late(view, lines, last))
        nexts = {key: self._own(key).next_line(view, start) for key, start in late.items()}
        apart = set()
        for index in (*self._matcher.flapping, *self._matcher.standing):
            for role in ("pattern", "cleared_by"):
                apart.add((index, role))
        keys, armed = list(late), set[Key]()
        place = first = 0
        soonest = -1
        while place < len(view):
            if first <= place:
                first = main.next_line(view, place)
            if self._matcher.armed != armed:
                armed = set(self._matcher.armed)
                keys, soonest = [*late, *(armed - apart)], -1
            if soonest < place:
                for key in keys:
                    if nexts.get(key, -1) < place:
                        nexts[key] = self._own(key).next_line(view, place)
                soonest = min((nexts[key] for key in keys), default=len(view))
            start = place if self._matcher.doubting else min(first, soonest)
            if start == len(view):
                return
            yield shown.number(start), start if own else -1
            place = view.find(b"\n", start) + 1 or len(view)

    def _late(self, view: bytes, lines: Lines, last: int) -> Iterator[tuple[Key, int]]:
        """Yield (key, byte offset) for each expression that counts only from an offset of the block
        on.
        """
        for index in self._matcher.standing:
            yield (index, "pattern"), last if last >= 0 and view is lines.data else 0
        for index in self._matcher.flapping:
            end = self._last_end(index, view, lines)
            yield (index, "cleared_by"), end
            yield (index, "pattern"), end

    def _last_end(self, index: int, view: bytes, lines: Lines) -> int:
        """Return the offset of the last line that ends this signature, or 0 if no line does or it
        is too expensive to find.
        """
        expression = self._matcher.rules.rules[index][0].roles["cleared_by"]
        if not expression.needs or any(text.startswith("(?i)") for text in expression.needs):
            return 0
        texts = [text.encode("ascii") for text in expression.needs]
        end = len(view)
        for _ in range(_TRIES):
            at = max(view.rfind(text, 0, end) for text in texts)
            if at < 0:
                return 0
            end = view.rfind(b"\n", 0, at) + 1
            if view is lines.data:
                raw = lines.line_at(end)
            else:
                _, raw = lines.at(view.count(b"\n", 0, end))
            if any(expression.search(part) for part in self._parse(raw).text.split("\n")):
                return end
        return 0

    def _own(self, key: Key) -> Prefilter[Key]:
        """Return the prefilter of one expression that counts only at times."""
        if key not in self._sieves:
            expression = self._matcher.rules.rules[key[0]][0].roles[key[1]]
            self._sieves[key] = Prefilter([(key, expression.needs, expression.raw)])
        return self._sieves[key]

    def _back(self, expression: Expression, first: int, last: int) -> int | None:
        """Return the number (1-based) of the last line from `first` to `last` that matches, or
        None. Only lines of the kept blocks are searched.
        """
        if expression.text not in self._finders:
            self._finders[expression.text] = _finder(expression.needs)
        find = self._finders[expression.text].search
        for number, raw in self._holding(find, first, last):
            if find(raw) is None and b"\x1b" not in raw:
                continue
            if any(expression.search(part) for part in self._parse(raw).text.split("\n")):
                return number
        return None

    def _holding(
        self, find: Callable[[bytes, int, int], object], first: int, last: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yield (1-based number, line) for the kept lines from `last` back to `first`. Blocks in
        which `find` finds nothing are left out.
        """
        for block in reversed(self._kept):
            lowest = max(0, first - block.line - 1)
            highest = min(last - block.line, block.lines.count()) - 1
            if lowest <= highest and block.lines.any(find, lowest, highest):
                for index in range(highest, lowest - 1, -1):
                    yield block.line + index + 1, block.lines.at(index)[1]

    def _parse(self, raw: bytes) -> LogLine:
        """Parse a line. Lines without a time of their own (in tracebacks) repeat, so their result
        is remembered.
        """
        line = self._parsed.get(raw)
        if line is None:
            line = self._trainer.parse_line(self._log.source, raw)
            if line.clock is None and line.timestamp is None and len(raw) < _SHORT:
                if len(self._parsed) >= _REMEMBERED:
                    self._parsed.clear()
                self._parsed[raw] = line
        return line

    def _line(self, index: int, start: int, block: Block, raw: bytes) -> None:
        """Feed one line to the matcher if it is wanted, and keep its event if it is a rare one."""
        line = self._parse(raw)

        def date_above() -> None:
            self._date_before(block.lines, start)

        place = self._place(block.place(index, start), block.line + index + 1)
        if self._prefilter is None or self._matcher.doubting or self._matcher.wants(line):
            if self._prefilter is not None and headless(line) and not self._matcher.doubting:
                if asks(self._log.source):
                    self._header_above(place["line"])
                elif samples(self._log.source):
                    self._sample_above(place["line"])
            self._matcher.feed(line, place, self._back, None if dated(line) else date_above)
        if len(self._rare) >= _EVENTS_KEPT or (
            self._eventful.search(raw) is None and b"\x1b" not in raw
        ):
            return
        event = self._trainer.event(self._log.source, line)
        if event is not None and event.kind not in _FREQUENT:
            date_above()
            self._matcher.date(line)
            self._rare.append(_event(event, self._matcher.time(), line, place))

    def _header_above(self, number: int) -> None:
        """Report to the matcher the nearest header above line `number` (1-based), as far up as it
        can matter, and whether a line between them begins a quotation.
        """
        opened = False
        for block in reversed(self._kept):
            for index in range(
                min(number - 1 - block.line, block.lines.count()) - 1,
                max(-1, number - MOST_LINES - block.line - 2),
                -1,
            ):
                place = block.line + index + 1
                # The header above a line from which the search began was reported.
                told = place <= self._walked
                line = self._parse(block.lines.at(index)[1])
                opened = opened or opens(line)
                if told or line.level:
                    self._walked = number
                    self._matcher.header_above(
                        line if line.level else None, place, self._log.source, opened=opened
                    )
                    return

    def _sample_above(self, number: int) -> None:
        """Report to the matcher the nearest part of a printed sample above line `number` (1-based),
        unless it was reported before.
        """
        first, last = max(1, number - MOST_LINES, self._walked + 1), number - 1
        self._walked = last
        for place, raw in self._holding(SAMPLE_PARTS.search, first, last):
            line = self._parse(raw) if SAMPLE_PARTS.search(raw) is not None else None
            if line is not None and (sample(line) or sample_over(line)):
                self._matcher.sample_above(line if sample(line) else None, place)
                return

    def _grammar(self, raw: bytes) -> LogLine:
        """Return the parts of a line, without a look at lines that were parsed before."""
        return self._trainer.parse_line(self._log.source, raw)

    def _place(self, offset: int, number: int) -> Place:
        """Return the place of a line, as evidence without its text."""
        return {
            "source": self._log.source,
            "stream": "",
            "cursor": "",
            "file": self._log.name,
            "offset": offset,
            "line": number,
        }

    def _date_before(self, lines: Lines, offset: int) -> None:
        """Report to the matcher the time of the nearest dated line above the line that begins at
        `offset`, unless it was reported before.
        """
        for _, raw in islice(lines.before(offset, lines.dated), _BACK):
            if _CLOCK.search(raw, 0, 300) is None:
                continue
            line = self._parse(raw)
            if dated(line):
                self._matcher.date(line)
                break
        lines.dated = max(lines.dated, offset)

    def _release(self, least: int) -> None:
        """Count the step lines of the oldest blocks, and drop them, as long as at least `least`
        bytes are kept after them.
        """
        while len(self._kept) > 1 and sum(len(b.data) for b in self._kept[1:]) >= least:
            data = self._kept.pop(0).data
            self._found.steps += data.count(b"SUCCESS Step ") + data.count(b'"message": "Step ')

    def _events(self, kept: list[Block]) -> list[LogEvent]:
        """Return the rare events of the whole log and the frequent events of its end, in the order
        of their lines.
        """
        events = list(self._rare)
        for block in kept:
            clock = self._matcher.clock_at(block.t)
            for index, (start, raw) in enumerate(block.lines.all()):
                line = self._trainer.parse_line(self._log.source, raw)
                clock.date(line)
                place = self._place(block.place(index, start), block.line + index + 1)
                self._matcher.raised.feed(line, place)
                event = self._trainer.event(self._log.source, line)
                if event is not None and event.kind in _FREQUENT:
                    events.append(_event(event, clock.time(), line, place))
        return sorted(events, key=lambda event: event.line)[-_EVENTS_KEPT:]


def _main(
    matcher: Matcher, trainer: Trainer, source: str, without: frozenset[Key]
) -> Prefilter[Key] | None:
    """Return the prefilter for everything that counts anywhere in a block, and for events, or None
    if every line must be parsed.
    """
    rules = matcher.rules
    key = (trainer.id, source, without)
    if key not in rules.prefilters:
        words = []
        for w in trainer.event_words(source, _FREQUENT):
            if (_EVENT, w) not in without:
                words.append(w)
        needs: list[tuple[Key, Sequence[str], str]] = [
            ((index, role), expression.needs, expression.raw)
            for index, (signature, _) in enumerate(rules.rules)
            for role, expression in signature.roles.items()
            if role not in SELDOM and (index, role) not in without
        ]
        for word in words:
            needs.append(((_EVENT, word), [word], ""))
        everything = rules.words.always or "" in words
        rules.prefilters[key] = None if everything else Prefilter(needs, shapes=True)
    prefilter = rules.prefilters[key]
    if prefilter is not None:
        prefilter.skip(without)
    return prefilter


def _event(event: Event, t: float | None, line: LogLine, place: Place) -> LogEvent:
    """Return an event of a line with its place. `t` is its time in seconds, or None."""
    return LogEvent(event=event, m=t or 0.0, text=line.text[:_TEXT], **place)


def _finder(words: Sequence[str]) -> re.Pattern[bytes]:
    """Return an expression that finds any of the words, plain or escaped as in JSON, or anything if
    there are no words or one is empty.
    """
    if not words or "" in words:
        return re.compile(b"")
    return re.compile(Literals([("", (*words, *ESCAPED))]).expression().encode("ascii"))
