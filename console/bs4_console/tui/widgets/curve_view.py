"""How curves are looked at: log scale, smoothing, which steps, which of them; kept apart from what
is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

Point = tuple[int, float]

#: Weights of the running mean, in the order of the key; 0 shows the steps as they are.
WEIGHTS = (0.0, 0.6, 0.9, 0.97)
#: Fewer steps than this are no curve any more.
_LEAST = 8


@dataclass(frozen=True)
class CurveView:
    """`steps`: how many are shown, None for all; `end`: the last of them, None for the newest."""

    log: bool = False
    weight: float = 0.0
    steps: int | None = None
    end: int | None = None

    @property
    def plain(self) -> bool:
        return self == CurveView()

    def window(self, first: int, last: int, at: int | None = None) -> tuple[int, int]:
        """The steps to show of first..last. The time cursor `at` is always among them."""
        if self.steps is None or self.steps > last - first:
            return first, last
        if self.end is None:
            end = last
        else:
            end = min(max(self.end, first + self.steps - 1), last)
        if at is not None and not end - self.steps < at <= end:
            end = min(max(at + self.steps // 2, first + self.steps - 1), last)
        return end - self.steps + 1, end

    def zoomed(self, first: int, last: int, at: int | None, factor: float) -> CurveView:
        """Fewer steps for a factor under one, more for one above; about the time cursor, else about
        the newest step shown.
        """
        begin, end = self.window(first, last, at)
        count = max(_LEAST, round((end - begin + 1) * factor))
        if count > last - first:
            return replace(self, steps=None, end=None)
        if at is not None:
            end = at + count // 2
        return replace(self, steps=count, end=None if end >= last else max(end, first + count - 1))

    def panned(self, first: int, last: int, at: int | None, share: float) -> CurveView:
        """By a share of what is shown: to earlier steps when negative. At the newest step the
        curves follow again.
        """
        if self.steps is None:
            return self
        end = self.window(first, last, at)[1] + math.copysign(
            max(1, round(self.steps * abs(share))), share
        )
        return replace(self, end=None if end >= last else int(max(end, first + self.steps - 1)))

    def words(self, first: int, last: int) -> str:
        """What is not as usual: "log, mean 0.9, steps 120 … 187"."""
        said = ["log"] if self.log else []
        if self.weight:
            said += [f"mean {self.weight:g}"]
        else:
            said += []
        if self.steps is not None:
            said += [f"steps {first} … {last}"]
        else:
            said += []
        return ", ".join(said)


def smoothed(points: Sequence[Point], weight: float) -> list[Point]:
    """The exponential running mean, without the pull of its beginning. NaN stays where it was and
    does not spoil what follows.
    """
    made: list[Point] = []
    mean = total = 0.0
    for step, value in points:
        if math.isfinite(value):
            mean, total = weight * mean + (1 - weight) * value, weight * total + (1 - weight)
            made.append((step, mean / total))
        else:
            made.append((step, math.nan))
    return made
