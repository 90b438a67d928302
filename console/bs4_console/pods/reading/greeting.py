"""What the console says first on a channel: who it is, and the questions whose answers it needs at
once. All of it may be sent together with the command that attaches to the agent, so that a pod that
is far away is asked without waiting for its greeting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bs4_common.wire import AHEAD_LIMIT, PROTOCOLS, encode

#: The most questions of a greeting. The agent answers four queries of a connection at a time.
QUESTIONS = 4

Call = dict[str, Any]
"""The header of a request to the agent, without its id."""


@dataclass(frozen=True)
class Greeting:
    """The first bytes of a channel. `data` holds the hello and the questions as frames, and
    `questions` the headers of the questions by their ids.
    """

    data: bytes
    questions: Mapping[int, Call]


def greeting(who: str, client: str, questions: Sequence[Call] = ()) -> Greeting:
    """Return the greeting of the person `who` with the program `client`. Questions beyond four, and
    those that would make it longer than the command may carry, are left out. Raises ValueError if
    one is no read and no query: before the agent has greeted, it is asked and told to do nothing.
    """
    data = encode({"hello": {"protocols": list(PROTOCOLS), "client": client, "who": who}})
    asked: dict[int, Call] = {}
    for number, call in enumerate(questions[:QUESTIONS], start=1):
        if call["call"] not in ("read", "query"):
            raise ValueError(f"a {call['call']} must wait until the agent has greeted")
        frame = encode({"id": number, **call})
        if len(data) + len(frame) > AHEAD_LIMIT:
            break
        data += frame
        asked[number] = call
    return Greeting(data, asked)


def read_call(stream: str, cursor: str, limit: int, wait: float = 0.0, seen: int = 0) -> Call:
    """Return the request that reads `stream`; see Channel.read for what the fields mean."""
    return {
        "call": "read",
        "stream": stream,
        "cursor": cursor,
        "limit": limit,
        "wait": wait,
        "seen": seen,
    }


def query_call(stream: str, op: str, **parameters: Any) -> Call:
    """Return the request that asks the question `op` about `stream`; see Channel.query."""
    return {**parameters, "call": "query", "stream": stream, "op": op}
