"""The action that makes room for a newer agent: at once, after the step, or not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bs4_agent.actions import departure as module
from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.pod import Pod
from bs4_common.errors import Busy
from bs4_common.failures.compiled import Library
from bs4_common.ids import ulid
from bs4_common.journal import Journal
from bs4_common.streams.segments import SegmentStream

LONG = 20.0


class Slow:
    """A pod whose stop of a run takes until it is told to end."""

    def __init__(self) -> None:
        self.stopping, self.may_end = threading.Event(), threading.Event()
        self.runs = SimpleNamespace(
            get=lambda name: SimpleNamespace(name=name, attempt=None),
            home=SimpleNamespace(id=ulid),
        )

    def stop_command(self, run: str) -> str:
        return f"kill {run}"

    def stop(self, run: str, say: Callable[[str], None]) -> str:
        self.stopping.set()
        self.may_end.wait(LONG)
        return "it has ended"


class Agent:
    def __init__(self, directory: Path) -> None:
        self.pod = Slow()
        self.left = threading.Event()
        self.stream = SegmentStream(directory / "journal", 1 << 20)
        self.book = Book(Journal(self.stream))
        self.actions = Actions(
            cast(Pod, self.pod), Library(b'{"playbooks": []}'), self.book, self.stream, self._leave
        )

    def _leave(self) -> None:
        self.left.set()

    def submit(self, kind: str, **body: Any) -> str:
        key = ulid()
        self.actions.submit({"key": key, "kind": kind, **body}, "tester")
        return key

    def state(self, key: str) -> str:
        return self.book.ledger.actions[key].state

    def until(self, key: str, state: str) -> None:
        deadline = time.monotonic() + LONG
        while self.state(key) != state:
            assert time.monotonic() < deadline, self.state(key)
            time.sleep(0.005)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path)
    yield made
    made.pod.may_end.set()
    made.actions.executor.join(LONG)
    made.stream.close()


def test_with_nothing_under_way_it_leaves_at_once(agent: Agent) -> None:
    key = agent.submit("handover")
    assert agent.left.is_set()
    assert agent.state(key) == "done"


def test_a_step_is_finished_first_and_nothing_else_begins(agent: Agent) -> None:
    stop = agent.submit("stop", run="r")
    assert agent.pod.stopping.wait(LONG)
    handover = agent.submit("handover")
    agent.until(handover, "started")
    with pytest.raises(Busy, match="replacing this agent already"):
        agent.submit("handover")
    assert not agent.left.is_set()
    agent.pod.stopping.clear()
    later = agent.submit("stop", run="other")
    agent.pod.may_end.set()
    assert agent.left.wait(LONG)
    assert (agent.state(stop), agent.state(handover), agent.state(later)) == (
        "done",
        "done",
        "accepted",
    )
    assert not agent.pod.stopping.is_set()
    agent.actions.executor.safe_points.release()  # only so that the test's threads can end


def test_a_step_that_takes_too_long_means_that_it_stays_and_can_be_asked_again(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BOUNDARY_S", 0.05)
    stop = agent.submit("stop", run="r")
    assert agent.pod.stopping.wait(LONG)
    refused = agent.submit("handover")
    agent.until(refused, "busy")
    assert "this agent stays" in agent.book.ledger.actions[refused].detail
    assert not agent.left.is_set()
    agent.pod.may_end.set()
    agent.until(stop, "done")
    agent.actions.executor.join(LONG)
    agent.submit("handover")
    assert agent.left.wait(LONG)
