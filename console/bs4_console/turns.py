"""Turns at taking in what pods send, so that keys are served while many pods send much."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

#: For how long nothing is taken in after a piece, as a multiple of the time that the piece took.
#: All pods together get a quarter of this program's time at most.
REST = 3.0
#: The longest such pause, in seconds: a piece may have taken long because this program was stopped.
REST_MOST_S = 1.0


class Turns:
    """Lets the readers of all pods on a screen process what they receive one after the other, one
    piece of data at a time, in the order in which they asked. After each piece the program serves
    keys and draws the screen.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until no other reader has its turn. The turn lasts for the length of the `async
        with` block, and then for REST times as long again, but at most a second more.
        """
        async with self._lock:
            began = time.perf_counter()
            yield
            await asyncio.sleep(min(REST * (time.perf_counter() - began), REST_MOST_S))
