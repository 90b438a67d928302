"""An agent's disk guard over real files, a real journal and real actions; of the pod only what it
asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.checkpoints import retention as module
from bs4_agent.checkpoints.retention import Retention
from bs4_agent.paths import Home
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.failures.compiled import Library
from bs4_common.ids import ulid
from bs4_common.journal import Journal
from bs4_common.runs.model import Attempt, Run
from bs4_common.streams.segments import SegmentStream
from bs4_common.trainers.base import LaunchSpec


class Guarded:
    """`demo`, registered and not running. `processes`: what the pod's table shows. `last_step`:
    what the trainer's log has said.
    """

    def __init__(self, root: Path, spec: LaunchSpec, patch: pytest.MonkeyPatch) -> None:
        # Quiet for five seconds and looked at every five in a real pod; the order of things is the
        # same in a fiftieth of that.
        patch.setattr(module, "LOOK_S", 0.02)
        self.root, self.spec, self.out = root, spec, spec.output_dir
        self.home = Home(root / "home")
        self.home.create()
        self.processes: dict[int, Any] = {}
        self.last_step: int | None = None
        self._scanned = 0.0
        self.load()

    def load(self) -> None:
        """A life of the agent; a second call is a restart."""
        self.stream = SegmentStream(self.home.state / "journal", 1 << 22)
        self.book = Book(Journal(self.stream))
        scope = Scope.from_environment()
        self.runs = Runs(self.home, scope, self.book, ProcessTable(scope))
        self.runs.register(self.spec)
        self.pod: Any = SimpleNamespace(
            runs=self.runs,
            book=self.book,
            follower=SimpleNamespace(recent=self._recent),
            table=SimpleNamespace(snapshot=self._snapshot),
        )
        self.actions = Actions(
            self.pod, Library(b'{"playbooks": []}'), self.book, self.stream, lambda body: None
        )
        self.guard = Retention(self.pod, self.book, self.actions)

    def restart(self) -> None:
        self.stream.close()
        self.load()

    @property
    def run(self) -> Run:
        return self.runs.get("demo")

    def train(
        self, started_s_ago: float = 100.0, last_step: int | None = 1, argv: tuple[str, ...] = ()
    ) -> None:
        """From now on the run lives."""
        self.last_step = last_step
        self.run.attempts = [
            Attempt(
                number=1,
                state="running",
                shim=None,
                launcher=None,
                started_t=time.time() - started_s_ago,
                started_m=time.monotonic() - started_s_ago,
                resume=None,
                argv=argv,
            )
        ]

    def order(self, **body: Any) -> None:
        self.actions.submit({"key": ulid(), "kind": "keep", "run": "demo", **body}, "alice")

    def round(self) -> float | None:
        """One scan, and the rotation that it begins. Return what the scan has returned. What has
        not changed since the round before is quiet.
        """
        time.sleep(max(0.0, self._scanned + 0.03 - time.monotonic()))
        pause = self.guard.round()
        self._scanned = time.monotonic()
        self.actions.executor.join(60)
        return pause

    def look(self) -> None:
        """As often as it takes for what is quiet to be known to be quiet."""
        for _ in range(3):
            self.round()

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, self.told()
            self.look()

    def told(self, type_: str = "") -> list[dict[str, Any]]:
        return [record for record in self.book.records() if type_ in ("", record["type"])]

    def rotations(self) -> list[dict[str, Any]]:
        """The ends of all rotations."""
        keys = {r["action"] for r in self.told("action") if r.get("kind") == "rotate"}
        return [
            r
            for r in self.told("action")
            if r["action"] in keys and r["event"] in ("done", "failed")
        ]

    def said(self) -> list[tuple[str, str]]:
        return [(r["event"], r["detail"]) for r in self.told("guard")]

    def _recent(self, run: str, attempt: int | None = None) -> Any:
        return SimpleNamespace(
            median_step_s=lambda: None, side=lambda name: SimpleNamespace(last_step=self.last_step)
        )

    def _snapshot(self, max_age: float) -> dict[int, Any]:
        return self.processes
