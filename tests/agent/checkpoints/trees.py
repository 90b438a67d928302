"""Checkpoints on disk as the two generations leave them, with real safetensors files."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path

from bs4_agent.runs.registry import Runs
from bs4_common.runs.model import Attempt
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec

OLD, NEW = registry.get("prime-rl-2026-01"), registry.get("prime-rl")


def put(path: Path, size: int = 3) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def weights(size: int = 16) -> bytes:
    """A safetensors file of one tensor of `size` bytes."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + b"w" * size


def old_run(tmp_path: Path, toml: str = "") -> LaunchSpec:
    (tmp_path / "rl.toml").write_text(toml)
    return LaunchSpec(
        run="demo",
        trainer=OLD.id,
        config=Path("rl.toml"),
        cwd=tmp_path,
        output_dir=tmp_path / "out",
    )


def new_run(tmp_path: Path, toml: str = "") -> LaunchSpec:
    return dataclasses.replace(old_run(tmp_path, toml), trainer=NEW.id)


def old_trainer(spec: LaunchSpec, step: int) -> Path:
    put(spec.output_dir / f"checkpoints/step_{step}/trainer/__0_0.distcp", 100)
    put(spec.output_dir / f"checkpoints/step_{step}/trainer/.metadata", 10)
    return spec.output_dir / f"checkpoints/step_{step}/trainer"


def old_orchestrator(spec: LaunchSpec, step: int) -> Path:
    part = spec.output_dir / f"run_default/checkpoints/step_{step}/orchestrator"
    put(part / "progress.pt", 7)
    for name in ("easy_examples", "hard_examples", "rollout_buffer"):
        put(part / f"buffer/{name}.jsonl", 0)
    return part


def old_broadcast(spec: LaunchSpec, step: int) -> Path:
    part = spec.output_dir / f"run_default/broadcasts/step_{step}"
    put(part / "STABLE", 0)
    (part / "model.safetensors").write_bytes(weights())
    return part


def old_step(spec: LaunchSpec, step: int) -> None:
    old_trainer(spec, step)
    old_orchestrator(spec, step)
    old_broadcast(spec, step)


def new_step(spec: LaunchSpec, step: int) -> None:
    root = spec.output_dir / "demo"
    put(root / f"checkpoints/step_{step}/trainer/__0_0.distcp", 100)
    put(root / f"checkpoints/step_{step}/trainer/.metadata", 10)
    put(root / f"checkpoints/step_{step}/orchestrator/progress.pt", 7)


def old_weights(spec: LaunchSpec, step: int) -> Path:
    part = spec.output_dir / f"weights/step_{step}"
    part.mkdir(parents=True, exist_ok=True)
    (part / "model.safetensors").write_bytes(weights(200))
    return part


def age(spec: LaunchSpec, step: int, seconds: float) -> None:
    """All of a step was written so long ago."""
    then = time.time() - seconds
    for place in spec.output_dir.rglob(f"step_{step}"):
        for path in [*place.rglob("*"), place]:
            os.utime(path, (then, then))


def steps_in(root: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in root.glob("step_*"))


def another_trains(runs: Runs, spec: LaunchSpec) -> None:
    """Register a second run, by its `spec`, that is training."""
    other = runs.register(spec)
    other.attempts = [
        Attempt(
            number=1,
            state="running",
            shim=None,
            launcher=None,
            started_t=time.time(),
            started_m=time.monotonic(),
            resume=None,
            argv=(),
        )
    ]
