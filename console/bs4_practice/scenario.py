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
    """Return "", which means that this machine can play the scenario. Scenarios that every machine
    can play have this function as their `needs`.
    """
    return ""


async def nothing(stage: Stage) -> None:
    """Do nothing. This is the `prepare` of a scenario whose failure begins with the launch, and the
    `inject` of a scenario whose run fails by itself.
    """


@dataclass(frozen=True)
class Scenario:
    """A failure that can be practised on a pod. `prepare` brings the pod to the point where it can
    break, and `inject` breaks it. `run` is the name of the run that is to be recovered, and
    `output_dir` its output directory below the project. `failure` is the id of the failure that the
    agent must then report, and `trainers` are the ids of the trainers that can fail that way.

    `repair` does what a person does to remove the cause and resume the run, where no playbook may.
    It is None if the playbook does it, or if it is enough to resume the run. `pod` are arguments of
    `stage.staged` for a pod that is not the usual one. With `foreign_pids`, NVML on the pod reports
    other process ids than the real ones, as it does in a container. `needs` returns in words why
    this machine cannot play the scenario, or "" if it can. `detect_s` is how many seconds to wait
    for the incident; None takes 90.
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
        """Return the directory in which the scenario's run writes its files: its output directory
        in prime-rl of January 2026, otherwise the directory with the run's name below it.
        """
        base = stage.pod.project / self.output_dir
        return base if stage.pod.generation == "2026-01" else base / self.run


async def train(stage: Stage, name: str = "demo", steps: int = WARM_UP) -> None:
    """Launch the run `name` through the console, and wait until step number `steps` has finished.
    Raises StageError if the launch fails or the step takes longer than two minutes.
    """
    await stage.launch(name)
    await advance(stage, name, steps)


async def train_longer(stage: Stage) -> None:
    """Launch the run `demo`, and wait until step 12 has finished, so that it has two complete
    checkpoints. Raises StageError if the launch fails or that takes longer than two minutes.
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
    """Launch the run `demo`, wait until step 7 has finished, and stop it, so that it has one
    complete checkpoint. Raises StageError if the launch or the stop fails, or the step takes longer
    than two minutes.
    """
    await train(stage)
    await stage.must("stop", run="demo")


async def stopped_later(stage: Stage) -> None:
    """Launch the run `demo`, wait until step 12 has finished, and stop it, so that it has two
    complete checkpoints. Raises StageError if the launch or the stop fails, or the step takes
    longer than two minutes.
    """
    await train_longer(stage)
    await stage.must("stop", run="demo")


async def start(stage: Stage) -> None:
    """Launch the run `demo`, although it is going to fail: the checks before a launch are skipped,
    and its first step is not waited for. Raises StageError if it cannot even be started.
    """
    await stage.launch(wait=False, preflight=False)


def complete(stage: Stage) -> int:
    """Return the step of the trainer's newest complete checkpoint, one with the file `.metadata`.
    Raises ValueError if there is none.
    """
    root = stage.pod.run_dir / "checkpoints"
    return max(
        int(p.name[5:]) for p in root.glob("step_*") if (p / "trainer" / ".metadata").exists()
    )


def orchestrator_checkpoints(stage: Stage) -> Path:
    """Return the directory of the orchestrator's checkpoints. In prime-rl of January 2026 it lies
    below `run_default`; otherwise the trainer's checkpoints are in it too.
    """
    return stage.pod.run_dir / (
        "run_default/checkpoints" if stage.pod.generation == "2026-01" else "checkpoints"
    )
