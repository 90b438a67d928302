"""Which step a run is resumed from after a restart: its own disk's first, the store's where that
has none; and when nothing is tried.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.playbooks import plan as plans
from bs4_agent.playbooks.pod_actions import Context
from bs4_agent.playbooks.steps import STEPS
from bs4_common.errors import NotApplicable, PlanChanged
from bs4_common.failures.compiled import Library, Playbook
from bs4_common.journal import Journal
from bs4_common.streams.segments import SegmentStream
from bs4_console.failures.playbooks import compile_all
from tests.agent.facts import checkpoint
from tests.agent.playbooks.test_steps import KEY, PodActions

REMOTE = {
    "step": 40,
    "identity": "f" * 64,
    "asked": {"run": "demo", "from": "b2://practice-bucket/lab"},
    "aside": [],
    "finals": ["/o/step_40"],
    "bytes": 10,
    "missing": 10,
    "skipped": [],
}


class Stored(PodActions):
    """A run whose store can be asked; what is fetched from it is complete from then on."""

    def __init__(self, root: Path, remote: Mapping[str, Any] | None) -> None:
        super().__init__(root)
        self.remote, self.asked = remote, 0
        self.alive = False

    def run_facts(self, run: str) -> Any:
        facts = super().run_facts(run)
        return facts if self.alive else dataclasses.replace(facts, members=(), state="lost")

    def remote_step(self, run: str) -> Mapping[str, Any] | None:
        self.asked += 1
        return self.remote

    def restored(self, run: str, parameters: Mapping[str, Any]) -> bool:
        return any(c.step == parameters["step"] and c.complete for c in self.checkpoints)

    def restore(self, run: str, parameters: Mapping[str, Any], key: str, say: Any) -> str:
        self.checkpoints.append(checkpoint(parameters["step"]))
        return "fetched"


@pytest.fixture(scope="module")
def playbook() -> Playbook:
    return Library(compile_all()).get("resume-after-restart")


def test_a_step_on_the_disk_is_resumed_and_no_store_is_asked(
    tmp_path: Path, playbook: Playbook
) -> None:
    pod_actions = Stored(tmp_path, REMOTE)
    pod_actions.checkpoints = [checkpoint(5), checkpoint(6, complete=False)]
    plan = plans.make(pod_actions, playbook, "demo", KEY)
    assert plan.resume == 5
    assert [step.kind for step in plan.steps] == [
        "stop_run",
        "archive_logs",
        "move_steps",
        "relaunch",
    ]
    assert pod_actions.asked == 0


def test_a_plan_that_starts_nothing_stays_valid_when_the_run_saves_a_checkpoint(
    tmp_path: Path,
) -> None:
    pod_actions = Stored(tmp_path, None)
    pod_actions.alive = True
    pod_actions.checkpoints = [checkpoint(5)]
    playbook = Library(compile_all()).get("fd-limit-low")
    plan = plans.make(pod_actions, playbook, "demo", KEY)
    pod_actions.checkpoints.append(checkpoint(10))
    again = plans.make(pod_actions, playbook, "demo", KEY, "", plan)
    assert [step.kind for step in plan.steps] == ["set_limit"]
    assert (again.hash, plan.resume) == (plan.hash, None)


def test_without_one_the_store_is_restored_and_resumed_at_that_step(
    tmp_path: Path, playbook: Playbook
) -> None:
    pod_actions = Stored(tmp_path, REMOTE)
    plan = plans.make(pod_actions, playbook, "demo", KEY)
    assert plan.resume == 40
    assert [step.kind for step in plan.steps] == [
        "stop_run",
        "archive_logs",
        "restore_set",
        "move_steps",
        "relaunch",
    ]
    assert plan.steps[-1].parameters["resume"] == 40
    asked = pod_actions.asked
    again = plans.make(pod_actions, playbook, "demo", KEY, "", plan)
    assert (again.hash, again.resume, pod_actions.asked) == (plan.hash, 40, asked), (
        "the store, which may be slow, is not asked again"
    )
    step, planned, where = (
        STEPS["restore_set"],
        plan.steps[2],
        Context(pod_actions, "demo", KEY, 40),
    )
    assert not step.done(where, planned)
    step.act(where, planned, step.check(where, planned), lambda text: None)
    assert step.done(where, planned)
    pod_actions.alive = True
    with pytest.raises(PlanChanged, match="running again"):
        step.check(where, planned)


def test_without_a_step_here_or_there_nothing_is_started(
    tmp_path: Path, playbook: Playbook
) -> None:
    with pytest.raises(NotApplicable, match="no store is known"):
        plans.make(Stored(tmp_path, None), playbook, "demo", KEY)


def test_two_recoveries_without_a_new_step_end_the_loop_and_it_is_said(tmp_path: Path) -> None:
    """1.9: the script before us rented and started again for ever."""
    stream = SegmentStream(tmp_path / "journal", 1 << 20)
    book = Book(Journal(stream))
    pod_actions = Stored(tmp_path, None)
    pod_actions.checkpoints = [checkpoint(5)]
    run = SimpleNamespace(name="demo", attempt=SimpleNamespace(number=1))
    own = {
        "boot_id": book("note", run="demo", text="", who="")["b"],
        "last_step_t": lambda run: 0.0,
    }
    own |= {
        "runs": SimpleNamespace(get=lambda name: run, home=SimpleNamespace(id=lambda: "home")),
        "book": book,
    }
    for name, value in own.items():
        setattr(pod_actions, name, value)
    actions = Actions(pod_actions, Library(compile_all()), book, stream, lambda body: None)  # type: ignore[arg-type]
    book("mode", run="demo", playbook="resume-after-restart", mode="auto", who="alice")
    for number in range(2):
        key = f"01J{number:023d}"
        book(
            "action",
            action=key,
            kind="playbook",
            run="demo",
            who="mode auto",
            event="accepted",
            body={},
        )
        book("action", action=key, run="demo", event="failed", detail="no new step")
    actions.recoveries.opened("incident", "demo", "resume-after-restart")
    deadline = time.monotonic() + 20
    while not (notes := [r for r in book.records() if r["type"] == "note" and r["text"]]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    actions.executor.join(10.0)
    assert "2 recoveries of demo brought no new step" in notes[0]["text"]
    assert [
        r["kind"] for r in book.records() if r["type"] == "action" and r["event"] == "accepted"
    ][2:] == ["plan"]
    stream.close()
