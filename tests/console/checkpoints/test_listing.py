"""Reports of directories, by pages from a pod, and the sentences that are made of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.checkpoints.answers import answer
from bs4_common.checkpoints.best import Quality
from bs4_common.ledger import AttemptView, RunView
from bs4_console.checkpoints import listing
from bs4_console.errors import UsageError
from bs4_console.pods.state import PodState, RunState
from tests.agent.checkpoints.guarded import Guarded
from tests.agent.checkpoints.trees import (
    age,
    new_run,
    new_step,
    old_orchestrator,
    old_run,
    old_step,
    put,
)

STAMP = {"t": 1.0, "m": 1.0, "b": "boot"}


def test_a_directory_of_2026_01(tmp_path: Path) -> None:
    spec = old_run(tmp_path)
    for step, old in ((5, 900), (10, 600), (15, 300)):
        old_step(spec, step)
        age(spec, step, old)
    old_orchestrator(spec, 20)
    [found] = listing.of_directory(spec.output_dir)
    assert (found["trainer"], found["resumable"]) == ("prime-rl-2026-01", 15)
    assert [(one["step"], one["complete"]) for one in found["checkpoints"]] == [
        (5, True),
        (10, True),
        (15, True),
        (20, False),
    ]
    assert found["checkpoints"][3]["missing"] == {"trainer": "not there", "broadcast": "not there"}
    assert found["checkpoints"][0]["bytes"] == sum(
        part["bytes"] for part in found["checkpoints"][0]["parts"]
    )
    assert found["forecast"]["every_steps"] == 5
    assert found["forecast"]["every_s"] == pytest.approx(300, abs=60)
    assert listing.line(found).startswith("step 15 can be resumed, 5m old; 3 × ")


def test_an_output_directory_with_several_runs(tmp_path: Path) -> None:
    spec = new_run(tmp_path)
    new_step(spec, 10)
    put(spec.output_dir / "other/checkpoints/step_5/orchestrator/progress.pt")
    (spec.output_dir / "wandb").mkdir()
    found = listing.of_directory(spec.output_dir)
    assert [(one["run"], one["resumable"]) for one in found] == [("demo", 10), ("other", None)]
    assert listing.line(found[1]) == "1 checkpoint, none complete: nothing can be resumed"
    [one] = listing.of_directory(spec.output_dir / "demo")
    assert one["run"] == "demo"


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not look like"):
        listing.of_directory(tmp_path)
    with pytest.raises(UsageError, match="no directory"):
        listing.of_directory(tmp_path / "gone")
    [found] = listing.of_directory(tmp_path, "prime-rl")
    assert listing.line(found) == "no checkpoint yet"


def test_a_run_that_rests_is_not_forecast(tmp_path: Path) -> None:
    spec = new_run(tmp_path)
    for step in (10, 20):
        new_step(spec, step)
        age(spec, step, 9000 - step)
    [found] = listing.of_directory(spec.output_dir)
    assert (found["live"], found["forecast"]["full_t"]) == (False, None)
    assert listing.outlook(found) == ""


async def test_a_long_list_comes_by_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame's header holds 64 KiB."""
    demo = Guarded(tmp_path, new_run(tmp_path), monkeypatch)
    for step in range(1, 100):
        new_step(demo.spec, step)
    demo.order(last=3, milestones=50)
    asked = 0

    class Asks:
        async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
            nonlocal asked
            asked += 1
            found = answer(demo.pod, op, parameters)
            assert len(str(found)) < 60_000
            return found

    found = await listing.of_pod(Asks(), "demo")
    assert [one["step"] for one in found["checkpoints"]] == list(range(1, 100))
    assert asked == 3
    assert found["order"] == {
        "last": 3,
        "at_least": 3,
        "milestones": 50,
        "synced": False,
        "best": "",
    }
    assert (
        listing.order_text(found["order"])
        == "the 3 newest complete checkpoints stay, and every 50th step"
    )


def test_what_an_order_would_free(tmp_path: Path) -> None:
    spec = new_run(tmp_path)
    for step in (10, 20, 30, 40):
        new_step(spec, step)
    put(spec.output_dir / "demo/checkpoints/step_15/orchestrator/progress.pt")
    [found] = listing.of_directory(spec.output_dir)
    assert listing.foresight(found, 2, 0).startswith(
        "Freed for good now, and older ones from now on: steps 10, 15, 20, "
    )
    assert listing.foresight(found, 2, 20).startswith(
        "Freed for good now, and older ones from now on: steps 10, 15, "
    )
    assert "deletes its part of milestones" in listing.foresight(
        {**found, "trainer_keeps": 3}, 2, 20
    )
    judged = Quality({10: 0.1, 20: 0.2})
    best = listing.foresight({**found, "trainer_keeps": 3}, 2, 0, judged)
    assert best.startswith("Freed for good now, and older ones from now on: steps 10, 15, ")
    assert "Step 20 is the best now and stays." in best
    assert "deletes its part of it all the same" in best
    assert listing.foresight(found, 4, 0).startswith("Nothing is older than these now")
    assert listing.foresight(found, 1, 0).startswith("Nothing"), "the pod will refuse it"


