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
    """Return "", for a scenario that every machine can practise."""
    return ""


async def nothing(stage: Stage) -> None:
    """Do nothing: for a failure that begins with the launch itself, or that ends by itself."""


@dataclass(frozen=True)
class Scenario:
    """A failure that can be practised on a pod. `prepare` brings the pod to the point where it can
    break, and `inject` breaks it. `run` is the run that is to be recovered, `failure` the id of the
    failure that the agent must then name, and `trainers` the trainers that can fail that way.

    `repair` is how a person removes the cause and has the run go on, where no machine may. It is
    None if the playbook suffices, or if resuming the run does for a playbook without steps. `pod`
    holds the arguments of `stage.staged` for a pod that is not the usual one. `needs` returns why
    this machine cannot practise the scenario, or "" if it can. `detect_s` is how many seconds to
    wait for the incident, if 90 are not enough.
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
        """Return the directory in which the steps of the scenario's run are recorded."""
        base = stage.pod.project / self.output_dir
        return base if stage.pod.generation == "2026-01" else base / self.run


async def train(stage: Stage, name: str = "demo", steps: int = WARM_UP) -> None:
    """Launch the run `name` through the console, and wait until it has finished `steps` steps.
    Raises StageError if that takes longer than two minutes.
    """
    await stage.launch(name)
    await advance(stage, name, steps)


async def train_longer(stage: Stage) -> None:
    """Launch the run `demo` and wait until it has finished 12 steps, so that it has two complete
    checkpoints.
    """
    await train(stage, steps=TWO_CHECKPOINTS)


async def advance(stage: Stage, name: str, steps: int) -> None:
    """Wait until the console shows that the run `name` has finished step `steps`. Raises StageError
    if that takes longer than two minutes.
    """
    await stage.until(
        lambda: (stage.session.state.runs[name].step or 0) >= steps, 120, f"step {steps} of {name}"
    )


async def stopped(stage: Stage) -> None:
    """Launch the run `demo`, wait until it has finished seven steps, and stop it. One complete
    checkpoint is left.
    """
    await train(stage)
    await stage.must("stop", run="demo")


async def stopped_later(stage: Stage) -> None:
    """Launch the run `demo`, wait until it has finished 12 steps, and stop it. Two complete
    checkpoints are left.
    """
    await train_longer(stage)
    await stage.must("stop", run="demo")


async def start(stage: Stage) -> None:
    """Launch the run `demo` for a start that is going to fail: without the checks before a start,
    and without waiting for the run's first step.
    """
    await stage.launch(wait=False, preflight=False)


def complete(stage: Stage) -> int:
    """Return the step of the newest complete checkpoint of the trainer, as the names of the
    directories say. Raises ValueError if there is none.
    """
    root = stage.pod.run_dir / "checkpoints"
    return max(
        int(p.name[5:]) for p in root.glob("step_*") if (p / "trainer" / ".metadata").exists()
    )


def orchestrator_checkpoints(stage: Stage) -> Path:
    """Return the directory in which the orchestrator keeps its checkpoints. In 2026-01 that is a
    directory below `run_default`; in the other generations it is also the directory of the
    trainer's checkpoints.
    """
    return stage.pod.run_dir / (
        "run_default/checkpoints" if stage.pod.generation == "2026-01" else "checkpoints"
    )
