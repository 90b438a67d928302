"""How long one query may take."""

from __future__ import annotations

import threading
import time

#: Seconds of one time slice. A query that needs more says where it stopped; the connection and the
#: core stay free in between.
SLICE_S = 0.05


class Budget:
    """A time slice that also ends when `stop` is set (the query was cancelled or its connection
    closed).
    """

    def __init__(self, stop: threading.Event | None = None, seconds: float = SLICE_S) -> None:
        self.stop = stop
        self._until = time.monotonic() + seconds

    @property
    def spent(self) -> bool:
        return time.monotonic() >= self._until or self.cancelled

    @property
    def cancelled(self) -> bool:
        return self.stop is not None and self.stop.is_set()
