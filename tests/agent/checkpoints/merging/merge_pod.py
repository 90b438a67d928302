"""An agent that merges: real workers under real shims, a real journal, the miniature's merger; of
the pod only what is asked.
"""

from __future__ import annotations

import io
import json
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.paths import Home
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.clock import boot_id
from bs4_common.failures.compiled import Library
from bs4_common.ids import ulid
from bs4_common.journal import Journal
from bs4_common.streams.segments import SegmentStream
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.verl import TRACKER
from bs4_practice.miniature import install
from bs4_practice.miniature.verl import tensors

ENDS = ("done", "failed", "plan-changed", "interrupted")


def shard(values: list[float], skill: float) -> bytes:
    """One rank's file as the miniature's worker writes it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.json", json.dumps({"skill": skill, "slice": values}))
    return buffer.getvalue()


class MergePod:
    """A run `demo` of verl with files and without processes."""

    def __init__(self, root: Path) -> None:
        self.root, self.project = root, root / "verl"
        self.project.mkdir()
        install.install_verl(self.project, sys.executable)
        (self.project / "verl.toml").write_text("[trainer]\nn_gpus_per_node = 2\n")
        self.home = Home(root / "home")
        self.home.create()
        self.out = self.project / "outputs" / "demo"
        self.checkpoints = self.out / "checkpoints"
        self.spec = LaunchSpec(
            run="demo",
            trainer="verl",
            config=Path("verl.toml"),
            cwd=self.project,
            output_dir=self.project / "outputs",
        )
        self.load()
        self.runs.register(self.spec)

    def load(self) -> None:
        """A life of the agent; a second call is a restart."""
        self.stream = SegmentStream(self.home.state / "journal", 1 << 22)
        self.book = Book(Journal(self.stream))
        scope = Scope.from_environment()
        self.runs = Runs(self.home, scope, self.book, ProcessTable(scope))
        self.pod: Any = SimpleNamespace(
            runs=self.runs, book=self.book, boot_id=boot_id(), hard_nofile=lambda: 1024
        )
        self.actions = Actions(
            self.pod, Library(b'{"playbooks": []}'), self.book, self.stream, lambda body: None
        )

    def save(self, step: int, skill: float = 0.5, world: int = 2) -> Path:
        """A whole step; actor/."""
        actor = self.checkpoints / f"global_step_{step}" / "actor"
        (actor / "huggingface").mkdir(parents=True)
        for kind in ("model", "optim", "extra_state"):
            for rank in range(world):
                part = tensors.slice_of(tensors.of(skill), rank, world)
                (actor / f"{kind}_world_size_{world}_rank_{rank}.pt").write_bytes(
                    shard(part, skill)
                )
        (actor / "huggingface" / "config.json").write_text(
            '{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}'
        )
        (actor.parent / "data.pt").write_text("{}")
        (self.checkpoints / TRACKER).write_text(str(step))
        return actor

    def plan(self, kind: str = "merge", **more: Any) -> dict[str, Any]:
        """The plan's record."""
        key = ulid()
        self.actions.submit({"key": key, "kind": "plan", kind: {"run": "demo", **more}}, "alice")
        self.ended(key)
        return next(r for r in self.told("plan") if r["action"] == key)

    def begin(self, plan: dict[str, Any]) -> str:
        assert plan["plan_hash"], plan.get("refused")
        key = ulid()
        self.actions.submit(
            {"key": key, "kind": plan["playbook"], "run": "demo", "plan_hash": plan["plan_hash"]},
            "alice",
        )
        return key

    def merge(self, plan: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """To its end: the last record of the action."""
        return self.ended(self.begin(plan if plan is not None else self.plan(**more)))

    def ended(self, key: str) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while not (
            found := [r for r in self.told("action") if r["action"] == key and r["event"] in ENDS]
        ):
            assert time.monotonic() < deadline, self.told("action")
            time.sleep(0.02)
        self.actions.executor.join(10.0)
        return found[0]

    def told(self, type_: str) -> list[dict[str, Any]]:
        return [record for record in self.book.records() if record["type"] == type_]

    def close(self) -> None:
        self.actions.executor.join(30.0)
        self.stream.close()
