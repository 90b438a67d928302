"""Facts to write cases with: a healthy run of any trainer, with whatever lies around it, to be
changed in one respect.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bs4_common.failures.environment import ConsoleFacts, Disk, Heap, RunEnvironment
from bs4_common.failures.facts import Facts, GpuFacts, RunFacts, Side
from bs4_common.trainers.base import Checkpoint
from tests.agent.facts import NOW, WALL, facts, healthy

GIB = 1 << 30
OLD, NEW, VERL = "prime-rl-2026-01", "prime-rl", "verl"
OUT = Path("/home/u/prime-rl/outputs")
#: A run of January's prime-rl that has everything it should have.
CONFIG: dict[str, Any] = {
    "max_steps": 100,
    "ckpt.interval": 5,
    "ckpt.keep_last": 3,
    "model.name": "Qwen/Qwen2.5-0.5B",
    "inference_gpu_ids": [0],
    "trainer_gpu_ids": [1],
}


def disk(percent: float = 40.0, total: int = 1000 * GIB, **changes: Any) -> Disk:
    used = int(total * percent / 100)
    return dataclasses.replace(
        Disk(
            path="/data",
            used=used,
            total=total,
            free=total - used,
            read_only=False,
            growth=0.0,
            runs=("demo",),
        ),
        **changes,
    )


def saved(
    step: int,
    size: int = GIB,
    complete: bool = True,
    age: float = 600.0,
    missing: tuple[str, ...] = ("trainer",),
) -> Checkpoint:
    """One checkpoint in both trees of January's layout."""
    directories = {
        "trainer": OUT / f"checkpoints/step_{step}",
        "orchestrator": OUT / f"run_default/checkpoints/step_{step}",
    }
    return Checkpoint(
        step=step,
        parts=dict(directories),
        missing=() if complete else missing,
        complete=complete,
        bytes=size,
        newest_mtime=WALL - age,
        directories=directories,
    )


def heap(name: str, *sizes: int, first: int = 0) -> Heap:
    return Heap(
        OUT / name,
        {first + i: size for i, size in enumerate(sizes)},
        {first + i: WALL - 300 for i in range(len(sizes))},
    )


def around(**changes: Any) -> RunEnvironment:
    return dataclasses.replace(
        RunEnvironment(looked_t=WALL, logs_found=True, logs_kept=True), **changes
    )


def run(trainer: str = OLD, **changes: Any) -> RunFacts:
    base = healthy(trainer, config=CONFIG, environment=around(), checkpoints=[saved(0), saved(5)])
    return dataclasses.replace(base, **changes)


def starting(trainer: str = OLD, **changes: Any) -> RunFacts:
    """No step yet."""
    return run(trainer, **{"trainer_side": Side(), "orchestrator_side": Side(), **changes})


def look(*runs: RunFacts, **changes: Any) -> Facts:
    base = {
        "disks": [disk()],
        "shm": Disk(
            path="/dev/shm", used=GIB, total=16 * GIB, free=15 * GIB, read_only=False, growth=0.0
        ),
    }
    return facts(*runs, **{**base, **changes})


def gpus(**changes: Any) -> GpuFacts:
    base = GpuFacts(
        state="ok", pids="local", used={0: 60 * GIB, 1: 40 * GIB}, total={0: 80 * GIB, 1: 80 * GIB}
    )
    return dataclasses.replace(base, **changes)


def console(**rows: Any) -> Facts:
    """A look of the console at a healthy run, with these rows."""
    trainer = rows.pop("trainer", OLD)
    changes = rows.pop("changes", {})
    return look(run(trainer, **changes), console=ConsoleFacts(**rows))


__all__ = [
    "CONFIG",
    "GIB",
    "NEW",
    "NOW",
    "OLD",
    "OUT",
    "VERL",
    "WALL",
    "around",
    "console",
    "disk",
    "gpus",
    "heap",
    "look",
    "run",
    "saved",
    "starting",
]
