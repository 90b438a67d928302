"""Where an action may be left for a newer agent to go on with: between two steps, and while it only
waits for training to move.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Boundaries:
    """Counts the threads that are inside a step. `hold` waits until there is none and lets nobody
    begin another one; what an action has done up to a boundary is in the journal, so it makes no
    difference who goes on.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._held = False

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around everything that acts. Blocks on entry while held, for ever when this agent
        leaves.
        """
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Inside `step`: a stretch that changes nothing and can be begun again, or (empty) the line
        between two steps.
        """
        self._leave()
        try:
            yield
        finally:
            self._enter()

    def hold(self, seconds: float) -> bool:
        """Whether nobody is inside a step now, waiting up to `seconds` for it. When True it stays
        so until `release`.
        """
        with self._changed:
            self._held = True
            if self._changed.wait_for(lambda: self._inside == 0, seconds):
                return True
        self.release()
        return False

    def release(self) -> None:
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
