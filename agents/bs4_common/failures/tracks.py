"""What one signature has seen of one log: matches, their neighbours, windows of line time, and the
end of the failure.

A track needs only the lines that hold a word of its signature. It counts by line numbers and keeps
no lines except its evidence, so it gives the same answer whether it receives the other lines or
not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from bs4_common.failures.evidence import Evidence
from bs4_common.failures.signatures import Expression, Signature

#: Matches that wait for a line after them. More of them within 500 lines are repetitions.
_PENDING = 64
#: A failure that has fired and was seen this often is not counted any more until something ends it,
#: so that a log that repeats one error a million times is read as fast as a healthy one.
MANY = 500
#: (expression, first line, last line) -> the number of the last of these lines that matches, or
#: None.
Back = Callable[[Expression, int, int], "int | None"]


@dataclass(frozen=True)
class Moment:
    """When and where a line was seen. `line` is its number in the log, from 1. `t` is the time in
    the line itself, as a Unix time in seconds (in a kernel log perhaps since the boot), or None if
    it shows none. `m` is the time at which the agent read the line, in seconds of the monotonic
    clock, or None for a finished log.
    """

    line: int
    t: float | None = None
    m: float | None = None


@dataclass(frozen=True)
class Sighting:
    """One match of a log signature (a pattern of a known failure): `moment` is when and in which
    line it was seen, and `place` the line as evidence.
    """

    moment: Moment
    place: Evidence


class Track:
    """The progress of one log signature (a pattern of a known failure) in one log of one attempt:
    its matches so far, and whether it has fired, which means that it has matched as often as it
    must. A signature consists of regular expressions, each with a role: "pattern", "near",
    "cleared_by", "only_after" or "not_after". `first` and `latest` are the first and the last match
    (None before one), and `hits` is their number.
    """

    __slots__ = (
        "_after",
        "_looked",
        "_near_line",
        "_pending",
        "_ruled_out",
        "_window",
        "ends",
        "fired",
        "first",
        "hits",
        "latest",
        "signature",
    )

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.fired: Sighting | None = None
        """The match with which the signature fired, or None."""
        self.first: Sighting | None = None
        self.latest: Sighting | None = None
        self.hits = 0
        self.ends = 0
        """How many times the failure has ended."""
        self._near_line: int | None = None
        self._looked = 0
        self._after = self._ruled_out = False
        self._pending: deque[Sighting] = deque(maxlen=_PENDING)
        self._window: deque[Sighting] = deque(maxlen=signature.count)

    def step(self, matched: Collection[str], seen: Sighting, back: Back | None) -> None:
        """Process one line of the log, `seen`, that matches an expression of the log signature.
        `matched` has the roles of the expressions that it matches, such as "near". The role
        "pattern" is among them only if the line also has the level and the logger that the
        signature asks for, and meets its conditions.

        `back(expression, first, last)` searches earlier lines: it returns the number of the last
        line from `first` to `last` that matches, or None. `back` itself is None if this method gets
        every matching line, so that no earlier line has to be searched.
        """
        line = seen.moment.line
        if self._pending:
            self.settle(line)
        if "cleared_by" in matched:
            self.clear()
        near = "near" in matched
        if near:
            self._neighbour_came()
        if "pattern" in matched and self._in_order():
            self._match(seen, back)
        if near:
            self._near_line = line
        self._after = self._after or "only_after" in matched
        self._ruled_out = self._ruled_out or "not_after" in matched

    def _in_order(self) -> bool:
        """Return True if `only_after` has come and `not_after` has not."""
        return (self._after or self.signature.only_after is None) and not self._ruled_out

    def armed(self, role: str) -> bool:
        """Return True if a line that matches only the expression with the role `role` ("near" or
        "cleared_by") can change the progress of this log signature now, so that such lines must be
        searched for.
        """
        if role == "near":
            return bool(self._pending)
        return role != "cleared_by" or self.hits > 0 or bool(self._pending)

    def done(self, role: str) -> bool:
        """Return True if lines that match only the expression with the role `role`, such as
        "pattern", need not be searched for. That is so if such a line cannot change the progress of
        this log signature any more, or cannot change it before a line matches `cleared_by`.
        """
        return (
            self._ruled_out
            or (self.full and role != "cleared_by")
            or (role == "only_after" and self._after)
        )

    @property
    def asks_time(self) -> bool:
        """Return True if the time at which a line was written has to be known for the next match.
        That is so until the log signature (a pattern of a known failure) has fired, which means
        that it has matched as often as it must. It is always so if the signature has a
        `cleared_by`, an expression for lines after which the failure is over.
        """
        return self.fired is None or self.signature.cleared_by is not None

    @property
    def _often(self) -> bool:
        """Return True if the signature has fired and was seen MANY times."""
        return self.fired is not None and self.hits >= MANY

    @property
    def full(self) -> bool:
        """Return True if the log signature has fired and has matched 500 times, so that further
        matches are not counted.
        """
        return self._often and not self.signature.last

    @property
    def standing(self) -> bool:
        """Return True if only the last one of all further matches has to be fed, because the ones
        before it cannot change anything. That is so for a log signature with `last` (it holds only
        while its line is the last of the log) that has matched 500 times, if it has neither `near`
        nor `cleared_by`.
        """
        return (
            self._often
            and self.signature.last
            and self.signature.near is None
            and self.signature.cleared_by is None
        )

    def _match(self, seen: Sighting, back: Back | None) -> None:
        """Process a line that matches the pattern: count it, or hold it until its neighbour is
        decided.
        """
        near = self.signature.near
        if near is None:
            self._hit(seen)
        elif near.before and self._above(seen.moment.line, near.before, back):
            if not near.absent:
                self._hit(seen)
        elif near.after:
            self._pending.append(seen)
        elif near.absent:
            self._hit(seen)

    def _above(self, line: int, most: int, back: Back | None) -> bool:
        """Return True if the neighbour is among the `most` lines above `line`, or in the same
        record.
        """
        lowest = max(1, line - most)
        if self._near_line is not None and self._near_line >= lowest:
            return True
        if back is None or self.signature.near is None:
            return False
        found = back(self.signature.near.pattern, max(lowest, self._looked + 1), line - 1)
        self._looked = line - 1
        if found is not None:
            self._near_line = found
        return found is not None

    def _neighbour_came(self) -> None:
        """Decide the held matches, because their neighbour has come."""
        pending, near = list(self._pending), self.signature.near
        self._pending.clear()
        if near is not None and not near.absent:
            for seen in pending:
                self._hit(seen)

    def settle(self, line: int | None) -> None:
        """Decide the matches that had to wait for a later line near them (the condition `near`), as
        far as the log has passed all lines that could fulfil the condition. A match counts if the
        condition says that the other line must be absent, and is dropped otherwise. `line` is the
        number of the line that the log has reached, or None if the log is finished.
        """
        near = self.signature.near
        if near is None:
            return
        while self._pending and (line is None or line - self._pending[0].moment.line > near.after):
            seen = self._pending.popleft()
            if near.absent:
                self._hit(seen)

    def _hit(self, seen: Sighting) -> None:
        """Count a match, and fire if the window is full and dense enough."""
        if self.full:
            return
        self.hits = min(self.hits + 1, MANY)
        self.latest = seen
        self._window.append(seen)
        if self.fired is None and len(self._window) == self.signature.count and self._dense():
            self.fired, self.first = seen, self._window[0]

    def _dense(self) -> bool:
        """Return True if the matches in the window lie within the signature's `within` seconds."""
        within = self.signature.within
        first, last = self._window[0].moment, self._window[-1].moment
        if within is None:
            return True
        if first.t is not None and last.t is not None:
            return last.t - first.t <= within
        return first.m is None or last.m is None or last.m - first.m <= within

    def clear(self) -> None:
        """Forget all matches of this log signature, because the failure is over. To fire again, the
        signature has to match anew as often as it must.
        """
        self.ends += self.hits > 0
        self.fired = self.first = self.latest = None
        self.hits = 0
        self._window.clear()
        self._pending.clear()

    def restore(self, place: Evidence) -> None:
        """Mark this log signature as fired by the line in `place` (a dictionary that describes the
        line as evidence), which an earlier agent saw.
        """
        self.fired = self.first = self.latest = Sighting(Moment(place["line"]), place)
        self.hits = 1
