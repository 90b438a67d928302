"""A few threads that run jobs. concurrent.futures is not used, because it imports logging, which
nothing else here needs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

#: Bytes. A waiting read needs some 20 KiB. The system's default of 8 MiB would be reserved for each
#: of up to 20 threads of a console.
STACK_BYTES = 256 * 1024


class Workers:
    """A pool of at most `limit` threads that run jobs. A thread is started when it is needed and
    stays until `close`.
    """

    def __init__(self, limit: int, name: str) -> None:
        self._limit, self._name = limit, name
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._closed = False

    def put(self, job: Callable[[], None]) -> bool:
        """Run `job` on one of the threads and return True. Return False, without running it, if all
        threads are busy or the pool is closed.
        """
        with self._changed:
            if self._closed:
                return False
            if self._idle > len(self._jobs):
                self._jobs.append(job)
                self._changed.notify()
                return True
            if self._threads >= self._limit:
                return False
            self._threads += 1
            self._jobs.append(job)
        spawn(self._run, self._name)
        return True

    def close(self) -> None:
        """Let each thread end after its present job. No further job is accepted."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        """Run jobs until there are no more."""
        try:
            while job := self._next():
                job()
        finally:
            with self._changed:
                self._threads -= 1

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next job and return it, or None after `close`."""
        with self._changed:
            while not self._jobs and not self._closed:
                self._idle += 1
                try:
                    self._changed.wait()
                finally:
                    self._idle -= 1
            if self._jobs:
                return self._jobs.popleft()
            return None


def spawn(run: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread with the name `name` and a small stack, which calls `run`, and return
    the thread.
    """
    thread = threading.Thread(target=run, name=name, daemon=True)
    before = threading.stack_size(STACK_BYTES)
    try:
        thread.start()
    finally:
        threading.stack_size(before)
    return thread
