"""Waiting with a time limit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable


async def at_most(waiting: Awaitable[object], seconds: float | None) -> None:
    """Wait until `waiting` ends, for at most `seconds` (None: without a limit). Returns in both
    cases. asyncio.wait_for is not used because Python 3.11's swallows a Ctrl-C that comes just as
    `waiting` ends.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting
