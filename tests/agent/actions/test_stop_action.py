"""A stop by the executor, without processes: a crash before and after each of its records, two
people at once, a full disk, what it does to the action that holds the run, and what an earlier
version has left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.actions import executor as module
from bs4_agent.actions.kind import PlannedKind
from bs4_common.errors import Busy, SpoolFull, StepFailed
from bs4_common.ids import ulid
from tests.agent.actions.toy import Toy, ToyAgent, life_of
from tests.agent.launch.fake_pod import FakePod, LaunchAgent, agent_in, snapshots
from tests.agent.runs.practice import until

WHOLE = [("accepted", None), ("intent", 0), ("step-done", 0), ("done", None)]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchAgent]:
    monkeypatch.setattr(module, "END_RETRY_S", 0.01)
    with agent_in(tmp_path) as made:
        yield made


def test_a_stop_goes_by_its_step(agent: LaunchAgent) -> None:
    key = agent.stop()
    action = agent.ended(key)
    assert (action.state, action.detail) == ("done", "every process has ended")
    assert agent.events(key) == WHOLE
    assert [(step.title, step.command, step.detail) for step in action.steps] == [
        ("Stop demo", "kill demo", "every process has ended")
    ]
    assert "plan" not in action.body
    agent.nothing_is_left()


def test_a_crash_before_and_after_each_record_is_finished_by_the_next_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not known to have happened is done again: of a run that has ended there is nothing
    left to stop. What was known is not: another attempt may live by then.
    """
    into, here = tmp_path / "snapshots", tmp_path / "here"
    into.mkdir()
    here.mkdir()
    with agent_in(here) as agent:
        snapshots(agent, into, monkeypatch)
        key = agent.stop()
        agent.ended(key)
    found = sorted(into.iterdir())
    assert len(found) == 2 * (len(WHOLE) + 1)  # the stop reports its progress once
    for root in found:
        with agent_in(root) as agent:
            known = ("step-done", 0) in agent.events(key)
            agent.actions.resume()
            if key not in agent.book.ledger.actions:
                agent.stop(key)
            assert agent.ended(key).state == "done"
            assert agent.pod.stops == (0 if known else 1)
            ends = [event for event, _ in agent.events(key) if event in ("accepted", "done")]
            assert ends == ["accepted", "done"]
            agent.nothing_is_left()


def test_a_stop_ends_a_launch_that_waits_and_then_holds_the_run(agent: LaunchAgent) -> None:
    waits = threading.Event()

    def wait(pause: Callable[[float], object]) -> None:
        waits.set()
        pause(60.0)

    agent.pod.on_wait = wait
    launch = agent.start()
    assert waits.wait(30.0)
    stop = agent.stop()
    assert agent.ended(stop).state == "done"
    action = agent.ended(launch)
    assert (action.state, action.detail) == ("interrupted", "cancelled by carol's stop")
    assert agent.action(launch).cancelled_by == "carol"
    assert agent.pod.stops == 1
    agent.nothing_is_left()


@pytest.mark.parametrize("kind", ["launch", "playbook", "restore"])
def test_a_stop_ends_whatever_holds_the_run_after_its_step(tmp_path: Path, kind: str) -> None:
    class Holding(Toy):
        name = kind

    class Agent(ToyAgent):
        def make(self) -> PlannedKind[Any]:
            self.toy = Holding(self.root)
            return self.toy

    Agent.kind = kind
    begun, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert may_end.wait(30.0)

    with life_of(Agent, tmp_path) as agent:
        pod: Any = FakePod(tmp_path)
        agent.actions.stops._pod = pod
        agent.toy.on_act = hold
        key = agent.confirm(agent.plan())
        assert begun.wait(30.0)
        stop = ulid()
        agent.actions.submit({"key": stop, "kind": "stop", "run": "demo"}, "carol")
        until(lambda: agent.action(key).cancelled_by == "carol")
        may_end.set()
        assert agent.ended(stop).state == "done"
        assert agent.action(key).detail == "cancelled by carol's stop"
        assert (agent.toy.wrote, pod.stops) == (["first"], 1)


def test_a_stop_that_cannot_say_that_it_waits_stops_all_the_same(agent: LaunchAgent) -> None:
    waits = threading.Event()

    def wait(pause: Callable[[float], object]) -> None:
        waits.set()
        pause(60.0)

    agent.pod.on_wait = wait
    launch = agent.start()
    assert waits.wait(30.0)
    before = agent.tried
    agent.full = lambda number: number == before + 2  # after its acceptance and the cancel
    assert agent.ended(agent.stop()).state == "done"
    assert agent.ended(launch).state == "interrupted"
    assert agent.tried > before + 2
    agent.nothing_is_left()


def test_only_a_second_stop_is_busy(agent: LaunchAgent) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert may_end.wait(30.0)

    agent.pod.on_stop = hold
    key = agent.stop()
    assert begun.wait(30.0)
    for again in (agent.stop, agent.start):
        with pytest.raises(Busy, match=r"^demo is busy: stop by carol since .* Wait for it to end"):
            again()
    agent.stop(key)  # the same submission once more is the same action
    may_end.set()
    assert agent.ended(key).state == "done"
    assert agent.pod.stops == 1
    agent.nothing_is_left()


@pytest.mark.parametrize("first", range(5))
def test_a_disk_that_is_full_at_any_record_leaves_a_stop_that_ended(
    agent: LaunchAgent, first: int
) -> None:
    before = agent.tried
    agent.full = lambda number: number - before == first
    if first == 0:
        with pytest.raises(SpoolFull):
            agent.stop()
        assert agent.pod.stops == 0
    else:
        action = agent.ended(agent.stop())
        assert action.state == ("failed" if first == 1 else "done"), "an intent is on disk"
        assert agent.pod.stops == (0 if first == 1 else 1)
    agent.nothing_is_left()
    assert agent.ended(agent.stop()).state == "done"


def test_a_process_that_does_not_end_fails_the_stop(agent: LaunchAgent) -> None:
    def fail() -> None:
        raise StepFailed("A process is left.")

    agent.pod.on_stop = fail
    action = agent.ended(agent.stop())
    assert (action.state, action.detail) == ("failed", "A process is left.")
    assert action.result["error"] == StepFailed.type
    assert [(step.state, step.detail) for step in action.steps] == [
        ("failed", "A process is left.")
    ]
    agent.nothing_is_left()


@pytest.mark.parametrize("stopped", [False, True])
def test_a_stop_of_the_version_before_is_gone_on_with(tmp_path: Path, stopped: bool) -> None:
    key = ulid()
    with agent_in(tmp_path) as agent:
        body = {"key": key, "kind": "stop", "run": "demo"}
        agent.book(
            "action", action=key, run="demo", kind="stop", who="bob", event="accepted", body=body
        )
        agent.book("action", action=key, run="demo", event="intent", step=0)
        if stopped:
            agent.book("action", action=key, run="demo", event="step-done", step=0, detail="ended")
    with agent_in(tmp_path) as agent:
        agent.actions.resume()
        assert agent.ended(key).state == "done"
        assert agent.pod.stops == (0 if stopped else 1)
