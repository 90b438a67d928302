"""Questions that a pod answers in slices: asked again and again, over a link that is made anew
where need be, until all parts are there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol

from bs4_console.errors import ChannelLost

_PAUSE_S = 0.1
_AGAIN_S = 0.5


class Asks(Protocol):
    """A PodSession or a Channel."""

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]: ...


async def sliced(
    asks: Asks, op: str, question: Mapping[str, Any], timeout: float
) -> dict[str, Any]:
    """The parts of the answer, asked for until all are there or the time is over; the others are
    {"unknown": why}.
    """
    deadline = time.monotonic() + timeout
    body = dict(question)
    while True:
        try:
            answer = await asks.query("preflight", op, **body)
        except ChannelLost:
            # A session makes its link again, and the same question is the same look; of a bare
            # channel nothing is left.
            if not name_of(asks) or time.monotonic() >= deadline:
                raise
            await asyncio.sleep(_AGAIN_S)
            continue
        facts, further = answer.get("facts"), answer.get("next")
        found = dict(facts) if isinstance(facts, dict) else {}
        if not isinstance(further, dict):
            return found
        if time.monotonic() >= deadline:
            waiting = answer.get("waiting")
            names = []
            if isinstance(waiting, list):
                names = [str(name) for name in waiting]
            return {
                **found,
                **{
                    name: {"unknown": f"The pod gave no answer within {timeout:.0f} s."}
                    for name in names
                },
            }
        await asyncio.sleep(_PAUSE_S)


def name_of(asks: Asks) -> str:
    """What a session calls its pod; a bare channel does not know."""
    return str(getattr(getattr(asks, "state", None), "name", ""))
