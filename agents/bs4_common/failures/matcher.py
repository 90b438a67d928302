"""Matching one log of one attempt against the signatures of its source."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from bs4_common.failures.compiled import Playbook
from bs4_common.failures.evidence import Evidence, Place
from bs4_common.failures.literals import Literals
from bs4_common.failures.quoted_output import (
    CALM,
    WAIT_S,
    QuotedOutput,
    opens,
    sample,
    sample_over,
    samples,
)
from bs4_common.failures.reasons import Raised
from bs4_common.failures.signatures import Signature
from bs4_common.failures.tracks import Back, Moment, Sighting, Track
from bs4_common.trainers.base import LogLine
from bs4_common.trainers.lines import Clock

if TYPE_CHECKING:
    from bs4_common.failures.prefilter import Prefilter  # only readers of whole files use it

#: Characters of a line that evidence shows at most.
TEXT_CAP = 2000
#: The index of a signature, and the role of one of its expressions.
Key = tuple[int, str]
#: Roles that are searched for only while they can change anything. Their words ("Step ") are in
#: every other line of a healthy log.
SELDOM = ("cleared_by", "near")
#: Roles whose matches change what else has to be searched for.
_TURNS = frozenset({"not_after", "only_after", "cleared_by"})
#: Ends after which a signature is expected to end again and again: see `Matcher.flapping`.
_FLAPS = 3

#: A kernel log may count seconds from the boot. A larger number is a date.
_UPTIMES = 1e8
#: How many lines are remembered with their result, and how long a line without a match may be to be
#: remembered.
_REMEMBERED, _SHORT = 512, 300
_BLANK = " \t\r\n\v\f"


class SourceRules:
    """The log signatures (patterns of known failures) that apply to the logs of one source, for
    example "trainer", prepared for the search. `rules` has each signature with its playbook. All
    attempts and runs of a trainer share one object.
    """

    def __init__(self, rules: Sequence[tuple[Signature, Playbook]]) -> None:
        self.rules = rules
        self.words: Literals[Key] = Literals(
            ((index, role), expression.needs)
            for index, (signature, _) in enumerate(rules)
            for role, expression in signature.roles.items()
        )
        self._known: dict[tuple[str, str, str], list[tuple[int, frozenset[str]]]] = {}
        self.prefilters: dict[tuple[str, str, frozenset[Key]], Prefilter[Key] | None] = {}
        """Prefilters that readers of whole files have made of the words; see reading.py."""

    def matched(self, text: str, level: str, logger: str) -> list[tuple[int, frozenset[str]]]:
        """Return which log signatures a line with this text, level and logger matches. The result
        is a list of (index of the signature in `rules`, names of those of its expressions that
        match, for example "pattern" or "near"), and empty if the line matches nothing.
        """
        key = (text, level, logger)
        if key in self._known:
            return self._known[key]
        roles: dict[int, set[str]] = {}
        for index, role in self.words.keys(text):
            if self.rules[index][0].matched(role, text, level, logger):
                roles.setdefault(index, set()).add(role)
        matches = [(index, frozenset(found)) for index, found in sorted(roles.items())]
        if matches or len(text) < _SHORT:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = matches
        return matches


class Rules:
    """The log signatures (patterns of known failures) of some playbooks. Those of a source are
    prepared for the search when a log of that source is first read, which takes 50 ms, so engines
    that are made one after another share this object.
    """

    def __init__(self, playbooks: Sequence[Playbook]) -> None:
        self._signatures: list[tuple[Signature, Playbook]] = []
        for playbook in playbooks:
            if playbook.detect:
                for data in playbook.signatures:
                    signature = Signature.from_compiled(playbook.id, data)
                    self._signatures.append((signature, playbook))
        self._of: dict[tuple[str, str], SourceRules] = {}

    def of(self, trainer: str, source: str) -> SourceRules:
        """Return the log signatures (patterns of known failures) that apply to logs of the source
        `source`, for example "trainer", of runs of `trainer` (its id). If `trainer` is "", the
        signatures of all trainers are included.
        """
        family = "env" if source.startswith("env-") else source
        key = (trainer, family)
        if key not in self._of:
            own = [entry for entry in self._signatures if family in entry[0].sources]
            if trainer:
                own = [entry for entry in own if entry[1].applies_to(trainer)]
            self._of[key] = SourceRules(own)
        return self._of[key]


def blank(line: LogLine) -> bool:
    """Return True if a line has no level and no text. Such a line is no sign of life of its
    program.
    """
    return not line.level and not line.text.strip(_BLANK)


def dated(line: LogLine) -> bool:
    """Return True if a line shows a valid time, with or without a date. A time such as 99:99:99 is
    not valid.
    """
    clock = line.clock
    return line.timestamp is not None or (
        clock is not None
        and clock[:2] < "24"
        and clock[3] < "6"
        and (clock[6] < "6" or clock[6:] == "60")
    )


def parts(line: LogLine) -> Iterator[tuple[str, str, str]]:
    """Yield (text, level, logger) for each line that a plain log would have for this line. A line
    of a plain log yields itself.

    A JSON record holds all lines of its message and of the traceback after it. Of a record that
    reports a failure, only the first line gets the record's level and logger, and the others get
    "", as in a plain log. Of any other record, for example at the level INFO, each line gets both,
    so that text which the record only quotes is not taken for a failure.
    """
    level, logger = line.level, line.logger
    for part in line.text.split("\n"):
        yield part, level, logger
        if line.level not in CALM:
            level = logger = ""


class LineClock:
    """Computes the time of the newest line of a log that shows a time. For lines that show only a
    time of day, `anchor` is a Unix time in seconds within half a day of the first line, and `tz`
    the UTC offset of these lines in seconds.
    """

    def __init__(self, anchor: float, tz: int | None = None) -> None:
        self._clock = Clock(anchor, tz)
        self._dated: LogLine | None = None
        self._hour = ""
        self._t: float | None = None

    def date(self, line: LogLine) -> None:
        """Remember a line's time, if it shows one, as the time of the newest line. Call it for the
        lines in order.
        """
        if not dated(line):
            return
        self._dated = line
        hour = line.clock[:2] if line.clock is not None else ""
        if hour != self._hour:
            self._hour = hour
            self.time()

    @property
    def tz(self) -> int:
        """Return the UTC offset, in seconds, that is assumed for times of day without a date."""
        return self._clock.tz

    def time(self) -> float | None:
        """Return the time of the newest line that shows a time, as a Unix time in seconds, or None
        if no line showed any. In a kernel log, it may be in seconds since the boot instead.
        """
        line, self._dated = self._dated, None
        if line is None:
            return self._t
        if line.timestamp is not None:
            self._t = line.timestamp
            if line.timestamp > _UPTIMES:
                # times of day that follow belong to that day
                self._clock = Clock(line.timestamp, self._clock.tz)
        elif line.clock is not None:
            self._t = self._clock.resolve(line.clock)
        return self._t


class Matcher:
    """Matches the lines of one log of one attempt against the log signatures (patterns of known
    failures) in `rules`. Call `feed` for every line in order, or at least for every line that holds
    a word of a signature. Then `fired` returns the signatures that have matched as often as they
    must.
    """

    def __init__(self, rules: SourceRules, *, live: bool, anchor: float | None = None) -> None:
        """Prepare a matcher. With `live`, lines come as they are written. `anchor` is a wall-clock
        time in seconds since 1970 within half a day of the first line (None means now), for lines
        that show only a time of day.
        """
        self.live = live
        self._rules = rules
        self._anchor = time.time() if anchor is None else anchor
        self._tracks: dict[int, Track] = {}
        self._clock = LineClock(self._anchor)
        self.armed: set[Key] = set()
        """Expressions of SELDOM that can change something now, and others that were done and count
        again.
        """
        self.done: set[Key] = set()
        """Expressions that change nothing any more: what had to come first has come, what must not
        come has come, or the failure was seen often enough.
        """
        self.flapping: set[int] = set()
        """Signatures that were ended several times. Before their last end in a block of lines,
        their matches do not count.
        """
        self.standing: set[int] = set()
        """Signatures that hold only as the last line and were seen often enough. Of a block of
        lines, only the last one counts.
        """
        self._quotes = QuotedOutput()
        self.last_line = 0
        """The number of the last line that is not blank."""
        self.news = False
        """A signature has fired since this was last set to False."""
        self.raised = Raised()
        """The exception that has ended the log's process, from all lines of the log's end."""

    def wants(self, line: LogLine) -> bool:
        """Return True if a line by itself matches a regular expression of any log signature
        (pattern of a known failure).
        """
        return any(self._rules.matched(text, level, logger) for text, level, logger in parts(line))

    def names(self, line: LogLine) -> bool:
        """Return True if a line by itself shows a failure, because it matches the pattern of a log
        signature (which describes log lines of a known failure). Unlike in `wants`, a match of an
        expression that a signature looks for near its pattern is not enough.
        """
        return any(
            "pattern" in roles
            for text, level, logger in parts(line)
            for _, roles in self._rules.matched(text, level, logger)
        )

    def feed(
        self,
        line: LogLine,
        place: Place,
        back: Back | None = None,
        date_above: Callable[[], None] | None = None,
    ) -> None:
        """Match one line against the log signatures (patterns of known failures). `place` is where
        it stands.

        `back` and `date_above` are for a reader that does not feed every line, and None for others:
        `back(expression, first, last)` returns the number of the last line from `first` to `last`
        that matches, or None, and `date_above()` passes the nearest line above that shows a time to
        the method `date`.
        """
        number, source = place["line"], place["source"]
        if not blank(line):
            self.last_line = max(number, self.last_line)
        quotes = self._quotes
        over = samples(source) and sample_over(line)
        if quotes.held and (line.level or over or not quotes.may_be(line, number)):
            quotes.decide(line if line.level or over else None, self._one)
        if over:
            quotes.begin(None, number)
        elif samples(source) and sample(line):
            quotes.begin(line, number)
        elif line.level:
            quotes.header(line, number, source)
        elif opens(line):
            quotes.open()
        if not line.level and quotes.may_be(line, number):
            if self.wants(line):
                quotes.hold(number, time.monotonic(), line.text, place, back, date_above)
            return
        self.date(line)
        for text, level, logger in parts(line):
            self._one(level, logger, number, text, place, back, date_above)

    @property
    def doubting(self) -> bool:
        """Return True if the matcher has put lines aside because it does not know yet whether they
        count. They look like a failure, but they may be part of a text that the program only
        prints, such as a model's answer. The lines that follow decide that. While this is True, a
        reader that usually skips lines must feed every line.
        """
        return bool(self._quotes.held)

    def header_above(self, line: LogLine | None, number: int, source: str, *, opened: bool) -> None:
        """Report the nearest line with a header (a time and a level) above the line that is fed
        next. From it the matcher learns whether the next line is part of a quoted text, such as a
        printed prompt, in which nothing counts as a failure. A caller that feeds every line does
        not need to call this.

        `line` is the header line, or None if it was reported before. `number` is its number, and
        `source` the name of the log. `opened` is True if a line between the header line and the
        next line begins a quoted text.
        """
        if line is not None:
            self._quotes.header(line, number, source)
        if opened:
            self._quotes.open()

    def sample_above(self, line: LogLine | None, number: int) -> None:
        """Report that `line`, a line above the one that is fed next, belongs to a printed sample of
        a model's output. None in its place reports that the sample has ended. `number` is the
        number of the line that shows this. A caller that feeds every line does not need to call
        this.
        """
        self._quotes.begin(line, number)

    def _one(
        self,
        level: str,
        logger: str,
        number: int,
        text: str,
        place: Place,
        back: Back | None,
        date_above: Callable[[], None] | None,
    ) -> None:
        """Match one text and step the tracks of all signatures that it matches."""
        matched = self._rules.matched(text, level, logger)
        if not matched:
            return
        t = None
        if any(index not in self._tracks or self._tracks[index].asks_time for index, _ in matched):
            if date_above is not None:
                date_above()
            t = self.time()
        moment = Moment(number, t, time.monotonic() if self.live else None)
        seen = Sighting(moment, {**place, "text": text[:TEXT_CAP]})
        for index, roles in matched:
            track = self._tracks.get(index)
            if track is None:
                track = self._tracks[index] = Track(self._rules.rules[index][0])
            before = track.fired
            track.step(roles, seen, back)
            self.news = self.news or (before is None and track.fired is not None)
            for role in track.signature.roles.keys() & SELDOM:
                (self.armed.add if track.armed(role) else self.armed.discard)((index, role))
            if track.full or not roles.isdisjoint(_TURNS):
                self._turn(index, track)
            if track.standing:
                self.standing.add(index)

    def _turn(self, index: int, track: Track) -> None:
        """Update which expressions of a signature still have to be searched for."""
        if track.ends >= _FLAPS:
            self.flapping.add(index)
        for role in track.signature.roles:
            key = (index, role)
            if track.done(role):
                self.done.add(key)
                if role not in SELDOM:
                    self.armed.discard(key)
            elif key in self.done:
                self.done.discard(key)
                # a reader of whole blocks searches for it from the next line on
                self.armed.add(key)

    def date(self, line: LogLine) -> None:
        """Remember the time that `line` shows as the time of the newest line. Call this for a line
        that is not passed to `feed`.
        """
        self._clock.date(line)

    def time(self) -> float | None:
        """Return the time of the newest line that shows a time, as a Unix time in seconds, or None
        if no line showed any. In a kernel log, it may be in seconds since the boot instead.
        """
        return self._clock.time()

    def clock_at(self, t: float | None) -> LineClock:
        """Return a new clock for the log's times, for a reader that goes through some lines a
        second time. `t` is the time in seconds from which the clock starts; None means the time
        that the Matcher got as an anchor, which is near the log's first line.
        """
        return LineClock(self._anchor if t is None else t, self._clock.tz)

    @property
    def rules(self) -> SourceRules:
        """Return the log signatures (patterns of known failures) with which the lines of this log
        are compared.
        """
        return self._rules

    def fired(self, *, complete: bool) -> Iterator[tuple[Playbook, Track]]:
        """Yield the log signatures (patterns of known failures) that have fired, which means that
        they have matched as often as they must, and still hold. For each, yield its playbook and
        its Track, which has its matches so far. With `complete`, the log is finished, so nothing
        waits for further lines.
        """
        if self._quotes.held and (
            complete or not self.live or time.monotonic() - self._quotes.since_m >= WAIT_S
        ):
            self._quotes.decide(None, self._one)
        for index, track in sorted(self._tracks.items()):
            track.settle(None if complete else self.last_line)
            if track.fired is None or track.latest is None:
                continue
            if track.signature.last and track.latest.moment.line < self.last_line:
                continue
            yield self._rules.rules[index][1], track

    def restore(self, failure: str, evidence: Evidence) -> None:
        """Mark those log signatures (patterns) of the failure `failure` that match the line in
        `evidence` as fired by it. This restores an incident of this log that was open before the
        agent restarted.
        """
        text = evidence["text"]
        for index, (signature, _) in enumerate(self._rules.rules):
            if signature.failure == failure and signature.pattern.search(text) is not None:
                self._tracks.setdefault(index, Track(signature)).restore(evidence)

    def forget(self, failure: str) -> None:
        """Forget all matches of the log signatures (patterns) of the failure `failure`, so that
        they must match anew.
        """
        for track in self._tracks.values():
            if track.signature.failure == failure:
                track.clear()
