"""An agent without its socket: real runs under real shims, real actions and a real journal, for
tests of stops.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.credentials.held import HeldSecrets
from bs4_agent.launch import validation
from bs4_agent.paths import Home
from bs4_agent.pod import Pod
from bs4_agent.runs.follower import RunFollower
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.streams.registry import Streams
from bs4_agent.telemetry.background import GuardedGpus
from bs4_agent.telemetry.gpus import AbsentGpus
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.failures.compiled import Library
from bs4_common.ids import ulid
from bs4_common.journal import Journal
from bs4_common.ledger import ActionView
from bs4_common.streams.segments import SegmentStream
from bs4_common.trainers.base import LaunchSpec
from bs4_common.withheld import Withheld
from bs4_console.failures.playbooks import compile_all
from tests.agent.runs.practice import PracticeTrainer, until

RUN = "demo"
#: A playbook that starts the run again as it was started before.
RELAUNCHES = "vllm-ready-hang"
#: Runs until it is signalled, and never shows a step: a start that hangs.
HANGS = "exec sleep 600"
Signals = Sequence[tuple[str, float]]


@functools.cache
def library() -> bytes:
    """Return the compiled playbooks, which takes a second."""
    return compile_all()


class StoppingAgent:
    """One life of an agent on the home in `root`. Each run is started as PracticeTrainer's
    `program`.
    """

    def __init__(
        self,
        root: Path,
        program: str = HANGS,
        signals: tuple[tuple[str, float], ...] = (("SIGINT", 1.0), ("SIGKILL", 5.0)),
    ) -> None:
        self.root = root
        (root / "work").mkdir(exist_ok=True)
        (root / "work" / "config.toml").write_text("max_steps = 10\n")
        self.home = Home(root / "home")
        self.home.create()
        scope = Scope.from_environment()
        table = ProcessTable(scope)
        self.stream = SegmentStream(self.home.state / "journal", 1 << 22)
        self.secrets = HeldSecrets(self.home)
        self.book = Book(
            Journal(self.stream, Withheld(self.home.withheld, self.secrets.redacted_values))
        )
        trainer: Any = PracticeTrainer(program, signals=signals)
        self.runs = Runs(
            self.home,
            scope,
            self.book,
            table,
            trainers=lambda name: trainer,
            settle_s=0.2,
            snapshot_age_s=0.05,
            secrets=self.secrets,
        )
        self.streams = Streams()
        self.pod = Pod(
            scope,
            table,
            GuardedGpus(AbsentGpus("this agent looks for no GPUs")),
            self.runs,
            RunFollower(self.streams, self.runs),
            self.book,
        )
        self.actions = Actions(
            self.pod, Library(library()), self.book, self.stream, lambda body: None
        )

    def close(self) -> None:
        self.actions.executor.join(30.0)
        self.pod.gpus.close()
        self.streams.close()
        self.stream.close()

    def launch_body(self) -> dict[str, Any]:
        work = self.root / "work"
        fields = {
            "run": RUN,
            "trainer": "prime-rl",
            "config": "config.toml",
            "cwd": str(work),
            "output_dir": str(work / "out"),
        }
        return {"kind": "launch", "preflight": False, **fields}

    def submit(self, body: Mapping[str, Any], who: str) -> str:
        key = ulid()
        self.actions.submit({"key": key, **body}, who)
        return key

    def spec(self) -> LaunchSpec:
        return validation.spec_of(self.launch_body())

    def recovery(self) -> str:
        """A confirmed plan that starts the run again and waits for its steps."""
        planned = self.ended(
            self.submit({"kind": "plan", "playbook": RELAUNCHES, "run": RUN}, "alice")
        )
        assert planned.state == "done", planned.detail
        body = {
            "kind": "playbook",
            "playbook": RELAUNCHES,
            "run": RUN,
            "plan_hash": planned.result["plan_hash"],
        }
        return self.submit(body, "alice")

    def launch(self) -> str:
        return self.submit(self.launch_body(), "alice")

    def stop(self, who: str = "bob") -> str:
        return self.submit({"kind": "stop", "run": RUN}, who)

    def action(self, key: str) -> ActionView:
        return self.book.ledger.actions[key]

    def ended(self, key: str) -> ActionView:
        until(lambda: self.action(key).ended)
        return self.action(key)

    def waiting(self, key: str) -> None:
        """Until a launch waits for the first step."""

        def waits() -> bool:
            action = self.action(key)
            assert not action.ended, action.detail
            return len(action.steps) > 1 and action.steps[1].state == "running"

        until(waits)

    def alive(self) -> list[int]:
        self.runs.poll()
        return [member.identity.pid for member in self.runs.members(RUN) if member.alive]

    def told(self) -> list[tuple[str, str]]:
        """Action and event of the journal, without the progress of steps."""
        found = [(r["action"], r["event"]) for r in self.book.records() if r["type"] == "action"]
        return [one for one in found if one[1] != "intent"]
