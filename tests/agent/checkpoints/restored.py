"""An agent that restores from a B2 server over HTTP: real workers under real shims, a real journal;
of the pod only what is asked.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.paths import Home
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.setup import credentials
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.checkpoints.remote.b2 import B2Store
from bs4_common.checkpoints.remote.layout import Place
from bs4_common.clock import boot_id
from bs4_common.failures.compiled import Library
from bs4_common.ids import ulid
from bs4_common.journal import Journal
from bs4_common.streams.segments import SegmentStream
from bs4_common.trainers.base import LaunchSpec
from bs4_practice.b2.server import B2Server
from tests.agent.checkpoints import trees
from tests.support.remote_sets import put_step

PLACE = Place.parse("b2://practice-bucket/lab")
TOML = '[wandb]\nproject = "demo"\n'
STEP = {"prime-rl-2026-01": trees.old_step, "prime-rl": trees.new_step}
RUN = {"prime-rl-2026-01": trees.old_run, "prime-rl": trees.new_run}


class NewPod:
    """A pod without anything, and the key to the store. `spec`: where the run was on the pod
    before; `mine`: where it is to be here.
    """

    def __init__(self, root: Path, spec: LaunchSpec, server: B2Server) -> None:
        self.root, self.lost, self.server = root, spec, server
        self.home = Home(root / "home")
        self.home.create()
        self.cwd = root / "project"
        self.cwd.mkdir()
        self.out = self.cwd / "outputs"
        key = server.key()
        credentials.store("b2", {"key_id": key.id, "key": key.secret}, self.home)
        self.store = B2Store.open("practice-bucket", key.id, key.secret, at=server.url, pauses=())
        self.load()

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

    def restart(self) -> None:
        self.actions.executor.join(30.0)
        self.stream.close()
        self.load()
        self.actions.resume()

    def body(self, **more: Any) -> dict[str, Any]:
        asked = {"run": "demo", "from": str(PLACE), "cwd": str(self.cwd), "output_dir": "outputs"}
        return {"kind": "plan", "restore": {**asked, **more}}

    def plan(self, **more: Any) -> dict[str, Any]:
        """The plan's record."""
        key = ulid()
        self.actions.submit({"key": key, **self.body(**more)}, "alice")
        self.ended(key)
        return next(r for r in self.told("plan") if r["action"] == key)

    def restore(self, plan: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """To its end: the last record of the action."""
        return self.ended(self.begin(plan if plan is not None else self.plan(**more)))

    def begin(self, plan: dict[str, Any]) -> str:
        assert plan["plan_hash"], plan.get("refused")
        key = ulid()
        self.actions.submit(
            {"key": key, "kind": "restore", "run": plan["run"], "plan_hash": plan["plan_hash"]},
            "alice",
        )
        return key

    def ended(self, key: str) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        ends = ("done", "failed", "plan-changed", "interrupted")
        while not (
            found := [r for r in self.told("action") if r["action"] == key and r["event"] in ends]
        ):
            assert time.monotonic() < deadline, self.told()
            time.sleep(0.02)
        self.actions.executor.join(10.0)
        return found[0]

    def told(self, type_: str) -> list[dict[str, Any]]:
        return [record for record in self.book.records() if record["type"] == type_]

    def fetched(self) -> int:
        """Downloads of the steps' files so far."""
        return self.server.calls["b2_download_file_by_name"]


def tree(root: Path) -> dict[str, str]:
    """Every file below `root` with its hash."""
    return {
        str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }


@contextmanager
def new_pod(tmp_path: Path, spec: LaunchSpec, patch: pytest.MonkeyPatch) -> Iterator[NewPod]:
    with B2Server(tmp_path / "b2") as server:
        server.bucket("practice-bucket")
        patch.setenv("BS4_B2_REALM", server.url)
        (tmp_path / "new").mkdir()
        made = NewPod(tmp_path / "new", spec, server)
        try:
            yield made
        finally:
            made.actions.executor.join(30.0)
            made.stream.close()
            shutil.rmtree(made.home.root, ignore_errors=True)


@contextmanager
def stored_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trainer: str,
    *steps: int,
    wandb: Mapping[str, str] | None = None,
) -> Iterator[NewPod]:
    """A new pod, for a run of `trainer` whose `steps` lie in the store; the last is pointed to."""
    (tmp_path / "old").mkdir()
    spec = RUN[trainer](tmp_path / "old", TOML)
    for step in steps:
        STEP[trainer](spec, step)
    with new_pod(tmp_path, spec, monkeypatch) as made:
        for step in steps:
            put_step(made.store, PLACE, spec, step, wandb=wandb)
        yield made
