"""The command `runs milestones`: what it shows, what it asks, and what it begins."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_console.checkpoints import listing
from bs4_console.cli import launch, run_milestones
from bs4_console.cli.main import main
from bs4_console.launch import guide
from bs4_console.launch.guide import LaunchRequest, Looked
from bs4_console.preflight.examine import Check, Preflight
from tests.console.launch.test_milestones import SERVER, evaluated, pod

SHOW = ["runs", "milestones", "demo", "--pod", "gamma"]
BEGIN = [*SHOW, "--config", "eval.toml", "--server", SERVER]


class Stand:
    """A pod with a run, whose link and plans are made up. `begun` are the launches."""

    def __init__(self) -> None:
        self.state = pod()
        self.saved = [100, 500]
        self.looked = Preflight((), {"server": {"used_by": []}})
        self.begun: list[LaunchRequest] = []
        self.code = 0

    @contextlib.asynccontextmanager
    async def linked(self, *_: object, **__: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(state=self.state)

    async def of_pod(self, *_: object) -> dict[str, Any]:
        rows: list[dict[str, Any]] = [{"step": 300, "parts": [{"name": "trainer"}]}]
        for step in self.saved:
            rows.append({"step": step, "parts": [{"name": "weights"}]})
        return {"checkpoints": rows}

    async def prepare(self, *_: object) -> Looked:
        return Looked(self.looked)

    async def plan(self, _: object, asked: LaunchRequest, **__: object) -> SimpleNamespace:
        step = {"title": "start", "command": f"uv run eval {asked.config}", "shown": {}}
        plan = {"title": "Launch", "run": asked.run, "attempt": 0, "danger": "none"}
        whole = {**plan, "steps": [step], "verify": {}}
        return SimpleNamespace(plan=whole, plan_hash="h", asked=asked)

    async def start(self, _: object, view: SimpleNamespace) -> str:
        self.begun.append(view.asked)
        return "key"

    async def watch_launch(self, *_: object) -> int:
        evaluated(self.state, int(self.begun[-1].run.rpartition("-")[2]), ended=not self.code)
        return self.code


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stand:
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path))
    assert main(["pods", "add", "gamma", "local"]) == 0
    made = Stand()
    for place, name in (
        (run_milestones, "linked"),
        (listing, "of_pod"),
        (guide, "prepare"),
        (guide, "plan"),
        (guide, "start"),
        (launch, "watch_launch"),
    ):
        monkeypatch.setattr(place, name, getattr(made, name))
    monkeypatch.setattr(run_milestones, "_EVERY_S", 0.0)
    return made


def test_what_is_due_is_shown_and_reminded_of(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main([*SHOW, "--json", "--at", "100=50", "--at", "1000"]) == 1
    found = json.loads(capsys.readouterr().out)["milestones"]
    assert [(one["step"], one["examples"], one["state"]) for one in found] == [
        (100, 50, "due"),
        (1000, None, "to-come"),
    ]
    assert stand.begun == []
    evaluated(stand.state, 100)
    evaluated(stand.state, 500)
    assert main(SHOW) == 0
    assert "evaluated" in capsys.readouterr().out


def test_one_is_begun_after_a_yes_and_not_without(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(BEGIN) == 4
    assert "nobody confirmed" in capsys.readouterr().err
    assert main(["--read-only", *BEGIN, "--yes"]) == 4
    assert stand.begun == []
    assert main([*BEGIN, "--yes"]) == 0
    assert "uv run eval eval.toml" in capsys.readouterr().out
    assert [asked.run for asked in stand.begun] == ["demo-at-100"]
    assert main([*BEGIN, "--yes"]) == 0
    assert [asked.run for asked in stand.begun] == ["demo-at-100", "demo-at-500"]
    assert main([*BEGIN, "--yes"]) == 0  # nothing is due
    assert len(stand.begun) == 2


def test_a_standing_yes_evaluates_all_that_come_and_ends_with_the_run(stand: Stand) -> None:
    stand.state.runs["demo"].alive = False
    assert main([*BEGIN, "--yes", "--watch"]) == 0
    assert [asked.run for asked in stand.begun] == ["demo-at-100", "demo-at-500"]


def test_what_forbids_it_begins_nothing(stand: Stand, capsys: pytest.CaptureFixture[str]) -> None:
    stand.looked = Preflight((), {"server": {"used_by": ["demo"]}})
    assert main([*BEGIN, "--yes"]) == 4
    assert "is the inference server of demo" in capsys.readouterr().err
    full = Check("disk-full", "disk", "blocking", "It is full.", "")
    stand.looked = Preflight((full,), {"server": {"used_by": []}})
    assert main([*BEGIN, "--yes"]) == 4
    assert "It is full." in capsys.readouterr().err
    assert stand.begun == []
    assert main([*BEGIN[:-1], "http://localhost:99999/v1", "--yes"]) == 2
    assert "'http://localhost:99999/v1' is no address of a server" in capsys.readouterr().err
    stand.looked = Preflight((), {"server": {"used_by": []}})
    stand.code = 1
    assert main([*BEGIN, "--yes", "--watch"]) == 1
    assert len(stand.begun) == 1


def test_half_an_evaluation_is_a_usage_error(stand: Stand) -> None:
    assert main([*SHOW, "--config", "eval.toml"]) == 2
    assert main([*SHOW, "--watch"]) == 2
    for wrong in ("0", "x", "100=", "100=-1", "=5"):
        with pytest.raises(argparse.ArgumentTypeError):
            run_milestones._at(wrong)
