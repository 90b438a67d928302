"""The two clocks of a screen. Tests freeze them to take pictures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """The two clocks of a screen. `wall` returns the Unix time in seconds and is used for times of
    day. `mono` returns monotonic seconds and is used for ages; the sessions stamp what arrives from
    a pod with the same clock.
    """

    wall: Callable[[], float] = time.time
    mono: Callable[[], float] = time.monotonic

    def wall_of(self, mono: float) -> float:
        """Convert a moment from one clock to the other. The argument `mono` is the moment as a
        value of the monotonic clock, in seconds. Return the same moment as a Unix time in seconds.
        """
        return self.wall() - (self.mono() - mono)
