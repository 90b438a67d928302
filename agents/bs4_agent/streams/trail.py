"""When a file had which size: lets a log be sought by time although its lines may carry none."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

#: Pairs held per file, 64 KiB. When they are used up every second one goes and they come half as
#: often: a week ends at one in 256 s.
MAX_PAIRS = 4096


class Trail:
    """(wall time, size) pairs of one growing file, at most one a second."""

    def __init__(self, saved: Sequence[Sequence[float]] = ()) -> None:
        self._times = array("d", [pair[0] for pair in saved])
        self._sizes = array("Q", [int(pair[1]) for pair in saved])
        self._every = 1.0

    def add(self, t: float, size: int) -> None:
        # A wall clock that was set back would break the order: such pairs are left out until it has
        # caught up.
        if self._times and t < self._times[-1] + self._every:
            return
        self._times.append(t)
        self._sizes.append(size)
        if len(self._times) >= MAX_PAIRS:
            self._times, self._sizes = self._times[::2], self._sizes[::2]
            self._every *= 2

    def size_at(self, t: float) -> int | None:
        """The last size noted at or before `t`; None when the file was not watched then."""
        index = bisect_right(self._times, t)
        if index:
            return self._sizes[index - 1]
        return None

    def saved(self, limit: int) -> list[list[float]]:
        """At most `limit` of the pairs, evenly."""
        step = -(-len(self._times) // limit) or 1
        return [
            [round(self._times[i], 3), self._sizes[i]] for i in range(0, len(self._times), step)
        ]
