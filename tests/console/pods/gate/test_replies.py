"""Each answer of an agent is checked where the channel receives it: the healthy answers of this
version and of the one before pass, and the others are an error that names request and field.
"""

from __future__ import annotations

from typing import Any

import pytest

from bs4_common.wire import Frame
from bs4_console.pods.gate import replies
from bs4_console.pods.gate.rules import RecordRefused
from bs4_console.pods.reading.greeting import Action, Call, query_call
from tests.agent.channel.test_server import Agent
from tests.console.pods.test_channel import agent, opened

__all__ = ["agent"]


def checked(request: Call, **header: Any) -> dict[str, Any]:
    return replies.check(request, Frame({"id": 1, "ok": True, **header}, b"")).header


def passes(stream: str, op: str, result: Any) -> Any:
    return checked(query_call(stream, op), result=result)["result"]


HEALTHY: list[tuple[str, str, dict[str, Any]]] = [
    ("journal", "stat", {"kind": "records", "start": "1:0", "end": "2:9", "bytes": 9}),
    ("log/r/trainer", "seek-line", {"cursor": "1:0", "next": {"line": 3, "cursor": "1:0"}}),
    ("log/r/trainer", "seek-line", {"cursor": "1:0", "next": None, "cut": True, "within": False}),
    ("telemetry", "seek-time", {"cursor": "1:0", "t": None, "exact": False, "next": None}),
    ("log/r/trainer", "seek-clock", {"cursor": None, "next": None}),
    ("log/r/trainer", "where", {"line": None, "lines": None, "next": {"cursor": "1:0"}}),
    ("log/r/trainer", "where", {"line": 3, "lines": 4, "next": None}),
    ("log/r/t", "search", {"hits": [{"cursor": "1:0", "text": "\x1b[1mx", "at": 4}], "next": None}),
    ("log/r/t", "count", {"stretches": [[1, 0, 9, 2]], "cursor": "1:9", "next": None}),
    ("log/r/t", "sift", {"lines": [["1:0", "x", 1]], "cursor": "1:9", "next": {"cursor": "1:9"}}),
    ("*", "list", {"streams": [{"name": "journal"}], "next": {"after": "journal"}}),
    ("files", "paths", {"directory": "/", "names": ["tmp/"], "more": False, "next": None}),
    ("preflight", "clock", {"t": 1795324900.0}),
    ("preflight", "config", {"files": [["/a.toml", "x = 1\n"]]}),
    ("preflight", "source", {"root": "/a", "files": [["a.py", "eA=="]], "refused": [], "next": 3}),
    ("preflight", "look", {"facts": {"pod": {"gpus": []}}, "waiting": ["run"], "next": {"a": 1}}),
]


@pytest.mark.parametrize(("stream", "op", "result"), HEALTHY)
def test_a_healthy_answer_passes_as_it_is_with_fields_of_a_newer_agent(
    stream: str, op: str, result: dict[str, Any]
) -> None:
    newer = {**result, "of_tomorrow": [{"x": 10**40}]}
    assert passes(stream, op, newer) == newer


