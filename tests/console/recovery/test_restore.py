"""The launch that continues a restored run: as it was started, and as a person would type it."""

from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import Any

from bs4_console.cli.main import build
from bs4_console.launch.guide import LaunchRequest
from bs4_console.recovery import restore

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
