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
    """How curves are shown. `log` is True for a logarithmic scale. `weight`, from 0 to less than 1,
    is the weight of earlier values in the running mean; 0 shows no mean. `steps` is how many steps
    are shown, None for all. `end` is the last step shown; None follows the newest step.
    """

    log: bool = False
    weight: float = 0.0
    steps: int | None = None
    end: int | None = None

    @property
    def plain(self) -> bool:
        """Return True if the curves are shown as by default: linear, no mean, all steps."""
        return self == CurveView()

    def window(self, first: int, last: int, at: int | None = None) -> tuple[int, int]:
        """Return the first and the last step to show. `first` and `last` are the first and the last
        step that the run has. `at` is the step at the past moment that the screens show, or None
        for the present; it is always among the steps returned.
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
        """Return a view that shows `factor` times as many steps. They are around `at`, the step at
        the time cursor (the past moment that all screens show), or, if that is None, end with the
        last step that is shown now. `first` and `last` are the first and the last step of the run.
        If the run has no more steps than would be shown, the view shows all.
        """
        begin, end = self.window(first, last, at)
        count = max(_LEAST, round((end - begin + 1) * factor))
        if count > last - first:
            return replace(self, steps=None, end=None)
        if at is not None:
            end = at + count // 2
        return replace(self, steps=count, end=None if end >= last else max(end, first + count - 1))

    def panned(self, first: int, last: int, at: int | None, share: float) -> CurveView:
        """Return a view that is moved by `share` times the number of steps shown: to later steps,
        or to earlier ones if `share` is negative. `first` and `last` are the first and the last
        step of the run, and `at` is the step at the time cursor (the past moment that all screens
        show), or None. A view that reaches the newest step follows the run from then on. A view of
        all steps is returned unchanged.
        """
        if self.steps is None:
            return self
        end = self.window(first, last, at)[1] + math.copysign(
            max(1, round(self.steps * abs(share))), share
        )
        return replace(self, end=None if end >= last else int(max(end, first + self.steps - 1)))

    def words(self, first: int, last: int) -> str:
        """Return in words how the view differs from the default one, for example "log, mean 0.9,
        steps 120 … 187", or "" if it does not. `first` and `last` are the first and the last step
        shown.
        """
        said = ["log"] if self.log else []
        if self.weight:
            said.append(f"mean {self.weight:g}")
        if self.steps is not None:
            said.append(f"steps {first} … {last}")
        return ", ".join(said)


def smoothed(points: Sequence[Point], weight: float) -> list[Point]:
    """Return `points` (step, value) with the exponential running mean as values. `weight`, from 0
    to less than 1, is the share that the earlier values keep at each step. The mean does not start
    at 0: it is divided by the weight of the values so far. A value that is NaN or infinite becomes
    NaN and does not affect later ones.
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
