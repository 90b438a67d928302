"""While the plan of a confirmed action is made again, which may take long, others are answered, and
nothing that happened meanwhile is overlooked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.actions import executor as module
from bs4_common.errors import AgentError, Busy, PlanChanged
from bs4_common.ids import ulid
from tests.agent.actions.toy import ToyAgent, life
from tests.agent.launch.fake_pod import agent_in

LONG_S = 60.0


class Planning:
    """A confirmation on a thread of its own, whose plan is made again until `go` is set."""

    def __init__(self, agent: ToyAgent, plan_hash: str, **more: Any) -> None:
        self.key, self.error = ulid(), ""
        self.begun, self.go = threading.Event(), threading.Event()
        self._agent, self.plan_hash, self._more = agent, plan_hash, more

    def begin(self) -> None:
        self.thread = self.submit()
        assert self.begun.wait(LONG_S)

    def wait(self) -> None:
        self.begun.set()
        assert self.go.wait(LONG_S)

    def submit(self) -> threading.Thread:
        def confirm() -> None:
            try:
                self._agent.confirm(self.plan_hash, key=self.key, **self._more)
            except AgentError as error:
                self.error = error.type

        thread = threading.Thread(target=confirm, daemon=True)
        thread.start()
        return thread

    def end(self) -> None:
        self.go.set()
        self.thread.join(LONG_S)
        assert not self.thread.is_alive()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPLAN_S", LONG_S)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[ToyAgent]:
    with life(tmp_path) as made:
        yield made


@pytest.fixture
def begin(agent: ToyAgent) -> Iterator[Callable[[], Planning]]:
    """Return a function that confirms a plan, and returns while that is made again."""
    with ExitStack() as stack:

        def made() -> Planning:
            planning = Planning(agent, agent.plan())
            agent.toy.on_plan = planning.wait
            planning.begin()
            agent.toy.on_plan = lambda: None
            stack.callback(planning.end)
            return planning

        yield made


def test_a_second_submission_is_answered_while_the_first_plans(
    agent: ToyAgent, begin: Callable[[], Planning]
) -> None:
    first = begin()
    with pytest.raises(Busy, match="demo is busy: merge by bob since "):
        agent.confirm(first.plan_hash)
    assert agent.plan() == first.plan_hash, "a plan is made"
    agent.actions.submit({"key": ulid(), "kind": "release", "cursor": "1:0"}, "carol")
    assert first.key not in agent.book.ledger.actions
    first.end()
    assert (first.error, agent.ended(first.key).state) == ("", "done")
    assert not agent.executor.locks.held("demo")


def test_the_same_submission_once_more_waits_for_the_first_and_is_the_same_action(
    agent: ToyAgent, begin: Callable[[], Planning]
) -> None:
    first = begin()
    again = first.submit()
    again.join(0.05)
    assert again.is_alive(), "it is not known yet whether the action is accepted"
    first.end()
    again.join(LONG_S)
    assert (again.is_alive(), first.error) == (False, "")
    assert agent.ended(first.key).state == "done"
    assert agent.toy.wrote == ["first", "second"]


def test_an_attempt_that_began_while_it_planned_makes_it_another_plan(
    agent: ToyAgent, begin: Callable[[], Planning], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begin()
    monkeypatch.setattr(agent.executor, "attempt", lambda run: 5)
    first.end()
    assert first.error == PlanChanged.type
    assert first.key not in agent.book.ledger.actions
    assert not agent.executor.locks.held("demo")
    assert agent.toy.kept == set()


def test_a_failure_to_plan_lets_go_of_the_run(agent: ToyAgent) -> None:
    plan_hash = agent.plan()

    def refuse() -> None:
        raise Busy("A command of another set-up still runs.")

    agent.toy.on_plan = refuse
    with pytest.raises(Busy, match="another set-up"):
        agent.confirm(plan_hash)
    agent.toy.on_plan = lambda: None
    assert agent.ended(agent.confirm(plan_hash)).state == "done"


def test_a_stop_that_comes_while_a_launch_plans_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent_in(tmp_path) as agent:
        launch, real = Planning(agent, agent.planned(), confirm_run="demo"), agent.pod.plan_launch

        def slow(*asked: Any) -> Any:
            launch.wait()
            return real(*asked)

        monkeypatch.setattr(agent.pod, "plan_launch", slow)
        launch.begin()
        stop = agent.stop()
        launch.end()
        assert launch.error == Busy.type
        assert agent.ended(stop).state == "done"
        assert launch.key not in agent.book.ledger.actions
        assert agent.pod.started() == []
        agent.nothing_is_left()
