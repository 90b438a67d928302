"""The two clocks of a screen, so that a picture of it can be taken at a frozen moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """`wall`: seconds since the epoch, for times of day. `mono`: the monotonic seconds in which
    the pod session stamps what arrived, for ages.
    """

    wall: Callable[[], float] = time.time
    mono: Callable[[], float] = time.monotonic

    def wall_of(self, mono: float) -> float:
        """The time of day at which the monotonic clock showed `mono`."""
        return self.wall() - (self.mono() - mono)
