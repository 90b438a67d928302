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
    """The first bytes that the console sends over a new connection to an agent. `data` has the
    greeting and the first questions as they are sent, and `questions` maps the id of each question
    to its header.
    """

    data: bytes
    questions: Mapping[int, Call]


def greeting(who: str, client: str, questions: Sequence[Call] = ()) -> Greeting:
    """Return the greeting of the person `who`, who uses the program `client`, together with the
    first `questions` to the agent. Questions after the fourth are left out, and those with which
    the greeting would be longer than the command may carry. Raises ValueError if a question is
    neither a read nor a query: until the agent has answered the greeting, it may be asked something
    but must not be ordered to do anything.
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
