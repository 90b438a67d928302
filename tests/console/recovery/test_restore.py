"""The launch that continues a restored run: as it was started, and as a person would type it."""

from __future__ import annotations

import argparse
import shlex
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_console.cli import restore as command
from bs4_console.cli.main import build
from bs4_console.launch import guide
from bs4_console.launch.guide import LaunchRequest
from bs4_console.pods.state import PodState
from bs4_console.preflight.examine import Preflight
from bs4_console.recovery import restore
from tests.console.tui import fixtures

LAUNCH: dict[str, Any] = {
    "run": "demo",
    "trainer": "prime-rl",
    "config": "/r/rl.toml",
    "cwd": "/p",
    "output_dir": "/p/outputs",
    "resume": 20,
    "recorded": True,
    "overrides": ["--trainer", "@", "/r/part one.toml", "--max-steps", "9"],
    "env": {"WORD": "a b"},
    "component": "trainer",
    "processes": 2,
}
ASKED = LaunchRequest(
    run="demo",
    trainer="prime-rl",
    config="/r/rl.toml",
    cwd="/p",
    output_dir="/p/outputs",
    resume=20,
    fresh=False,
    component="trainer",
    processes=2,
    overrides=tuple(LAUNCH["overrides"]),
    env={"WORD": "a b"},
)


def test_it_is_launched_as_it_was_started() -> None:
    assert restore.launch_of({"launch": LAUNCH}) == ASKED
    assert restore.recorded({"launch": LAUNCH})


def test_an_agent_of_before_tells_only_its_config() -> None:
    bare = {
        name: LAUNCH[name] for name in ("run", "trainer", "config", "cwd", "output_dir", "resume")
    }
    assert restore.launch_of({"launch": bare}) == LaunchRequest(
        run="demo",
        trainer="prime-rl",
        config="/r/rl.toml",
        cwd="/p",
        output_dir="/p/outputs",
        resume=20,
    )
    assert not restore.recorded({"launch": bare})


def test_what_is_typed_asks_for_the_same() -> None:
    from bs4_console.cli.launch import asked_by

    words = shlex.split(restore.command_of(ASKED, "alpha"))
    own, behind = words[1 : words.index("--")], words[words.index("--") + 1 :]
    options = build(["launch"]).parse_args(own)
    options.overrides = behind
    assert asked_by(options) == ASKED
    assert options.pod == "alpha"
    plain = restore.command_of(
        LaunchRequest(run="demo", trainer="prime-rl", config="c.toml", resume=5), "alpha"
    )
    assert plain.endswith("--resume 5")


def test_the_plan_says_how_it_was_started() -> None:
    body = {
        "skipped": [],
        "missing": 1,
        "bytes": 2,
        "free": 3,
        "notes": ["mind this"],
        "launch": LAUNCH,
    }
    view: Any = SimpleNamespace(plan=body)
    lines = restore.plan_text(view)
    assert "started with: --trainer @ '/r/part one.toml' --max-steps 9" in lines
    assert "environment: 'WORD=a b'" in lines
    assert lines[-1] == "note: mind this"
    view.plan = {**body, "launch": {**LAUNCH, "overrides": [], "env": {}}}
    assert len(restore.plan_text(view)) == 2


STORE = "b2://bucket-one/x"


def pod(name: str, ago: float, to: str = STORE) -> PodState:
    """Return a pod on which demo began `ago` seconds ago, with its checkpoints copied to `to`."""
    state = PodState(name=name)
    fixtures.start_run(state, "demo", "prime-rl", 9000, ago)
    for record in (
        {"type": "sync", "event": "ordered", "to": to, "milestones": 50},
        {"type": "order", "last": 3, "at_least": 2, "best": "reward"},
    ):
        state.ledger.apply({"run": "demo", "t": 1.0, "who": "alice", **record})
    return state


def where(*pods: PodState, new: str = "new") -> restore.Before | None:
    return restore.before(pods, restore.RestoreRequest(run="demo", source=f"{STORE}/"), new)


def test_where_a_run_was_before_it_is_restored() -> None:
    first, second = pod("first", 900), pod("second", 600)
    assert (found := where(first, second)) is not None
    assert found.state is second, "the pod on which it began last"
    assert found.orders() == [
        f"sync: to {STORE}, milestones 50",
        "keep: last 3, at-least 2, best reward",
    ]
    assert where(second, new="second") is None
    assert where(pod("other", 10, "b2://bucket-two/x")) is None, "another run of that name"
    second.ledger.apply({"type": "sync", "event": "ordered", "run": "demo", "t": 2.0, "to": None})
    assert (found := where(second)) is not None
    assert found.orders() == ["keep: last 3, at-least 2, best reward"], "one that was taken back"


class Live:
    """A pod on which the run trains by now. It refuses the orders of the kinds `refuses`."""

    def __init__(self, *refuses: str) -> None:
        self.state, self.refuses = PodState(name="new"), refuses
        self.ordered: list[str] = []

    async def submit(self, kind: str, **body: Any) -> str:
        self.ordered.append(kind)
        return kind

    async def follow_action(self, key: str) -> Any:
        state = "refused" if key in self.refuses else "done"
        yield SimpleNamespace(ended=True, state=state, detail="its key may not write")


async def test_a_run_that_is_moved_by_hand_keeps_its_orders(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = restore.Before(pod("old", 900), "demo")
    options = argparse.Namespace(name="demo", json=False)
    live: Any = Live()
    assert await command._order_again(live, options, before) == 0
    assert live.ordered == ["sync", "keep"]
    assert f"Ordered as on old: sync: to {STORE}" in capsys.readouterr().out
    refusing: Any = Live("sync")
    assert await command._order_again(refusing, options, before) == 1
    said = capsys.readouterr()
    assert "its order sync of old was refused: its key may not write" in said.err
    assert said.out == ""


async def test_the_launch_of_a_restored_run_records_price_and_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded: dict[str, Any] = {}

    async def prepare(*_: object) -> guide.Looked:
        return guide.Looked(Preflight((), {"stack": {"commit": "abc"}}))

    async def plan(_: object, asked: LaunchRequest, **record: Any) -> SimpleNamespace:
        recorded.update(record)
        return SimpleNamespace(plan={})

    async def start(*_: object) -> str:
        return "key"

    async def watched(*_: object) -> int:
        return 0

    for name, made in (("prepare", prepare), ("plan", plan), ("start", start)):
        monkeypatch.setattr(guide, name, made)
    monkeypatch.setattr(guide, "price_of", {"new": 2.5}.get)
    monkeypatch.setattr(command, "watch_launch", watched)
    options = argparse.Namespace(name="demo", pod="new", json=False, no_preflight=False)
    action: Any = SimpleNamespace(result={"launch": LAUNCH})
    live: Any = Live()
    assert await command._resume(live, options, action) == 0
    assert recorded == {"price": 2.5, "commit": "abc"}
