"""Ask a pod questions that it answers in parts. The question is repeated until all parts are there,
and over a new link if the old one was lost.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

from bs4_common.preflight import Look, SchemaBody, StartBody
from bs4_console.errors import ChannelLost
from bs4_console.typed_json import record

_PAUSE_S = 0.1
_AGAIN_S = 0.5


class Asks(Protocol):
    """An object that can query a pod's agent: a PodSession or a Channel."""

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        """Send a query about `stream`, a name such as "preflight", to the pod's agent and return
        the agent's answer. `op` is the kind of the query, and `parameters` are its fields. Raises
        RemoteError if the agent refuses the query, and a LinkError if the link is lost.
        """


async def sliced(asks: Asks, op: str, question: StartBody | SchemaBody, timeout: float) -> Look:
    """Ask the agent a question about a start (`op` is the kind of the query, and `question` has its
    fields), and return the parts of the answer, without values of another type than declared. Some
    parts take the pod longer, so the query is repeated until all parts are there or `timeout`
    seconds have passed. A part that is then still missing is {"unknown": reason}.

    Raises ChannelLost if the link is lost and `asks` is a Channel, which cannot connect again, or
    if a session has not restored the link within `timeout`. Raises RemoteError if the agent refuses
    the query, and a LinkError if the link is lost.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            answer = await asks.query("preflight", op, **question)
        except ChannelLost:
            # A session makes its link again and can repeat the question. A bare channel cannot.
            if not name_of(asks) or time.monotonic() >= deadline:
                raise
            await asyncio.sleep(_AGAIN_S)
            continue
        facts, further = answer.get("facts"), answer.get("next")
        found = dict(facts) if isinstance(facts, dict) else {}
        if not isinstance(further, dict):
            return record(found, Look)
        if time.monotonic() >= deadline:
            waiting = answer.get("waiting")
            for name in waiting if isinstance(waiting, list) else ():
                found[str(name)] = {"unknown": f"The pod gave no answer within {timeout:.0f} s."}
            return record(found, Look)
        await asyncio.sleep(_PAUSE_S)


def name_of(asks: Asks) -> str:
    """Return the name of the pod if `asks` is a session with it. Return "" if it is a Channel,
    which does not know the name.
    """
    return str(getattr(getattr(asks, "state", None), "name", ""))
