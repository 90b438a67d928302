"""Requests as they are sent: what the console sets itself cannot be set by the fields that an agent
names for the next request.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_common.wire import Decoder
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.reading.greeting import Action, Call, query_call, read_call, submit_call
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState

HOME = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("call", "header"),
    [
        (Call(call="ping"), {"id": 3, "call": "ping"}),
        (
            read_call("journal", "1:0", 9),
            {
                "id": 3,
                "call": "read",
                "stream": "journal",
                "cursor": "1:0",
                "limit": 9,
                "wait": 0.0,
                "seen": 0,
            },
        ),
        (
            query_call("log/r/t", "seek-line", line=-1, id=7, call="submit"),
            {"id": 3, "call": "query", "stream": "log/r/t", "op": "seek-line", "line": -1},
        ),
        (
            submit_call(Action("K", "stop", {"run": "r"})),
            {"id": 3, "call": "submit", "action": {"key": "K", "kind": "stop", "run": "r"}},
        ),
    ],
)
def test_a_request_is_sent_with_its_fields(call: Call, header: dict[str, object]) -> None:
    (frame,) = Decoder().feed(call.encoded(3, b"payload"))
    assert (frame.header, frame.payload) == (header, b"payload")


class Link:
    """The channel of a session, which takes every action."""

    def __init__(self) -> None:
        self.sent: list[Action] = []

    async def submit(self, action: Action, payload: bytes = b"") -> str:
        self.sent.append(action)
        return "accepted"


async def test_an_action_has_its_own_key_or_the_given_one_and_names_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = PodSession(PodState(name="a"), None, Mirror(tmp_path), "who")  # type: ignore[arg-type]
    link = Link()

    async def connected(timeout: float) -> Link:
        return link

    monkeypatch.setattr(session, "connected", connected)
    own = await session.submit("stop", run="r")
    session.state.hello = {"home": HOME}
    assert await session.submit("launch", key="K", run="r") == "K"
    await session.submit("stop", run="r", home="other")
    assert link.sent == [
        Action(own, "stop", {"run": "r"}),
        Action("K", "launch", {"run": "r", "home": HOME}),
        Action(link.sent[2].key, "stop", {"run": "r", "home": "other"}),
    ]
    assert len({action.key for action in link.sent}) == 3
    await session.close()
