"""Answers of an agent, from the frame's header to what commands and the screen make of them.

An input is a line with a query (stream and operation) and a line with the header of its answer. The
answer is refused with a reason, or everything that is made of it works. The healthy ones
have the form of an agent's own.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from bs4_common.foreign_json import loads
from bs4_common.wire import Frame
from bs4_console import ceilings
from bs4_console.checkpoints import listing
from bs4_console.errors import ConsoleError
from bs4_console.logs.filter import LogFilter
from bs4_console.logs.pages import LogPages
from bs4_console.logs.search import LogSearch
from bs4_console.pods.gate import replies
from bs4_console.pods.gate.rules import RecordRefused
from bs4_console.pods.reading.greeting import query_call
from bs4_console.pods.streams import place, stream_names
from tests.fuzz.ceilings import lowered

_LOG = "log/r/trainer"
_RUN = {
    "run": "r",
    "trainer": "prime-rl",
    "output_dir": "/o",
    "live": True,
    "checkpoints": [
        {
            "step": 4,
            "complete": True,
            "missing": {},
            "parts": [{"name": "trainer", "path": "/o/c", "complete": True, "bytes": 9}],
            "bytes": 9,
            "t": 1795324900.0,
            "age_s": 5.0,
        }
    ],
    "resumable": 4,
    "loose": {"steps": 0, "bytes": 0},
    "disk": {"path": "/o", "used": 1, "total": 9, "free": 8},
    "forecast": {"lasts": False, "room": 3, "to_come": None, "full_t": None, "full_step": None},
    "config": [{"path": "/o/rl.toml", "present": True}],
    "trainer_keeps": 2,
    "next": None,
}


def _seed(stream: str, op: str, result: dict[str, Any]) -> bytes:
    header = json.dumps({"id": 1, "ok": True, "result": result})
    return f"{stream} {op}\n{header}".encode()


SEEDS = [
    _seed("*", "list", {"streams": [{"name": "journal", "kind": "records"}], "next": None}),
    _seed("journal", "stat", {"kind": "records", "start": "1:0", "end": "1:8", "bytes": 8}),
    _seed(_LOG, "seek-line", {"cursor": "1:0", "next": None, "cut": True, "within": False}),
    _seed(_LOG, "seek-line", {"cursor": "1:0", "next": {"line": 3, "cursor": "1:0"}}),
    _seed(_LOG, "seek-time", {"cursor": "1:5", "t": 1795324900.0, "exact": True, "next": None}),
    _seed(_LOG, "seek-clock", {"cursor": None, "next": None}),
    _seed(_LOG, "where", {"line": 3, "lines": 4, "next": None}),
    _seed(_LOG, "search", {"hits": [{"cursor": "1:0", "text": "x y", "at": 2}], "next": None}),
    _seed(_LOG, "sift", {"lines": [["1:0", "x", 1]], "cursor": "1:9", "next": {"cursor": "1:9"}}),
    _seed(_LOG, "count", {"stretches": [[1, 0, 9, 2]], "cursor": "1:9", "next": None}),
    _seed("checkpoints", "list", _RUN),
]


class _Pod:
    """A pod whose every answer is the same, and passes the gate as in a channel."""

    def __init__(self, stream: str, op: str, header: dict[str, Any]) -> None:
        self._asked, self._header = (stream, op), header

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        if (stream, op) != self._asked:
            raise ConsoleError("The input has no answer to this.")
        answer = Frame(json.loads(json.dumps(self._header)), b"")
        try:
            checked = replies.check(query_call(stream, op, **parameters), answer)
        except RecordRefused as error:
            raise ConsoleError(str(error)) from None
        result: dict[str, Any] = checked.header["result"]
        return result


def feed(data: bytes) -> None:
    """Have each reader of answers take this one."""
    request, _, header = data.partition(b"\n")
    stream, _, op = request.decode("utf-8", "replace").partition(" ")
    try:
        answer = loads(header)
    except ValueError:
        return
    if isinstance(answer, dict):
        with lowered({"PAGES": 5}):
            asyncio.run(_read(_Pod(stream, op, answer), stream, op))


async def _read(pod: _Pod, stream: str, op: str) -> None:
    pages = LogPages(pod, lambda: None)  # type: ignore[arg-type]
    try:
        match op:
            case "list" if stream == "*":
                for name in await stream_names(pod):  # type: ignore[arg-type]
                    assert len(name) <= ceilings.NAME_BYTES
            case "list":
                found = await listing.of_pod(pod, "r")
                listing.line(found)
                listing.foresight(found, 2, 0)
            case "stat":
                place((await pod.query(stream, op))["end"])
            case "seek-line":
                await pages.back(stream, 5)
            case "seek-time":
                await pages.place(stream, op, t=1.0)
            case "seek-clock":
                assert "cursor" in await pages.ask(stream, op, cursor="1:0", seconds=1)
            case "where":
                answer = await pages.ask(stream, op)
                max(0, answer["lines"] - answer["line"])
            case "sift":
                await pages.filter_lines(stream, 0, "end", LogFilter(), backwards=True)
            case "search":
                search = LogSearch(pages, [stream], "x", LogFilter())
                await search._ask(stream, "1:0", backwards=False)
            case "count":
                answer = await pages.ask(stream, op)
                assert isinstance(sum(stretch[3] for stretch in answer["stretches"]), int)
    except ConsoleError:
        return