def test_the_outlook_of_each_forecast() -> None:
    base = {"lasts": False, "full_t": None, "full_step": None, "to_come": None, "room": 3}

    def say(**forecast: Any) -> str:
        return listing.outlook({"forecast": {**base, **forecast}, "live": True})

    assert say(lasts=True) == "the disk lasts"
    assert say(lasts=True, to_come=4) == "room for all to come"
    assert say(full_t=time.time() + 7200, full_step=40) == "full in 2h 00m (step 40)"
    assert say() == "room for 3 more"


def test_the_standing_of_a_run_from_the_journal_alone() -> None:
    state = PodState(name="pod")

    def tell(**record: Any) -> str:
        state.apply_journal({**STAMP, **record})
        return listing.standing(state, "demo")

    assert listing.standing(state, "demo") == ""
    assert tell(type="order", run="demo", last=2, at_least=2, milestones=50, who="alice") == (
        "keep-last 2, milestones every 50; nothing freed yet"
    )
    tell(
        type="action",
        action="A",
        kind="rotate",
        who="keep-last 2 by alice",
        run="demo",
        event="accepted",
        body={},
    )
    done = tell(
        type="action",
        action="A",
        run="demo",
        event="done",
        detail="1.2 GiB freed for good: step 5",
        result={},
    )
    assert done == "keep-last 2, milestones every 50; 1.2 GiB freed for good: step 5"
    assert tell(type="guard", run="demo", event="emergency", detail="too little").endswith(
        "; emergency: too little"
    )
    assert tell(type="guard", run="demo", event="relieved", detail="enough") == done
    assert (
        tell(type="order", run="demo", last=None, at_least=None, milestones=None, who="alice") == ""
    )


def test_the_best_step_by_a_metric_that_is_recorded() -> None:
    run = RunState(view=RunView(name="demo"))
    run.view.attempts[1] = AttemptView(number=1, started_t=1.0)
    for step, reward in ((1, 0.2), (2, 0.6), (3, 0.1)):
        _tell(run, 1, step, reward)
    found = {"checkpoints": [{"step": n, "complete": n != 3, "t": 9.0} for n in (1, 2, 3)]}
    assert listing.quality_of(run, "acc", found).best_first() == [2, 1]
    assert listing.quality_of(run, "reward", found).best_first() == [2, 1]
    with pytest.raises(UsageError, match="Known: reward, acc"):
        listing.quality_of(run, "accuracy", found)
    assert listing.best_known(run, {**found, "order": None}) is None
    assert listing.best_known(run, {**found, "order": {"best": "other"}}) is None
    ordered = {**found, "order": {"best": "acc"}}
    assert listing.best_known(run, ordered) == {"metric": "acc", "step": 2, "value": 0.3}
    run.eval_points.append({"attempt": 1, "side": "eval:val/loss", "step": 1, "val": 0.7})
    ordered = {**found, "order": {"best": "val/loss"}}
    assert listing.best_known(run, ordered) == {"metric": "val/loss", "step": 1, "value": 0.7}


def test_after_a_fresh_start_the_best_step_is_one_of_the_new_attempt() -> None:
    """The console said that step 2 is the best, by what the attempt before had said of it."""
    run = RunState(view=RunView(name="demo"))
    for number, started_t in ((1, 1.0), (2, 10.0)):
        run.view.attempts[number] = AttemptView(number=number, started_t=started_t)
    _tell(run, 1, 2, 0.9)
    _tell(run, 2, 1, 0.3)
    found = {"checkpoints": [{"step": n, "complete": True, "t": 11.0} for n in (1, 2)]}
    for metric, value in (("acc", 0.15), ("reward", 0.3)):
        assert listing.quality_of(run, metric, found).best_first()[0] == 1
        assert listing.quality_of(run, metric, found).known[1] == value


def _tell(run: RunState, attempt: int, step: int, reward: float) -> None:
    """The run records a reward, and a validation of half that."""
    row = {"attempt": attempt, "step": step}
    run.orchestrator_steps.append({**row, "side": "orchestrator", "reward": reward})
    run.eval_points.append({**row, "side": "eval:acc", "val": reward / 2})


def test_the_foresight_lets_only_those_go_that_are_not_the_best_for_certain() -> None:
    rows = [{"step": n, "complete": True, "bytes": 1 << 30} for n in (10, 20, 30, 40, 50)]
    found = {"checkpoints": rows, "trainer_keeps": None}
    judged = Quality({10: 0.1, 30: 0.9, 50: 0.3})
    assert listing.foresight(found, 2, 0, judged) == (
        "Freed for good now, and older ones from now on: step 10, 1.0 GiB. Step 30 is the best now "
        "and stays. Without a value, so kept as well: step 20."
    )
