"""Real processes for tests of runs: attempts under a real shim, a small trainer, and a condition
instead of a sleep.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bs4_agent.paths import Home
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.identity import Identity
from bs4_common.telemetry import StepRecord
from bs4_common.trainers.base import (
    Checkpoint,
    Event,
    LaunchSpec,
    LogLine,
    LogSource,
    RunLayout,
    StopPolicy,
    Traits,
)
from bs4_common.trainers.registry import get

if TYPE_CHECKING:
    from bs4_common.trainers.base import Needs

T = TypeVar("T")

AGENTS = Path(__file__).resolve().parents[3] / "agents"
SHIM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from bs4_agent.shim import main; "
    "sys.exit(main(sys.argv[1:]))"
)


def until(condition: Callable[[], T | None], seconds: float = 60.0) -> T:
    """What `condition` gives once it is true; fails when it never is."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


def read(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text()) if path.exists() else None


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def prepare(directory: Path, argv: Sequence[str], **more: Any) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    spec = {
        "argv": list(argv),
        "cwd": "/",
        "env": {},
        "run": "practice",
        "attempt": 1,
        "agent_restart": None,
        "home": None,
        **more,
    }
    (directory / "spec.json").write_text(json.dumps(spec))
    return directory


def start_shim(directory: Path, env: Mapping[str, str] | None = None) -> int:
    """As launch does; returns the exit status of who was called."""
    argv = [sys.executable, "-IS", "-c", SHIM, str(AGENTS), "--attempt", str(directory)]
    return subprocess.run(
        argv, env={**os.environ, **(env or {})}, check=False, timeout=60
    ).returncode


def identity(directory: Path, who: str) -> Identity:
    record = read(directory / "shim.json")
    assert record is not None
    return Identity.from_dict(record[who])


def tree(name: str = "launcher", **what: Any) -> str:
    """A shell command that becomes the process tree of tree.py."""
    return "exec " + shlex.join(
        [sys.executable, "-IS", str(Path(__file__).with_name("tree.py")), name, json.dumps(what)]
    )


@dataclass
class ListJournal:
    """A journal in a file, as simple as can be: survives the processes of these tests."""

    path: Path

    def append(self, kind: str, /, **fields: Any) -> dict[str, Any]:
        record = {"type": kind, **fields}
        with self.path.open("a") as handle:
            handle.write(json.dumps(record) + "\n")
        return record

    def records(self) -> Iterator[dict[str, Any]]:
        return iter(lines(self.path))

    def events(self) -> list[tuple[Any, ...]]:
        return [(r["run"], r["attempt"], r["event"]) for r in self.records()]


