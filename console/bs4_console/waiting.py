"""Waiting with a time limit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable


async def at_most(waiting: Awaitable[object], seconds: float | None) -> None:
    """Wait until `waiting` has ended, but no longer than `seconds` (None: without a limit). Return
    None in both cases: nothing is raised if the time is over. asyncio.wait_for is not used, because
    in Python 3.11 it can swallow a Ctrl-C that comes just as `waiting` ends.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting
