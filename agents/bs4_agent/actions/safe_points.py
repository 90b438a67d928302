"""The points at which a newer agent may take over an action (between two steps, and while it only
waits for training to move), and at which a stop ends the action early.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bs4_agent.errors import Cancelled


class SafePoints:
    """The safe points of all actions; one per pod. It counts the threads that are inside a step.
    `hold` waits until there is none and lets no other one begin.

    Everything that an action has done up to a safe point is in the journal, so either agent can
    continue it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._held = False

    @contextmanager
    def step(self) -> Iterator[None]:
        """Enter a step for the block. Every piece of code that acts is inside one. Entering blocks
        while `hold` is in force, for ever if this agent leaves.
        """
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Leave the step for the block. The block must change nothing and be repeatable. An empty
        block marks the point between two steps.
        """
        self._leave()
        try:
            yield
        finally:
            self._enter()

    def hold(self, seconds: float) -> bool:
        """Wait up to `seconds` until no thread is inside a step. Return True if that happened; then
        no step begins until `release`.
        """
        with self._changed:
            self._held = True
            if self._changed.wait_for(lambda: self._inside == 0, seconds):
                return True
        self.release()
        return False

    def release(self) -> None:
        """Let steps begin again after `hold`."""
        with self._changed:
            self._held = False
            self._changed.notify_all()

    def _enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._held)
            self._inside += 1

    def _leave(self) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()


class Turn:
    """The time during which one action holds a run. `cancel` may be called from any thread, every
    other method only from the action's own thread.
    """

    def __init__(self, safe_points: SafePoints) -> None:
        self._boundaries = safe_points
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
        """Mark a safe point for the block (see `SafePoints.rest`). Raises Cancelled at its end if
        the action is to end.
        """
        with self._boundaries.rest():
            yield
        self.check()

    def pause(self, seconds: float) -> None:
        """Sleep for `seconds`. Raises Cancelled as soon as the action is to end."""
        self._cancelled.wait(seconds)
        self.check()