@pytest.mark.parametrize(
    ("stream", "op", "result", "field"),
    [
        ("journal", "stat", {"start": "1:0", "end": "9" * 40 + ":0"}, "end"),
        ("journal", "stat", {"start": "../x", "end": "1:0"}, "start"),
        ("log/r/t", "seek-line", {"cursor": "1:0", "next": {"op": "list"}}, "next"),
        ("log/r/t", "seek-line", {"next": None}, "cursor"),
        ("log/r/t", "seek-clock", {"next": None}, "cursor"),
        ("log/r/t", "where", {"line": None, "lines": None, "next": None}, "line"),
        ("log/r/t", "where", {"line": 1, "lines": "zz", "next": None}, "lines"),
        ("log/r/t", "search", {"hits": [5], "next": None}, "hits"),
        ("log/r/t", "search", {"hits": [{"cursor": "1:0"}], "next": None}, "hits"),
        ("log/r/t", "search", {"hits": []}, "next"),
        ("log/r/t", "search", {"hits": [], "next": {"x": 1}}, "cursor"),
        ("log/r/t", "count", {"stretches": [[1]], "cursor": "1:0", "next": None}, "stretches"),
        ("log/r/t", "sift", {"lines": [["1:0", "x"]], "cursor": "1:0", "next": None}, "lines"),
        ("log/r/t", "sift", {"lines": [["x:y", "x", 1]], "cursor": "1:0", "next": None}, "lines"),
        ("*", "list", {"streams": {"a": 1}}, "streams"),
        ("files", "paths", {"directory": "/", "names": [7]}, "names"),
        ("preflight", "clock", {"t": 10**400}, "t"),
        ("preflight", "config", {"files": [["/a.toml"]]}, "files"),
        ("preflight", "source", {"root": "/a", "files": [["a.py", 3]], "refused": []}, "files"),
        ("preflight", "source", {"root": "/a", "files": [], "refused": "all"}, "refused"),
        ("preflight", "source", {"root": 3, "files": [], "refused": []}, "root"),
        ("preflight", "look", {"facts": {"pod": {"nofile": [10**400]}}}, "facts"),
        ("preflight", "look", {"facts": {"pod": {"host": "\ud800"}}}, "facts"),
    ],
)
def test_an_answer_that_no_agent_sends_is_refused_by_its_field(
    stream: str, op: str, result: dict[str, Any], field: str
) -> None:
    with pytest.raises(RecordRefused, match=rf"^{field} is "):
        passes(stream, op, result)


@pytest.mark.parametrize("result", [None, [], "x", 5])
def test_the_answer_to_a_query_is_an_object(result: Any) -> None:
    with pytest.raises(RecordRefused, match=r"^result is not an object"):
        passes("journal", "stat", result)


@pytest.mark.parametrize("request_", [query_call("journal", "new"), Call(call="new")])
def test_an_answer_to_a_request_that_nobody_has_described_is_refused(
    request_: Call,
) -> None:
    with pytest.raises(RecordRefused, match="this console knows no answer to new"):
        checked(request_, result={})


def test_a_read_names_cursors_and_a_ping_a_time() -> None:
    read = Call(call="read", stream="journal")
    assert checked(read, start="1:0", next="1:5", gap=None, more=False)
    with pytest.raises(RecordRefused, match=r"^next is not a cursor"):
        checked(read, start="1:0", next="end")
    lost = {"generation": 1, "from": 0, "to": None, "reason": "deleted"}
    assert checked(read, start="1:0", next="1:5", gap=lost)
    for wrong in ([1], {**lost, "from": "0"}, {**lost, "reason": None}, {"generation": 1}):
        with pytest.raises(RecordRefused, match=r"^gap is not an object"):
            checked(read, start="1:0", next="1:5", gap=wrong)
    with pytest.raises(RecordRefused, match=r"^t is not a time"):
        checked(Call(call="ping"), t="soon")


async def test_what_a_real_agent_answers_passes(agent: Agent) -> None:
    agent.telemetry.append({"t": 1795324900.0})
    agent.log_path.write_text("12:00:01 one\n12:00:02 two\n")
    log = "log/r/t"
    async with opened(agent) as channel:
        assert (await channel.read(log, "start", wait=20)).data  # the agent has seen the lines
        names = (await channel.query("*", "list", after=""))["streams"]
        assert log in [entry["name"] for entry in names]
        asked: dict[str, dict[str, Any]] = {
            "stat": {},
            "seek-line": {"line": -1, "room": 5},
            "seek-time": {"t": 1.0},
            "seek-clock": {"cursor": "start", "seconds": 1},
            "where": {},
            "search": {"pattern": "two"},
            "count": {"pattern": "o"},
            "sift": {"terms": [{"pattern": "two"}]},
        }
        assert set(asked) == set(replies.STREAM)
        for op, arguments in asked.items():
            await channel.query(log, op, **arguments)
        await channel.query("telemetry", "seek-time", t=1.0)
        await channel.submit(Action("01J", "stop", {"run": "r"}))
        await channel.ping()
