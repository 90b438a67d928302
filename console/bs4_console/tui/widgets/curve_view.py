"""How curves are shown: log scale, smoothing, and which steps. The data is kept apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

Point = tuple[int, float]

#: Weights of the running mean, in the order in which the key selects them. 0 shows the steps
#: themselves.
WEIGHTS = (0.0, 0.6, 0.9, 0.97)
#: Least steps that a curve shows.
_LEAST = 8


@dataclass(frozen=True)
class CurveView:
    """How curves are shown. `weight` is that of the running mean, 0 for none. `steps` is how many
    steps are shown, or None for all. `end` is the last of them, or None for the newest.
    """

    log: bool = False
    weight: float = 0.0
    steps: int | None = None
    end: int | None = None

    @property
    def plain(self) -> bool:
        """Return True if nothing differs from the default."""
        return self == CurveView()

    def window(self, first: int, last: int, at: int | None = None) -> tuple[int, int]:
        """Return the first and the last step to show of `first` to `last`. The step `at` of the
        time cursor is always among them.
        """
        if self.steps is None or self.steps > last - first:
            return first, last
        end = last
        if self.end is not None:
            end = min(max(self.end, first + self.steps - 1), last)
        if at is not None and not end - self.steps < at <= end:
            end = min(max(at + self.steps // 2, first + self.steps - 1), last)
        return end - self.steps + 1, end

    def zoomed(self, first: int, last: int, at: int | None, factor: float) -> CurveView:
        """Return the view with `factor` times as many steps, around the time cursor or else up to
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
        """Return the view moved by a share of the steps that are shown, to earlier ones if
        negative. At the newest step the curves follow the run again.
        """
        if self.steps is None:
            return self
        end = self.window(first, last, at)[1] + math.copysign(
            max(1, round(self.steps * abs(share))), share
        )
        return replace(self, end=None if end >= last else int(max(end, first + self.steps - 1)))

    def words(self, first: int, last: int) -> str:
        """Return what differs from the default, for example "log, mean 0.9, steps 120 … 187"."""
        said = ["log"] if self.log else []
        if self.weight:
            said.append(f"mean {self.weight:g}")
        if self.steps is not None:
            said.append(f"steps {first} … {last}")
        return ", ".join(said)


def smoothed(points: Sequence[Point], weight: float) -> list[Point]:
    """Return the exponential running mean, corrected for its start. A NaN stays in its place and
    does not affect later values.
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
