"""A group of asyncio tasks that end together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class TaskGroup311:
    """Runs coroutines as tasks until all have ended or one fails. After a failure the others are
    cancelled and `wait` raises the error unchanged. Coroutines can be added at any time.

    asyncio.TaskGroup does the same by cancelling the task that waits for the group. It does not
    undo that cancellation if the task is already waiting in `__aexit__` (3.11.0 to 3.13):
    `cancelling()` stays 1. With the asyncio.timeout of Python 3.11.0 to 3.11.3 every later time-out
    of that task is then a CancelledError, which ends the task without a message. This class cancels
    only the tasks that it started.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start the coroutine `work` as a task of the group. If the group has ended already, do not
        run it: `work` is closed.
        """
        if self._over.done():
            work.close()
            return
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def wait(self) -> None:
        """Wait until all tasks of the group have ended. If a task fails, its error is raised at
        once and the other tasks are cancelled. No task still runs when this returns, raises or is
        cancelled.
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
