"""The command `checkpoints keep`: what it shows, what it asks, and what it orders."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_common.checkpoints.report import CheckpointReport
from bs4_common.ledger import AttemptView, RunView
from bs4_console.checkpoints import listing
from bs4_console.cli import checkpoint_keep, sessions
from bs4_console.cli.main import main
from bs4_console.pods.state import PodState, RunState
from tests.agent.checkpoints.trees import new_run, new_step

KEEP = ["checkpoints", "keep", "--pod", "gamma", "--run", "demo"]


class Stand:
    """A pod with the run `demo`, whose link is made up and whose checkpoints are real files.
    `given` are the orders that were submitted; the pod follows them as an agent's journal says.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.spec = new_run(root)
        self.save(10, 20, 30, 40)
        self.state = PodState(name="gamma")
        self.state.hello = {"home": "h1"}
        run = self.state.runs["demo"] = RunState(view=RunView(name="demo"))
        run.view.attempts[1] = AttemptView(number=1, started_t=1.0)
        for step in range(1, 50):
            row = {"attempt": 1, "side": "orchestrator", "step": step, "reward": 1.0 / step}
            run.orchestrator_steps.append(row)
        self.given: list[dict[str, Any]] = []

    def save(self, *steps: int) -> None:
        for step in steps:
            new_step(self.spec, step)

    @contextlib.asynccontextmanager
    async def linked(self, *_: object, **__: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(state=self.state)

    async def of_pod(self, *_: object) -> CheckpointReport:
        [found] = listing.of_directory(self.spec.output_dir)
        return found

    async def act(self, _: object, kind: str, *, as_json: bool, **body: Any) -> SimpleNamespace:
        self.given.append({"kind": kind, **body})
        if not body.get("off"):
            self.state.ledger.apply({"type": "order", "t": 2.0, "who": "tester", **body})
        return SimpleNamespace(state="done")


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stand:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name))
    assert main(["pods", "add", "gamma", "local"]) == 0
    made = Stand(tmp_path / "pod")
    for place, name in (
        (checkpoint_keep, "linked"),
        (checkpoint_keep, "act"),
        (listing, "of_pod"),
    ):
        monkeypatch.setattr(place, name, getattr(made, name))
    return made


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*KEEP, *words, "--plan", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_nothing_is_ordered_without_a_confirmation(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*KEEP, "--last", "2"]) == 4
    said = capsys.readouterr()
    assert "Freed for good now, and older ones from now on: steps 10, 20, " in said.out
    plan = planned(capsys, "--last", "2")
    assert f"--plan {plan['plan_hash'][:16]}, or with --confirm demo." in said.err
    assert main([*KEEP, "--last", "2", "--confirm", "other"]) == 4
    # Nothing is old yet, but what is older from now on goes for good too.
    assert main([*KEEP, "--last", "4"]) == 4
    assert main([*KEEP, "--last", "2", "--json"]) == 4
    assert stand.given == []
    assert main([*KEEP, "--last", "2", "--confirm", "demo"]) == 0
    assert [(one["kind"], one["last"]) for one in stand.given] == [("keep", 2)]


def test_a_hash_confirms_just_the_plan_that_was_shown(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--last", "3", "--at-least", "2", "--best", "reward")
    plan = planned(capsys, *words)
    assert plan["schema"] == "bs4.keep-plan/1"
    assert plan["order"] == {
        "last": 3,
        "at_least": 2,
        "milestones": 0,
        "synced": False,
        "best": "reward",
    }
    assert (plan["best_step"], plan["pod"]) == (10, "gamma")
    assert [(one["step"], one["if_full"]) for one in plan["free"]] == [(20, True)]
    assert main([*KEEP, *words, "--plan"]) == 0
    assert "While the disk cannot take the next checkpoint, step 20" in capsys.readouterr().out
    # Another order, another pod of the same name, and what would go now are other plans.
    assert main([*KEEP, "--last", "2", "--plan", plan["plan_hash"]]) == 4
    stand.state.hello = {"home": "h2"}
    assert main([*KEEP, *words, "--plan", plan["plan_hash"]]) == 4
    stand.state.hello = {"home": "h1"}
    stand.save(50)
    assert main([*KEEP, *words, "--plan", plan["plan_hash"]]) == 4
    assert f"now, not {plan['plan_hash']}. Look at it with --plan." in capsys.readouterr().err
    assert stand.given == []
    again = planned(capsys, *words)["plan_hash"]
    assert main([*KEEP, *words, "--plan", again[:12]]) == 0
    assert [one["best"] for one in stand.given] == ["reward"]


def test_a_person_types_the_runs_name(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sessions, "is_terminal", lambda: True)
    asked: list[str] = []
    answers = ["yes", "demo"]

    def ask(question: str) -> str:
        asked.append(question)
        return answers[len(asked) - 1]

    monkeypatch.setattr(checkpoint_keep, "ask", ask)
    assert main([*KEEP, "--last", "2"]) == 4
    assert stand.given == []
    assert main([*KEEP, "--last", "2"]) == 0
    assert asked == ["Type demo to order it: "] * 2
    assert len(stand.given) == 1


def test_what_frees_nothing_more_is_not_asked_for(stand: Stand) -> None:
    assert main([*KEEP, "--last", "3", "--milestones", "20", "--confirm", "demo"]) == 0
    for words in (
        ["--last", "3", "--milestones", "20"],
        ["--last", "4", "--milestones", "10"],
        ["--last", "4", "--milestones", "10", "--synced"],
        ["--last", "4", "--milestones", "10", "--synced", "--best", "reward"],
    ):
        assert main([*KEEP, *words]) == 0, words
    for words in (
        ["--last", "4", "--milestones", "10", "--synced"],
        ["--last", "4", "--milestones", "10", "--best", "reward"],
        ["--last", "4", "--milestones", "20", "--synced", "--best", "reward"],
        ["--last", "3", "--milestones", "10", "--synced", "--best", "reward"],
        ["--last", "4", "--at-least", "2", "--milestones", "10", "--synced", "--best", "reward"],
    ):
        assert main([*KEEP, *words]) == 4, words
    assert main([*KEEP, "--off"]) == 0
    assert stand.given[-1] == {"kind": "keep", "run": "demo", "off": True}


def test_a_pod_that_is_only_looked_at_shows_the_plan(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--read-only", *KEEP, "--last", "2", "--plan"]) == 0
    assert "steps 10, 20" in capsys.readouterr().out
    assert main(["--read-only", *KEEP, "--last", "2", "--confirm", "demo"]) == 4
    assert stand.given == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--last", "1"], "at least 2"),
        (["--last", "3", "--at-least", "4"], "from 2 to `last`"),
        (["--off", "--plan"], "--off without --plan"),
        (["--last", "3", "--best", "acc"], "Known: reward."),
    ],
)
def test_an_order_that_makes_no_sense(
    words: list[str], said: str, stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*KEEP, *words]) == 2
    assert said in capsys.readouterr().err
    assert stand.given == []
