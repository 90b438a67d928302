"""The points at which a newer agent may take over an action (between two steps, and while it only
waits for training to move), and at which a stop ends the action early.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bs4_common.errors import Cancelled


class SafePoints:
    """Knows when no action of the pod is in the middle of a step, so that another agent can take
    over. There is one object per pod. It counts the threads that are inside a step of an action.
    Between two steps, at a safe point, everything that the action has done is in the journal, so
    this agent or a newer one can continue it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._held = False

    @contextmanager
    def step(self) -> Iterator[None]:
        """Count this thread as inside a step for the `with` block. All code that changes something
        on the pod runs in such a block. After `hold` was called, entering the block waits until
        `release` is called, or for ever if this agent is about to end.
        """
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Let a newer agent take over during the `with` block, which must be inside a block of
        `step`. This thread counts as outside a step meanwhile. An agent that takes over runs the
        code of the block again, so that code must change nothing. After another thread has called
        `hold`, the end of the block waits until `release` is called. An empty block marks the point
        between two steps.
        """
        self._leave()
        try:
            yield
        finally:
            self._enter()

    def hold(self, seconds: float) -> bool:
        """Prevent that further steps begin, and wait up to `seconds` until no thread is inside a
        step. Return True once that is so; then no step begins until `release` is called. Return
        False if a step took longer than `seconds`; then steps may begin again.
        """
        with self._changed:
            self._held = True
            if self._changed.wait_for(lambda: self._inside == 0, seconds):
                return True
        self.release()
        return False

    def release(self) -> None:
        """Let steps of actions begin again, which `hold` has prevented. Do nothing if `hold` was
        not called.
        """
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
    """The time during which a run is reserved for one action. With this object the action marks its
    safe points, at which a newer agent may take over, and learns that it is to end. `let_go` calls
    the function `release`, which ends the reservation. `cancel` may be called from any thread,
    every other method only from the action's own thread.
    """

    def __init__(
        self, safe_points: SafePoints, release: Callable[[], object] = lambda: None
    ) -> None:
        self._boundaries, self._release = safe_points, release
        self._holds = True
        self._cancelled = threading.Event()
        self._by = ""

    def cancel(self, who: str) -> None:
        """Tell the action to which this Turn (the reservation of a run) belongs to end at its next
        safe point, or at once if it waits at one. `who` is the person who stopped the action, for
        the journal.
        """
        self._by = who
        self._cancelled.set()

    def let_go(self) -> None:
        """Stop reserving the run for this action, although the action goes on, so that another
        action may work on the run. From then on `cancel` does not end this action any more. A newer
        agent can still take it over at a safe point (see `rest`).
        """
        self._holds = False
        self._release()

    def check(self) -> None:
        """Raise Cancelled if `cancel` has been called on this object and the action still has its
        run reserved, so that no other action works on it. Do nothing otherwise. An action calls
        this wherever it may be ended.
        """
        if self._holds and self._cancelled.is_set():
            raise Cancelled(self._by)

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Mark the `with` block as a safe point: during it a newer agent may take over. The code in
        the block must change nothing. Raises Cancelled after the block if `cancel` was called, so
        that the action ends here.
        """
        with self._boundaries.rest():
            yield
        self.check()

    def pause(self, seconds: float) -> None:
        """Sleep for `seconds`. Raises Cancelled as soon as `cancel` is called, and at once if it
        has been called already.
        """
        self._cancelled.wait(seconds)
        self.check()
