"""A launch by the executor, without processes: a crash before and after each of its records, a stop
before each step, two people at once, a pod that has changed, a full disk, and what an earlier
version has left.
"""

from __future__ import annotations

import functools
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.actions import executor as module
from bs4_agent.launch import action as launch_module
from bs4_agent.launch import plan, validation
from bs4_agent.playbooks.pod_actions import targets_at
from bs4_common.errors import BadRequest, Busy, LaunchFailed, PlanChanged, Refused, SpoolFull
from bs4_common.ids import ulid
from tests.agent.actions.toy import on_record
from tests.agent.launch.fake_pod import STRAY, LaunchAgent, agent_in, snapshots
from tests.golden.test_golden import DATA, TRAINERS, lines

#: The key of a stop that ends an action early.
STOP = "01J00000000000000000000005"


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchAgent]:
    monkeypatch.setattr(module, "END_RETRY_S", 0.01)
    with agent_in(tmp_path) as made:
        yield made


WHOLE = [
    ("accepted", None),
    ("intent", 0),
    ("step-done", 0),
    ("intent", 1),
    ("step-done", 1),
    ("intent", 2),
    ("step-done", 2),
    ("done", None),
]


def test_a_launch_goes_by_its_steps(agent: LaunchAgent) -> None:
    plan_hash = agent.planned()
    with pytest.raises(Refused, match="typing the run's name"):
        agent.confirm(plan_hash)
    key = agent.confirm(plan_hash, confirm_run="demo")
    agent.whole(key)
    assert agent.events(key) == WHOLE
    action = agent.action(key)
    assert action.body["plan"]["spec"]["run"] == "demo"
    assert [step.detail for step in action.steps] == [
        "moved 1 directory",
        "attempt 1 runs",
        "step 7 is done",
    ]
    assert (action.playbook, action.plan_hash, action.what) == ("launch", plan_hash, "launch")
    moved = agent.book.ledger.plans[plan_hash].plan["steps"][0]["shown"]["directories"]
    assert [row["path"] for row in moved] == [str(STRAY)]


def test_a_crash_before_and_after_each_record_is_finished_by_the_next_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into, here = tmp_path / "snapshots", tmp_path / "here"
    into.mkdir()
    here.mkdir()
    with agent_in(here) as agent:
        plan_hash, key = agent.planned(), ulid()
        snapshots(agent, into, monkeypatch)
        agent.confirm(plan_hash, key=key, confirm_run="demo")
        agent.whole(key)
    found = sorted(into.iterdir())
    assert len(found) == 2 * (len(WHOLE) + 1)  # the wait reports its progress once
    for root in found:
        with agent_in(root) as agent:
            agent.actions.resume()
            if key not in agent.book.ledger.actions:
                agent.confirm(plan_hash, key=key, confirm_run="demo")
            agent.whole(key)
            ends = [event for event, _ in agent.events(key) if event in ("accepted", "done")]
            assert ends == ["accepted", "done"]


def end(pause: object) -> None:
    raise LaunchFailed("It ended before its first step.")


def test_a_start_that_is_known_to_have_happened_is_never_repeated(tmp_path: Path) -> None:
    """Its attempt is gone: the launch fails and starts nothing."""
    with agent_in(tmp_path) as agent:
        agent.pod.on_wait = end
        key = agent.start()
        assert agent.ended(key).state == "failed"
        records = [r for r in agent.book.records() if r.get("action") == key][:-1]
    shutil.rmtree(tmp_path / "home")
    (tmp_path / "attempts").unlink()
    with agent_in(tmp_path) as agent:
        own = ("t", "m", "b", "seq", "prev", "type")
        for record in records:
            agent.book("action", **{k: v for k, v in record.items() if k not in own})
    with agent_in(tmp_path) as agent:
        agent.actions.resume()
        action = agent.ended(key)
        assert (action.state, action.result["error"]) == ("failed", LaunchFailed.type)
        assert agent.pod.started() == []


