"""Limit how long one query may take."""

from __future__ import annotations

import threading
import time

#: Seconds of one time slice. A query that needs more returns the place at which it stopped, so that
#: connection and core are free in between.
SLICE_S = 0.05


class Budget:
    """The time that one query may take: `seconds` from the moment at which this object is made. The
    time ends earlier if another thread sets the event `stop`, which cancels the query. That happens
    if a person cancels it or if the connection to the console is closed.
    """

    def __init__(self, stop: threading.Event | None = None, seconds: float = SLICE_S) -> None:
        self.stop = stop
        self._until = time.monotonic() + seconds

    @property
    def spent(self) -> bool:
        """Return True if the query must stop now, because its time is over or it was cancelled."""
        return time.monotonic() >= self._until or self.cancelled

    @property
    def cancelled(self) -> bool:
        """Return True if the query was cancelled, which is so if the event `stop` is set."""
        return self.stop is not None and self.stop.is_set()