@dataclass
class PracticeTrainer:
    """The smallest trainer: a program of ours in the place of `rl`. `program` is run by sh with the
    output directory as $1.
    """

    program: str
    target: str = "tree"
    signals: Sequence[tuple[str, float]] = (("SIGINT", 5.0), ("SIGTERM", 5.0), ("SIGKILL", 5.0))
    id: str = "practice"
    title: str = "practice"
    first_step: int = 0
    resumes: tuple[str, ...] = ("rl",)
    merges = False
    traits: Traits = get("prime-rl").traits
    complete: Sequence[int] = field(default_factory=tuple)

    @property
    def stop_policy(self) -> StopPolicy:
        return StopPolicy(self.target, self.signals)

    def command(self, spec: LaunchSpec) -> list[str]:
        return ["/bin/sh", "-c", self.program, "rl", str(spec.output_dir), str(spec.resume)]

    def environment(self, spec: LaunchSpec) -> Mapping[str, str]:
        return {}

    def needs(self, spec: LaunchSpec) -> Needs:
        return {}

    def tracked(
        self, spec: LaunchSpec, before: Mapping[str, str], identity: str
    ) -> Mapping[str, str]:
        return {}

    def layout(self, spec: LaunchSpec) -> RunLayout:
        out = spec.output_dir
        run = out / "run_default"
        return RunLayout(
            output_dir=out,
            run_dir=run,
            trainer_checkpoints=out / "checkpoints",
            orchestrator_checkpoints=run / "checkpoints",
            broadcasts=run / "broadcasts",
            rollouts=out / "rollouts",
            weights=None,
        )

    def log_sources(self, spec: LaunchSpec) -> list[LogSource]:
        return [
            LogSource(name, spec.output_dir / "logs" / f"{name}.stdout")
            for name in ("trainer", "orchestrator")
        ]

    def parse_line(self, source: str, raw: bytes) -> LogLine:
        return LogLine(text=raw.decode().strip())

    def event(self, source: str, line: LogLine) -> Event | None:
        words = line.text.split()
        if words[:1] == ["step"]:
            return Event("step", source, {"loss": float(words[2])}, int(words[1]))
        return Event("finished", source) if line.text == "finished" else None

    def component(self, cmdline: Sequence[str], comm: str) -> str | None:
        names = ("launcher", "trainer", "orchestrator", "engine", "inference", "uv")
        return next((name for name in names if any(word.endswith(name) for word in cmdline)), None)

    def recognise(self, cmdline: Sequence[str], cwd: Path) -> LaunchSpec | None:
        if len(cmdline) < 5 or cmdline[3] != "rl":
            return None
        return LaunchSpec(
            run="by-hand",
            trainer=self.id,
            config=Path("config.toml"),
            cwd=cwd,
            output_dir=cwd / cmdline[4],
        )

    def parts(self, spec: LaunchSpec) -> list[Any]:
        return []

    def checkpoints(self, spec: LaunchSpec) -> list[Checkpoint]:
        root = spec.output_dir / "checkpoints"
        return [
            Checkpoint(
                step=n,
                parts={"trainer": root / f"step_{n}"},
                missing=(),
                complete=True,
                bytes=0,
                newest_mtime=0.0,
            )
            for n in self.complete
        ]

    def resume_requested(self, spec: LaunchSpec) -> int | None:
        return spec.resume

    def metrics_path(self, spec: LaunchSpec) -> Path | None:
        return None

    def metrics_record(self, raw: bytes) -> StepRecord | None:
        return None

    def inference_url(self, spec: LaunchSpec) -> str:
        return "http://127.0.0.1:8000"

    def serves(self, spec: LaunchSpec) -> frozenset[int]:
        return frozenset()

    def max_steps(self, spec: LaunchSpec) -> int | None:
        return 10

    def good_end(self, events: Sequence[Event]) -> bool:
        return {"trainer", "orchestrator"} <= {
            event.side for event in events if event.kind == "finished"
        }


@dataclass
class Pod:
    """A directory with an agent's home, a place to train in, and a trainer."""

    root: Path
    trainer: PracticeTrainer
    agent_restart: Sequence[str] | None = None

    def __post_init__(self) -> None:
        self.home = Home(self.root / "home")
        self.home.create()
        (self.root / "work").mkdir(exist_ok=True)
        (self.root / "work/config.toml").write_text("max_steps = 10\n")
        self.journal = ListJournal(self.root / "journal.ndjson")

    def runs(self) -> Runs:
        """A new agent's view: everything it knows it finds on disk."""
        scope = Scope.from_environment()
        return Runs(
            self.home,
            scope,
            self.journal,
            ProcessTable(scope),
            agent_restart=self.agent_restart,
            trainers=lambda name: self.trainer,
            settle_s=0.2,
            snapshot_age_s=0.05,
        )

    def spec(self, name: str = "alpha", **more: Any) -> LaunchSpec:
        work = self.root / "work"
        return LaunchSpec(
            run=name,
            trainer="practice",
            config=Path("config.toml"),
            cwd=work,
            output_dir=more.pop("output_dir", work / name),
            **more,
        )

    def attempt(self, name: str = "alpha", number: int = 1) -> Path:
        return self.home.attempt(name, number)


def kill(who: Identity) -> None:
    who.send(signal.SIGKILL)


def ended(runs: Runs, name: str = "alpha", number: int = 1) -> Any:
    """The End of an attempt, once it has one."""

    def look() -> Any:
        runs.poll()
        return next(
            (attempt.end for attempt in runs.get(name).attempts if attempt.number == number), None
        )

    return until(look)


def components(runs: Runs, *wanted: str, name: str = "alpha") -> dict[str, Identity]:
    """Live members by component, once all that are wanted are there."""

    def look() -> dict[str, Identity] | None:
        runs.poll()
        found = {
            member.component: member.identity
            for member in runs.members(name)
            if member.alive and member.component
        }
        return found if set(wanted) <= found.keys() else None

    found = until(look)
    assert found is not None
    return found
