"""A pod whose runs are files, and lives of an agent that launches and stops them, for tests without
processes.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from bs4_agent.actions.kind import PlannedKind
from bs4_agent.launch import plan, validation
from bs4_agent.launch.action import Launch
from bs4_common.ids import ulid
from bs4_common.streams.segments import SegmentStream
from bs4_common.trainers.base import LaunchSpec
from tests.agent.actions.toy import ToyAgent, life_of

#: What lies in the way. The pod keeps it in its own directory.
STRAY = Path("/pod/stray")


class FakePod:
    """A pod whose runs are files in `root`: what lies in the way of a start, the trash, and one
    line for each attempt.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.attempts = root, root / "attempts"
        self.runs = SimpleNamespace(get=lambda run: SimpleNamespace(name=run))
        self.on_start: Callable[[], object] = lambda: None
        self.on_wait: Callable[[Callable[[float], object]], object] = lambda pause: None
        self.on_stop: Callable[[], object] = lambda: None
        self.waits = self.stops = 0

    def config(self) -> str:
        path = self.root / "config"
        return path.read_text() if path.exists() else ""

    def plan_launch(
        self, asked: Mapping[str, Any], record: Mapping[str, Any], tries: int
    ) -> plan.LaunchPlan:
        spec = validation.spec_of({**asked, "resume": None})
        moves = [STRAY] if asked["fresh"] else []
        return plan.LaunchPlan(
            asked=asked,
            record=record,
            spec=spec,
            attempt=0,
            tries=tries,
            argv=["uv", "run"],
            environment={"A": "b"},
            why="it was asked for",
            notes=[],
            moves=moves,
            typed_name=bool(moves),
            config={"digest": self.config()},
            steps=plan.planned_steps(
                spec, moves, "uv run", {"A": "b"}, archives=bool(self.started())
            ),
            expires_m=time.monotonic() + 60.0,
        )

    def command_line(self, spec: LaunchSpec) -> str:
        return f"uv run {spec.run}"

    def started(self) -> list[str]:
        """Return the keys of the actions that have started an attempt, oldest first."""
        return self.attempts.read_text().split() if self.attempts.exists() else []

    def claimed(self, run: str, key: str) -> bool:
        return self.launched(run, key) is not None

    def launched(self, run: str, key: str) -> int | None:
        return self.started().index(key) + 1 if key in self.started() else None

    def move_aside(self, spec: LaunchSpec, paths: Sequence[Path], key: str) -> str:
        trash = self.root / "trash" / key
        for path in paths:
            trash.mkdir(parents=True, exist_ok=True)
            if (here := self.root / path.name).exists():
                here.rename(trash / path.name)
        return "moved 1 directory"

    def archive_logs(self, run: str) -> str:
        return "3 log files are archived in /logs"

    def launch(self, spec: LaunchSpec, key: str) -> int:
        self.on_start()
        if key not in self.started():
            self.attempts.write_text("".join(f"{one}\n" for one in [*self.started(), key]))
        return self.started().index(key) + 1

    def stop_command(self, run: str) -> str:
        return f"kill {run}"

    def stop(self, run: str, say: Callable[[str], None]) -> str:
        self.stops += 1
        say("INT to 1 process")
        self.on_stop()
        return "every process has ended"

    def wait_first_step(
        self,
        run: str,
        attempt: int,
        say: Callable[[str], None],
        pause: Callable[[float], object],
    ) -> int:
        self.waits += 1
        say("it loads the model")
        self.on_wait(pause)
        return 7


class LaunchAgent(ToyAgent):
    """One life of an agent that launches and stops."""

    kind = "launch"

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(root, patch)
        pod: Any = self.pod
        self.actions.stops._pod = pod

    def make(self) -> PlannedKind[Any]:
        pod: Any = FakePod(self.root)
        self.pod: FakePod = pod
        return Launch(pod, self.book.ledger)

    def request(self, *, fresh: bool = True) -> dict[str, Any]:
        return {**self.directly(), "fresh": fresh}

    def directly(self) -> dict[str, Any]:
        """Return the fields of a launch without a plan."""
        fields = {"run": "demo", "trainer": "prime-rl", "config": "rl.toml", "preflight": False}
        return {**fields, "cwd": "work", "output_dir": "outputs"}

    def start(self, key: str = "", **more: Any) -> str:
        """Launch without a plan."""
        key = key or ulid()
        self.actions.submit({"key": key, "kind": "launch", **self.directly(), **more}, "bob")
        return key

    def stop(self, key: str = "") -> str:
        key = key or ulid()
        self.actions.submit({"key": key, "kind": "stop", "run": "demo"}, "carol")
        return key

    def planned(self) -> str:
        """Launch by a plan that moves what lies in the way."""
        stray = self.root / "stray"
        stray.mkdir()
        (stray / "rollouts.bin").write_bytes(b"of a dead attempt")
        return self.plan()

    def events(self, key: str) -> list[tuple[str, int | None]]:
        """Return the events of the action with their steps, without reports of progress."""
        return [
            (record["event"], record.get("step"))
            for record in self.book.records()
            if record["type"] == "action"
            and record["action"] == key
            and (record["event"] != "intent" or "title" in record)
        ]

    def whole(self, key: str) -> None:
        """Check that the action has moved and started everything once."""
        action = self.ended(key)
        assert (action.state, action.detail) == ("done", "demo trains")
        assert action.result == {"attempt": 1, "step": 7}
        assert self.pod.started() == [key]
        assert [path.name for path in (self.root / "trash" / key).rglob("*")] == [
            "stray",
            "rollouts.bin",
        ]
        self.nothing_is_left()

    def nothing_is_left(self) -> None:
        self.executor.join(30.0)
        assert not self.executor.locks.held("demo")
        assert self.journal.verify() == []
        assert self.executor.safe_points.hold(0.0)
        self.executor.safe_points.release()


def agent_in(root: Path) -> AbstractContextManager[LaunchAgent]:
    """One life of an agent on the home in `root`, whose actions have ended at its end."""
    return life_of(LaunchAgent, root)


class OnDisk(Protocol):
    """A pod whose files are all in `root`, and the journal of its agent."""

    root: Path
    stream: SegmentStream


def snapshots(agent: OnDisk, into: Path, patch: pytest.MonkeyPatch) -> None:
    """Copy the pod before and after each record of the journal, as a kill -9 would leave it."""
    written, root = agent.stream.append_line, agent.root

    def append_line(line: bytes, *, sync: bool = False) -> str:
        for when in ("before", "after"):
            if when == "after":
                cursor = written(line, sync=sync)
            number = len(list(into.iterdir()))
            shutil.copytree(root, into / f"{number:02d}")
        return cursor

    patch.setattr(agent.stream, "append_line", append_line)
