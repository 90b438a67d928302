"""What the console says first on a channel: who it is, and the questions whose answers it needs at
once. All of it may be sent together with the command that attaches to the agent, so that a pod that
is far away is asked without waiting for its greeting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bs4_common.wire import AHEAD_LIMIT, PROTOCOLS, encode

#: The most questions of a greeting. The agent answers four queries of a connection at a time.
QUESTIONS = 4

CallName = Literal["read", "query", "submit", "ping", "cancel"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request to the agent. `call` says of what kind it is, such as a read of a stream or a
    query. `stream` and `op` are the stream and the question of a read or a query, or "". `fields`
    are the further fields of the request, as they are sent.
    """

    call: CallName
    stream: str = ""
    op: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def encoded(self, number: int, payload: bytes = b"") -> bytes:
        """Return the request as it is sent, with `number` as its id. Raises ProtocolError if it is
        larger than the agent accepts.
        """
        header = {**self.fields, "id": number, "call": self.call}
        if self.stream:
            header["stream"] = self.stream
        if self.op:
            header["op"] = self.op
        return encode(header, payload)


@dataclass(frozen=True)
class Action:
    """An action for the agent to carry out. `key` is its id, `kind` what it is, such as "stop", and
    `body` has the fields of that kind.
    """

    key: str
    kind: str
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Greeting:
    """The first bytes that the console sends over a new connection to an agent. `data` has the
    greeting and the first questions as they are sent, and `questions` maps the id of each of these
    questions to it.
    """

    data: bytes
    questions: Mapping[int, Call]


def greeting(who: str, client: str, questions: Sequence[Call] = ()) -> Greeting:
    """Return the greeting of the person `who`, who uses the program `client`, together with the
    first `questions` to the agent. Only the first four questions are sent along, and only as many
    as fit into the command that connects. Raises ValueError if a question is neither a read nor a
    query: before the agent has answered the greeting, it must not be ordered to do anything.
    """
    data = encode({"hello": {"protocols": list(PROTOCOLS), "client": client, "who": who}})
    asked: dict[int, Call] = {}
    for number, call in enumerate(questions[:QUESTIONS], start=1):
        if call.call not in ("read", "query"):
            raise ValueError(f"a {call.call} must wait until the agent has greeted")
        frame = call.encoded(number)
        if len(data) + len(frame) > AHEAD_LIMIT:
            break
        data += frame
        asked[number] = call
    return Greeting(data, asked)


def read_call(stream: str, cursor: str, limit: int, wait: float = 0.0, seen: int = 0) -> Call:
    """Return the request, not yet sent, for at most `limit` bytes of `stream` (a name such as
    "log/RUN/trainer") from `cursor` on. If there are none yet, the agent waits up to `wait` seconds
    for new ones. `seen` is the number of bytes that the caller already has of the unfinished last
    line; that line is sent again only if it has grown.
    """
    place = {"cursor": cursor, "limit": limit, "wait": wait, "seen": seen}
    return Call(call="read", stream=stream, fields=place)


def query_call(stream: str, op: str, **parameters: Any) -> Call:
    """Return the request, not yet sent, that asks the question `op`, such as "stat" or "search",
    about `stream`, a name such as "log/RUN/trainer". `parameters` are the fields of the question.
    """
    return Call(call="query", stream=stream, op=op, fields=parameters)


def submit_call(action: Action) -> Call:
    """Return the request, not yet sent, that submits `action` to the agent."""
    fields = {"key": action.key, "kind": action.kind, **action.body}
    return Call(call="submit", fields={"action": fields})
