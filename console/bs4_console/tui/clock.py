"""The two clocks of a screen. Tests freeze them to take pictures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """The screen's clocks. `wall` returns seconds since the epoch, for times of day. `mono` returns
    the monotonic seconds with which a pod session stamps what arrives, for ages.
    """

    wall: Callable[[], float] = time.time
    mono: Callable[[], float] = time.monotonic

    def wall_of(self, mono: float) -> float:
        """Return the time of day, in seconds since the epoch, at which the monotonic clock showed
        `mono`.
        """
        return self.wall() - (self.mono() - mono)
