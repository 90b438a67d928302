"""What a scenario is, and the steps with which most of them begin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_practice.stage import Stage

OLD, NEW = "prime-rl-2026-01", "prime-rl"
BOTH = (OLD, NEW)
VERL = "verl"
#: Finished steps before a fault; the miniature's configs checkpoint every fifth step, so one
#: complete checkpoint is there.
WARM_UP = 7
#: Enough for two complete checkpoints.
TWO_CHECKPOINTS = 12

Act = Callable[[Stage], Awaitable[None]]


def possible() -> str:
    """For a scenario that needs nothing of the machine."""
    return ""


async def nothing(stage: Stage) -> None:
    """For a failure that begins with the launch itself, or that ends by itself."""


@dataclass(frozen=True)
class Scenario:
    """`prepare` brings the pod to the point where it can break, `inject` breaks it. `run` is the
    one to be recovered.

    `repair`: how a person removes the cause and has the run go on, where no machine may; None where
    that needs nothing but the playbook (or, for a playbook without steps, resuming the run). `pod`:
    how the practice pod differs from the usual one (arguments of `staged`). `needs`: why this
    machine cannot practise it, "" when it can. `detect_s`: how long to wait for the incident, where
    its own hold is long.
    """

    name: str
    failure: str
    trainers: tuple[str, ...]
    prepare: Act
    inject: Act
    run: str = "demo"
    output_dir: str = "outputs"
    foreign_pids: bool = False
    repair: Act | None = None
    pod: Mapping[str, Any] = field(default_factory=dict)
    needs: Callable[[], str] = possible
    detect_s: float | None = None

    def output(self, stage: Stage) -> Path:
        """Where the witness looks for the run's steps."""
        base = stage.pod.project / self.output_dir
        return base if stage.pod.generation == "2026-01" else base / self.run


async def train(stage: Stage, name: str = "demo", steps: int = WARM_UP) -> None:
    """A run that works, launched through the console, with at least `steps` finished steps."""
    await stage.launch(name)
    await advance(stage, name, steps)


async def train_longer(stage: Stage) -> None:
    await train(stage, steps=TWO_CHECKPOINTS)


async def advance(stage: Stage, name: str, steps: int) -> None:
    await stage.until(
        lambda: (stage.session.state.runs[name].step or 0) >= steps, 120, f"step {steps} of {name}"
    )


async def stopped(stage: Stage) -> None:
    """A run that trained and was stopped: its checkpoints lie there."""
    await train(stage)
    await stage.must("stop", run="demo")


async def stopped_later(stage: Stage) -> None:
    """As `stopped`, with two complete checkpoints."""
    await train_longer(stage)
    await stage.must("stop", run="demo")


async def start(stage: Stage) -> None:
    """A start that is going to fail: nobody waits for its first step."""
    await stage.launch(wait=False, preflight=False)


def complete(stage: Stage) -> int:
    """The newest checkpoint of the trainer, as its directory says."""
    root = stage.pod.run_dir / "checkpoints"
    return max(
        int(p.name[5:]) for p in root.glob("step_*") if (p / "trainer" / ".metadata").exists()
    )


def orchestrator_checkpoints(stage: Stage) -> Path:
    return stage.pod.run_dir / (
        "run_default/checkpoints" if stage.pod.generation == "2026-01" else "checkpoints"
    )
