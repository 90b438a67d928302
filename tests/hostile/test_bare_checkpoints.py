"""A pod's report of checkpoints that lacks what may be missing is shown, and ends no task."""

from __future__ import annotations

from typing import Any

import pytest

from bs4_common.checkpoints.best import Quality
from bs4_common.wire import Frame
from bs4_console.checkpoints import listing
from bs4_console.pods.gate import replies
from bs4_console.pods.gate.rules import RecordRefused
from bs4_console.pods.reading.greeting import Call

ROW = {"step": 20, "complete": True, "missing": {}, "parts": [], "bytes": 5}
BARE = {
    "trainer": "prime-rl",
    "output_dir": "/o",
    "checkpoints": [ROW],
    "loose": {"steps": 0, "bytes": 0},
    "disk": {},
    "forecast": {"lasts": False},
    "config": [],
}


class Bare:
    """A pod that answers as its test says, through the gate."""

    name = "evil"

    def __init__(self, **fields: Any) -> None:
        self._report = {**BARE, **fields}

    async def query(self, stream: str, op: str, **parameters: Any) -> Any:
        answer = Frame({"id": 1, "ok": True, "result": self._report}, b"")
        return replies.check(Call(call="query", stream=stream, op=op), answer).header["result"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"forecast": {"lasts": True}},
        {"forecast": {"lasts": False, "room": 3}},
        {"forecast": {"lasts": False, "full_t": 4e9}},
        {"disk": {"free": 7}},
        {"guard": {"event": "refused"}},
    ],
)
async def test_what_is_missing_is_not_known(fields: dict[str, Any]) -> None:
    found = await listing.of_pod(Bare(**fields), "r")  # type: ignore[arg-type]
    assert "can be resumed" in listing.line(found)
    listing.remarks(found)
    listing.foresight(found, 2, 10, Quality({20: 1.0}))
    assert listing.aged(found, 5.0)["checkpoints"][0]["age_s"] is None


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"order": {"last": 2}}, "at_least is missing"),
        ({"guard": {"detail": "x"}}, "event is missing"),
        ({"forecast": {"lasts": False, "set_bytes": "x"}}, "set_bytes is not a finite number"),
        ({"forecast": {"lasts": False, "every_s": []}}, "every_s is not a finite number"),
    ],
)
async def test_half_an_order_and_a_text_for_a_size_are_refused(
    fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(RecordRefused, match=named):
        await listing.of_pod(Bare(**fields), "r")  # type: ignore[arg-type]
