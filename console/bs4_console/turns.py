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
    """Gives the readers of all pods turns, so that only one of them at a time processes a piece of
    the data that it has received. The readers get their turns in the order in which they asked.
    After each turn there is a pause, in which the program serves keys and draws the screen.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until no other reader has its turn, and then take one for the length of the `async
        with` block. After the block comes a pause, in which no reader has a turn: REST (3) times as
        long as the block took, but at most one second.
        """
        async with self._lock:
            began = time.perf_counter()
            yield
            await asyncio.sleep(min(REST * (time.perf_counter() - began), REST_MOST_S))
