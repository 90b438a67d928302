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
        """Return the Unix time in seconds that the clock `wall` showed when the clock `mono` showed
        `mono`, a value in monotonic seconds.
        """
        return self.wall() - (self.mono() - mono)