@pytest.mark.parametrize(
    ("last", "moved", "started"),
    [(("accepted", None), 0, 0), (("step-done", 0), 1, 0), (("step-done", 1), 1, 1)],
)
def test_a_launch_that_is_cancelled_ends_before_its_next_step(
    agent: LaunchAgent,
    last: tuple[str, int | None],
    moved: int,
    started: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan_hash, key = agent.planned(), ulid()
    cancel = functools.partial(agent.executor.cancel, key, STOP, "carol")
    on_record(monkeypatch, key, *last, cancel, before=False)
    agent.confirm(plan_hash, key=key, confirm_run="demo")
    action = agent.ended(key)
    assert (action.state, action.detail) == ("interrupted", "cancelled by carol's stop")
    assert action.result["error"] == "cancelled"
    assert (agent.root / "trash" / key).exists() == bool(moved)
    assert len(agent.pod.started()) == started
    agent.nothing_is_left()


def test_a_launch_that_waits_is_cancelled_and_its_run_lives_on(agent: LaunchAgent) -> None:
    waits = threading.Event()

    def wait(pause: Callable[[float], object]) -> None:
        waits.set()
        pause(60.0)

    agent.pod.on_wait = wait
    key = agent.start()
    assert waits.wait(30.0)
    assert agent.executor.safe_points.hold(30.0), "a newer agent may take over while it waits"
    agent.executor.safe_points.release()
    agent.executor.cancel(key, STOP, "carol")
    action = agent.ended(key)
    assert (action.state, action.detail) == ("interrupted", "cancelled by carol's stop")
    assert [step.state for step in action.steps] == ["done", "running"]
    assert agent.pod.started() == [key]
    agent.nothing_is_left()


def test_of_two_people_one_is_told_who_was_first(agent: LaunchAgent) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert may_go_on.wait(30.0)

    agent.pod.on_start = hold
    plan_hash, key = agent.planned(), ulid()
    agent.confirm(plan_hash, key=key, confirm_run="demo")
    assert begun.wait(30.0)
    for again in (lambda: agent.confirm(plan_hash, confirm_run="demo"), agent.start):
        with pytest.raises(Busy, match=r"^demo is busy: launch by bob since "):
            again()
    agent.confirm(plan_hash, key=key, confirm_run="demo")  # the same submission is the same action
    may_go_on.set()
    agent.whole(key)


def test_a_plan_that_would_do_something_else_by_now_starts_nothing(agent: LaunchAgent) -> None:
    plan_hash = agent.planned()
    (agent.root / "config").write_text("another")
    with pytest.raises(PlanChanged, match="look at the new plan"):
        agent.confirm(plan_hash, confirm_run="demo")
    assert agent.pod.started() == []
    assert (agent.root / "stray").exists()
    newest = list(agent.book.ledger.plans)[-1]
    agent.whole(agent.confirm(newest, confirm_run="demo"))


def test_a_try_that_has_ended_makes_its_plan_another_one(agent: LaunchAgent) -> None:
    plan_hash = agent.planned()
    agent.whole(agent.confirm(plan_hash, confirm_run="demo"))
    with pytest.raises(PlanChanged):
        agent.confirm(plan_hash, confirm_run="demo")
    assert len(agent.pod.started()) == 1


@pytest.mark.parametrize("first", range(10))
def test_a_disk_that_is_full_at_any_record_fails_no_launch_that_has_started(
    agent: LaunchAgent, first: int
) -> None:
    plan_hash = agent.planned()
    before = agent.tried
    agent.full = lambda number: number - before == first
    if first == 0:
        with pytest.raises(SpoolFull):
            agent.confirm(plan_hash, confirm_run="demo")
        assert agent.pod.started() == []
    else:
        key = agent.confirm(plan_hash, confirm_run="demo")
        action = agent.ended(key)
        assert action.state == ("failed" if first in (1, 3) else "done"), "an intent is on disk"
        assert agent.pod.started() == ([] if action.state == "failed" else [key])
    agent.nothing_is_left()


def test_a_launch_without_a_plan_starts_exactly_what_it_says(agent: LaunchAgent) -> None:
    key = agent.start(wait=False, resume=3)
    action = agent.ended(key)
    assert (action.state, action.detail) == ("done", "demo was started")
    assert action.result == {"attempt": 1}
    assert agent.pod.waits == 0
    assert [(step.title, step.command) for step in action.steps] == [
        ("Start demo", "uv run demo"),
    ]
    assert (action.playbook, action.plan_hash, "plan" in action.body) == ("", "", False)
    key = agent.start()
    assert agent.ended(key).detail == "demo trains"
    assert [step.title for step in agent.action(key).steps] == [
        "Start demo",
        "Wait for the first step",
    ]


@pytest.mark.parametrize("confirmed", [True, False], ids=["with its hash", "without"])
def test_a_submission_brings_no_plan_of_its_own(agent: LaunchAgent, confirmed: bool) -> None:
    """The next life of the agent would carry it out, and nobody has confirmed it."""
    plan_hash = agent.planned()
    brought = agent.book.ledger.plans[plan_hash].plan
    submit = functools.partial(agent.confirm, plan_hash, confirm_run="demo")
    with pytest.raises(BadRequest, match="written by the agent"):
        (submit if confirmed else agent.start)(plan=brought)
    assert [action.kind for action in agent.book.ledger.actions.values()] == ["plan"]
    agent.whole(submit())


# What the version before has left


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_recorded_plan_is_read_and_shown_as_it_was(trainer: str) -> None:
    found = 0
    for record in lines(DATA / trainer / "agent" / "state" / "journal"):
        if record["type"] != "plan" or record["playbook"] != "launch":
            continue
        read = plan.LaunchPlan.from_dict(record["plan"])
        assert read.as_dict() == record["plan"]
        assert read.waits
        found += 1
    assert found


@pytest.mark.parametrize("planned", [True, False], ids=["by its plan", "without a plan"])
@pytest.mark.parametrize("started", [True, False])
def test_a_launch_of_the_version_before_is_gone_on_with(
    tmp_path: Path, planned: bool, started: bool
) -> None:
    """That version wrote neither titles nor commands into its intents."""
    key = ulid()
    with agent_in(tmp_path) as agent:
        body: dict[str, Any] = {"key": key, "kind": "launch", **agent.directly()}
        steps = [{"title": "Start demo"}, {"title": "Wait for the first step"}]
        if planned:
            view = agent.book.ledger.plans[agent.planned()]
            body = {"key": key, "kind": "launch", "plan_hash": view.plan_hash, "plan": view.plan}
            steps.insert(0, {"title": "Move"})
        fields = {"action": key, "run": "demo"}
        start = len(steps) - 2
        agent.book("action", **fields, kind="launch", event="accepted", body=body, steps=steps)
        if planned:
            agent.book(
                "action",
                **fields,
                event="intent",
                step=0,
                targets=targets_at([STRAY]),
            )
            spec = validation.spec_of(agent.directly())
            agent.pod.move_aside(spec, [STRAY], key)
            agent.book("action", **fields, event="step-done", step=0, detail="moved 1 directory")
        agent.book("action", **fields, event="intent", step=start)
        if started:
            agent.pod.launch(validation.spec_of(agent.directly()), key)
            agent.book("action", **fields, event="step-done", step=start, detail="attempt 1 runs")
            agent.book("action", **fields, event="intent", step=start + 1)
    with agent_in(tmp_path) as agent:
        agent.actions.resume()
        action = agent.ended(key)
        assert (action.state, action.detail) == ("done", "demo trains")
        assert action.result == {"attempt": 1, "step": 7}
        assert agent.pod.started() == [key]
        assert [step.state for step in action.steps] == ["done"] * len(steps)


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("age_s", [16 * 60.0, -16 * 60.0])
@pytest.mark.parametrize("started", [True, False])
def test_a_launch_whose_pod_comes_back_too_late_starts_nothing(
    tmp_path: Path, planned: bool, age_s: float, started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the pod may have been put back meanwhile. What has started is waited for."""
    key = ulid()
    with agent_in(tmp_path) as agent:
        body: dict[str, Any] = {"key": key, "kind": "launch", **agent.directly()}
        if planned:
            view = agent.book.ledger.plans[agent.planned()]
            body = {"key": key, "kind": "launch", "plan_hash": view.plan_hash, "plan": view.plan}
        steps = [{"title": "Start demo"}, {"title": "Wait for the first step"}]
        fields = {"action": key, "run": "demo", "kind": "launch"}
        agent.book("action", **fields, event="accepted", body=body, steps=steps)
        if started:
            agent.pod.launch(validation.spec_of(agent.directly()), key)
        accepted_t = agent.action(key).accepted_t
    monkeypatch.setattr(launch_module.time, "time", lambda: accepted_t + age_s)
    with agent_in(tmp_path) as agent:
        agent.actions.resume()
        action = agent.ended(key)
        assert (action.state == "interrupted") is not started, action.detail
        assert agent.pod.started() == [key] * started
        if not started:
            assert action.detail.startswith(
                "it was accepted 16 minutes ago and had not started the run"
            )
        agent.nothing_is_left()


def test_a_launch_that_cannot_be_read_after_an_upgrade_ends_with_a_sentence(
    tmp_path: Path,
) -> None:
    keys = ulid(), ulid()
    with agent_in(tmp_path) as agent:
        for key, more in zip(
            keys, ({"plan": {"title": "of another"}}, {"trainer": "gone"}), strict=True
        ):
            body = {"key": key, "kind": "launch", **agent.directly(), **more}
            agent.book(
                "action", action=key, run=key, kind="launch", event="accepted", body=body, steps=[]
            )
    with agent_in(tmp_path) as agent:
        agent.actions.resume()
        for key in keys:
            action = agent.ended(key)
            assert action.state == "interrupted"
            assert action.detail.startswith("its plan cannot be read any more (")
        assert agent.pod.started() == []


def test_a_plan_that_cannot_be_read_any_more_is_refused(agent: LaunchAgent) -> None:
    plan_hash = agent.planned()
    agent.book.ledger.plans[plan_hash].plan = {"title": "of another version"}
    with pytest.raises(Refused, match=r"^That plan cannot be read any more .* `launch --plan`"):
        agent.confirm(plan_hash)
    assert agent.pod.started() == []
