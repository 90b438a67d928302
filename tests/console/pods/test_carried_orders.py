"""What stands for a run on its pod is known as data, and ordered on another pod as far as it does
not stand there.
"""

from __future__ import annotations

from typing import Any

from bs4_console.errors import RemoteError
from bs4_console.pods import carried_orders
from bs4_console.pods.state import PodState

SYNC = {
    "kind": "sync",
    "to": "b2://bucket-one/x",
    "every": 0,
    "milestones": 50,
    "keep_remote": 3,
    "limit_mib": 20.5,
    "weights": False,
}
KEEP = {"kind": "keep", "last": 3, "at_least": 2, "milestones": 0}
MODE = {"kind": "mode", "playbook": "resume-after-restart", "mode": "auto"}


class Live:
    """A pod's session as far as orders need it: each that is submitted stands from then on, but for
    the kinds that are refused.
    """

    def __init__(self, refuses: str = "") -> None:
        self.state, self.refuses = PodState(name="alpha"), refuses
        self.submitted: list[dict[str, Any]] = []

    def told(self, type_: str, **fields: Any) -> None:
        self.state.ledger.apply({"type": type_, "run": "demo", "t": 1.0, **fields})

    async def submit(self, kind: str, **body: Any) -> str:
        if kind == self.refuses:
            raise RemoteError("unknown-playbook", f"There is no {body['playbook']}.")
        self.submitted.append({"kind": kind, **body})
        return kind

    async def follow_action(self, key: str) -> Any:
        for nothing in ():
            yield nothing


def ordered(live: Live) -> None:
    live.told(
        "sync",
        event="ordered",
        who="alice",
        once=None,
        **{name: value for name, value in SYNC.items() if name != "kind"},
    )
    live.told(
        "order", who="alice", **{name: value for name, value in KEEP.items() if name != "kind"}
    )
    live.told("mode", who="alice", playbook=MODE["playbook"], mode="auto")


def test_what_was_ordered_is_known() -> None:
    live = Live()
    assert carried_orders.orders_of(live.state, "demo") == ()
    ordered(live)
    assert carried_orders.orders_of(live.state, "demo") == (SYNC, KEEP, MODE)
    assert carried_orders.orders_of(live.state, "other") == ()


def test_what_was_taken_back_is_not_ordered_and_nothing_takes_its_place() -> None:
    live = Live()
    ordered(live)
    live.told("sync", event="ordered", to=None)
    assert carried_orders.orders_of(live.state, "demo")[0] == {"kind": "sync", "off": True}
    assert carried_orders.with_sync(
        carried_orders.orders_of(live.state, "demo"), "b2://bucket-one/x"
    )[0] == {
        "kind": "sync",
        "off": True,
    }
    assert carried_orders.with_sync((KEEP,), "b2://bucket-one/x") == (
        {"kind": "sync", "to": "b2://bucket-one/x"},
        KEEP,
    )


def test_the_arguments_of_its_launch_belong_to_it() -> None:
    live = Live()
    live.told(
        "run",
        event="attempt-started",
        attempt=1,
        overrides=["--header", "hf_" + "a" * 34, "--max-steps", "9000"],
    )
    assert carried_orders.overrides(carried_orders.orders_of(live.state, "demo")) == (
        "--max-steps",
        "9000",
    )
    assert carried_orders.overrides((SYNC,)) == ()


async def test_only_what_does_not_stand_yet_is_ordered() -> None:
    live: Any = Live()
    assert (
        await carried_orders.renew(
            live,
            "demo",
            (SYNC, KEEP, {"kind": "launch", "overrides": ["--x"]}, {"kind": "mode", "off": True}),
        )
        == {}
    )
    assert live.submitted == [{**SYNC, "run": "demo"}, {**KEEP, "run": "demo"}]
    there: Any = Live()
    ordered(there)
    assert await carried_orders.renew(there, "demo", (SYNC, {**KEEP, "last": 4}, MODE)) == {}
    assert [one["kind"] for one in there.submitted] == ["keep"]


async def test_what_is_refused_is_told_and_the_rest_is_ordered() -> None:
    live: Any = Live("mode")
    assert await carried_orders.renew(live, "demo", (MODE, SYNC)) == {
        "mode": "There is no resume-after-restart."
    }
    assert [one["kind"] for one in live.submitted] == ["sync"]
