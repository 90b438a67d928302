"""The hold of one action on its run: the points at which a newer agent may take over, and at which
a stop ends the action early.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bs4_agent.actions.safe_points import Boundaries
from bs4_agent.errors import Cancelled


class Turn:
    """The time during which one action holds a run. `cancel` may be called from any thread, every
    other method only from the action's own thread.
    """

    def __init__(self, boundaries: Boundaries) -> None:
        self._boundaries = boundaries
        self._cancelled = threading.Event()
        self._by = ""

    def cancel(self, who: str) -> None:
        """End the action at its next safe point, or in the wait that it is in. `who` is named in
        the journal.
        """
        self._by = who
        self._cancelled.set()

    def check(self) -> None:
        """Raise Cancelled if the action is to end."""
        if self._cancelled.is_set():
            raise Cancelled(self._by)

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Mark a safe point for the block (see `Boundaries.rest`). Raises Cancelled at its end if
        the action is to end.
        """
        with self._boundaries.rest():
            yield
        self.check()

    def pause(self, seconds: float) -> None:
        """Sleep for `seconds`. Raises Cancelled as soon as the action is to end."""
        self._cancelled.wait(seconds)
        self.check()
