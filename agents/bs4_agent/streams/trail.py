"""Note when a file had which size. So a log can be searched by time even if its lines have none."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

#: Pairs held for each file, 64 KiB. When they are used up, every second one is dropped and they
#: come half as often: a week ends at one in 256 s.
MAX_PAIRS = 4096


class Trail:
    """Pairs of wall second and size of one growing file, at most one pair a second."""

    def __init__(self, saved: Sequence[Sequence[float]] = ()) -> None:
        self._times = array("d", [pair[0] for pair in saved])
        self._sizes = array("Q", [int(pair[1]) for pair in saved])
        self._every = 1.0

    def add(self, t: float, size: int) -> None:
        """Note that the file had `size` bytes at wall second `t`, unless the last pair is too
        recent.
        """
        # A wall clock that was set back would break the order, so such pairs are left out until it
        # has caught up.
        if self._times and t < self._times[-1] + self._every:
            return
        self._times.append(t)
        self._sizes.append(size)
        if len(self._times) >= MAX_PAIRS:
            self._times, self._sizes = self._times[::2], self._sizes[::2]
            self._every *= 2

    def size_at(self, t: float) -> int | None:
        """Return the last size that was noted at or before wall second `t`. None if the file was
        not watched then.
        """
        index = bisect_right(self._times, t)
        return self._sizes[index - 1] if index else None

    def saved(self, limit: int) -> list[list[float]]:
        """Return at most `limit` of the pairs, evenly spread."""
        step = -(-len(self._times) // limit) or 1
        return [
            [round(self._times[i], 3), self._sizes[i]] for i in range(0, len(self._times), step)
        ]
