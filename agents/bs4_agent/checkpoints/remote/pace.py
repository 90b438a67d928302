"""A bandwidth limit over all threads of a transfer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: The longest sleep in seconds; a thread that must wait longer checks for a stop in between.
_NAP_S = 1.0
#: The burst that is allowed after a pause, in seconds of the rate.
_BURST_S = 0.25


class Pace:
    """A bandwidth limit of `rate` bytes per second for all threads of a transfer; a rate of None
    means no limit. Call the object with the number of bytes that are about to be sent: it sleeps as
    long as the limit requires. `total` is the number of bytes so far.
    """

    def __init__(
        self,
        rate: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate, self._clock, self._sleep = rate, clock, sleep
        self._lock = threading.Lock()
        self._free_at = clock()
        self.total = 0

    def __call__(self, count: int) -> None:
        """Wait until `count` more bytes may be sent."""
        with self._lock:
            self.total += count
            if self._rate is None:
                return
            now = self._clock()
            # Every thread queues behind the bytes before it, so all threads together keep the rate.
            self._free_at = max(self._free_at, now - _BURST_S) + count / self._rate
            due = self._free_at
        while (wait := due - self._clock()) > 0:
            self._sleep(min(wait, _NAP_S))
