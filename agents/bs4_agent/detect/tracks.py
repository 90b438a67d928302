"""What one signature has seen of one log: matches, their neighbours, windows of line time, and what
ended it.

Only lines that hold a word of the signature need to be shown to a track: it counts by line numbers,
keeps no lines but its evidence, and so gives the same answer whether the others were shown to it or
not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bs4_agent.detect.signatures import Expression, Signature

#: Matches that wait for a line after them. More than these within 500 lines are the same thing
#: again.
_PENDING = 64
#: A failure that has fired and was seen so often is counted no further until something ends it: a
#: log that repeats one error a million times is read as fast as a healthy one.
MANY = 500
Place = Mapping[str, Any]
#: (expression, first line, last line) -> the number of the last of these lines that matches, or
#: None.
Back = Callable[[Expression, int, int], "int | None"]


@dataclass(frozen=True)
class Moment:
    """`line`: 1-based number. `t`: the line's own time (None: it has none). `m`: when the engine's
    clock saw it (None: now).
    """

    line: int
    t: float | None = None
    m: float | None = None


@dataclass(frozen=True)
class Sighting:
    moment: Moment
    place: Place


class Track:
    """One signature over the lines of one source in one attempt."""

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
        """The match that made it fire; None while it does not."""
        self.first: Sighting | None = None
        self.latest: Sighting | None = None
        self.hits = 0
        self.ends = 0
        """How often something was over."""
        self._near_line: int | None = None
        self._looked = 0
        self._after = self._ruled_out = False
        self._pending: deque[Sighting] = deque(maxlen=_PENDING)
        self._window: deque[Sighting] = deque(maxlen=signature.count)

    def step(self, matched: Collection[str], seen: Sighting, back: Back | None) -> None:
        """One line, or one line of a record that has several. `matched`: the keys of the
        expressions that it matches (of the pattern with level, logger and conditions). `back` looks
        for a neighbour above; without it all of them were shown.
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
        return (self._after or self.signature.only_after is None) and not self._ruled_out

    def armed(self, role: str) -> bool:
        """Whether lines that only this expression asks for can change anything now."""
        if role == "near":
            return bool(self._pending)
        return role != "cleared_by" or self.hits > 0 or bool(self._pending)

    def done(self, role: str) -> bool:
        """Whether lines that only this expression asks for change nothing: never again, or not
        until `cleared_by` matches.
        """
        return (
            self._ruled_out
            or (self.full and role != "cleared_by")
            or (role == "only_after" and self._after)
        )

    @property
    def asks_time(self) -> bool:
        """Whether it matters when the next match was: once it has fired, only that it was there."""
        return self.fired is None or self.signature.cleared_by is not None

    @property
    def _often(self) -> bool:
        return self.fired is not None and self.hits >= MANY

    @property
    def full(self) -> bool:
        return self._often and not self.signature.last

    @property
    def standing(self) -> bool:
        """Whether of all further lines only the last one matters."""
        return (
            self._often
            and self.signature.last
            and self.signature.near is None
            and self.signature.cleared_by is None
        )

    def _match(self, seen: Sighting, back: Back | None) -> None:
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
        """Whether the neighbour is among the `most` lines above `line` (or in the same record)."""
        lowest = max(1, line - most)
        if self._near_line is not None and self._near_line >= lowest:
            return True
        if back is None or self.signature.near is None:
            return False
        found = back(self.signature.near.pattern, max(lowest, self._looked + 1), line - 1)
        self._looked = line - 1
        if found is None:
            self._near_line = self._near_line
        else:
            self._near_line = found
        return found is not None

    def _neighbour_came(self) -> None:
        pending, near = list(self._pending), self.signature.near
        self._pending.clear()
        if near is not None and not near.absent:
            for seen in pending:
                self._hit(seen)

    def settle(self, line: int | None) -> None:
        """The log has come to `line` (None: to its end): what waited for its neighbour in vain is
        decided.
        """
        near = self.signature.near
        if near is None:
            return
        while self._pending and (line is None or line - self._pending[0].moment.line > near.after):
            seen = self._pending.popleft()
            if near.absent:
                self._hit(seen)

    def _hit(self, seen: Sighting) -> None:
        if self.full:
            return
        self.hits = min(self.hits + 1, MANY)
        self.latest = seen
        self._window.append(seen)
        if self.fired is None and len(self._window) == self.signature.count and self._dense():
            self.fired, self.first = seen, self._window[0]

    def _dense(self) -> bool:
        if self.signature.within is None:
            return True
        first, last = self._window[0].moment, self._window[-1].moment
        if first.t is None or last.t is None:
            return first.m is None or last.m is None or last.m - first.m <= self.signature.within
        return last.t - first.t <= self.signature.within

    def clear(self) -> None:
        """It is over: the next match begins anew."""
        self.ends += self.hits > 0
        self.fired = self.first = self.latest = None
        self.hits = 0
        self._window.clear()
        self._pending.clear()

    def restore(self, place: Place) -> None:
        """It had fired before this engine was there."""
        self.fired = self.first = self.latest = Sighting(Moment(int(place.get("line", 0))), place)
        self.hits = 1
