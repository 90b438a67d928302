"""Tasks that live and end together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Together:
    """Runs coroutines until one fails; then the others are cancelled and its error is raised as it
    is. More can join meanwhile.

    asyncio.TaskGroup does the same by cancelling the task that waits for it, and does not take that
    back when it is waiting in `__aexit__` already (3.11.0 to 3.13): `cancelling()` stays 1. With
    the asyncio.timeout of Python 3.11.0 to 3.11.3 every later time-out of that task is then a
    CancelledError, which ends it in silence. This one cancels nothing but what it started.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin `work` now. One that comes after the end is closed unseen."""
        if self._over.done():
            work.close()
            return
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def wait(self) -> None:
        """Until all have ended, or the first error. Whatever ends it (a cancellation too): no task
        is left.
        """
        if not self._tasks:
            return
        try:
            await self._over
        finally:
            left = list(self._tasks)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if self._over.done():
            return
        if error is not None:
            self._over.set_exception(error)
        elif not self._tasks:
            self._over.set_result(None)
