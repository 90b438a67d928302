"""Waiting that ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable


async def at_most(waiting: Awaitable[object], seconds: float | None) -> None:
    """Until `waiting` ends, for `seconds` at most. (Not wait_for: Python 3.11's swallows a Ctrl-C
    that comes just as `waiting` ends.)
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting
