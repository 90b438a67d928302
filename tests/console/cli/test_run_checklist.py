"""The command `runs checklist`: the list, the order and what is written down."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bs4_console.cli import run_checklist
from bs4_console.cli.main import main
from bs4_console.errors import RemoteError
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.state import ActionView, PodState
from tests.console.checks.test_checklist import pod as judged_pod


class Live:
    """A session with an agent that keeps notes, or of the version before."""

    def __init__(self, state: PodState, *, older: bool = False) -> None:
        self.state, self.older = state, older

    async def submit(self, kind: str, **body: Any) -> str:
        if self.older:
            body = {name: body[name] for name in ("run", "text")}
        self.state.apply_journal({"t": 2.0, "b": "boot", "type": kind, "who": "a", **body})
        return "key"

    async def follow_action(self, key: str) -> AsyncIterator[ActionView]:
        yield ActionView(
            key=key, kind="note", who="a", run="demo", state="done", accepted_t=0.0, updated_t=0.0
        )

    async def query(self, *_: object, **__: object) -> dict[str, Any]:
        raise RemoteError("unknown-run", "It is not known.")


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name))
    made = Live(judged_pod(205))

    @asynccontextmanager
    async def linked(pod: Pod, **_: object) -> AsyncIterator[Live]:
        yield made

    monkeypatch.setattr(run_checklist, "linked", linked)
    Inventory().add(Pod(name="pod-a", host="localhost"))
    return made


WORDS = ["runs", "checklist", "demo", "--pod", "pod-a"]


def test_the_order_the_list_and_what_is_written_down(
    live: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, "--every", "100"]) == 0
    assert "is asked for each 100 steps" in capsys.readouterr().out
    run = live.state.runs["demo"]
    assert run.view.notes[-1]["checklist_step"] == 200, "it counts from now on"
    assert main([*WORDS, "--json"]) == 1, "no checkpoint is copied anywhere"
    told = json.loads(capsys.readouterr().out)
    assert (told["step"], told["every"]) == (200, 100)
    states = {item["name"]: item["state"] for item in told["items"]}
    assert (states["reward"], states["sync"], states["checkpoint"]) == ("ok", "look", "unknown")
    assert main([*WORDS, "--done"]) == 1
    assert "demo at step 200" in capsys.readouterr().out
    assert run.view.notes[-1]["text"] == "list of step 200: to look at: sync"
    assert main([*WORDS, "--every", "0"]) == 0
    assert run.view.notes[-1]["checklist_every"] == 0


def test_an_older_agent_keeps_no_order(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    live.older = True
    assert main([*WORDS, "--every", "100"]) == 4
    assert "bs4-console deploy --pod pod-a" in capsys.readouterr().err
    assert main([*WORDS, "--every", "100", "--done"]) == 2
    assert main(["--read-only", *WORDS, "--done"]) == 4
