"""Checkpoints: the trainer's sharded files with `.metadata` written last, the orchestrator's
progress file.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import policy
from .rendezvous import World
from .steps import all_steps, step_path

State = dict[str, Any]


class Rotation:
    """Deletes old checkpoints, which are directories `root/step_N`, so that only the `keep_last`
    newest stay. With None nothing is deleted. A directory is deleted with everything in it.

    Only two kinds of checkpoints are ever deleted: those that existed when this object was made
    (only up to step `resume`, if that is given and not negative), and those that were added since.
    """

    def __init__(self, root: Path, keep_last: int | None, resume: int | None) -> None:
        self.root = root
        self._keep_last = keep_last
        self._steps = [
            step for step in all_steps(root) if resume is None or resume < 0 or step <= resume
        ]

    def add(self, step: int) -> None:
        """Note that the checkpoint of `step` was saved. A later call of `maybe_clean` may delete
        it.
        """
        self._steps = sorted({*self._steps, step})

    def maybe_clean(self, report: Callable[[str], None]) -> None:
        """Delete the known checkpoints that are older than the `keep_last` newest. `report` is
        called with a line of text for each.
        """
        if self._keep_last is None:
            return
        keep = self._steps[-self._keep_last :]
        for step in [step for step in self._steps if step not in keep]:
            directory = step_path(self.root, step)
            if directory.exists():
                report(f"Removing past checkpoint for step {step} ({directory})")
                shutil.rmtree(directory)
        self._steps = keep


class TrainerCheckpoints:
    """The trainer's parts of a run's checkpoints, in `root/step_N/trainer/`. Each rank writes one
    file, and rank 0 then writes `.metadata`, which has the hash of every file. `rotation` gives
    `root` and deletes old checkpoints, and `world` is this rank's place among the ranks.
    """

    def __init__(self, rotation: Rotation, world: World) -> None:
        self._rotation = rotation
        self._root = rotation.root
        self._rank = world.rank
        self._world = world.size
        self._barrier = world.barrier

    def path(self, step: int) -> Path:
        """Return the directory of the trainer's part of checkpoint `step`."""
        return step_path(self._root, step) / "trainer"

    def save(self, step: int, state: State) -> None:
        """Save `state` as this rank's file in the checkpoint of `step`. Returns when all ranks have
        done so and rank 0 has written `.metadata`. Raises RuntimeError, with torch's own error
        message, if the disk is full.
        """
        directory = self.path(step)
        directory.mkdir(parents=True, exist_ok=True)
        shard = directory / f"__{self._rank}_0.distcp"
        _write_shard(shard, json.dumps(state).encode() + b"\n" + policy.padding())
        self._barrier()
        if self._rank == 0:
            hashes = {
                name: _sha256(directory / name)
                for name in (f"__{rank}_0.distcp" for rank in range(self._world))
            }
            partial = directory / ".metadata.tmp"
            _write_shard(partial, json.dumps({"version": "1.0.0", "shards": hashes}).encode())
            os.replace(partial, directory / ".metadata")
        self._barrier()
        self._rotation.add(step)

    def load(self, step: int) -> State:
        """Return the state that this rank saved in the checkpoint of `step`. Raises
        FileNotFoundError if there is no such checkpoint or it is incomplete, and RuntimeError, with
        torch's own error message, if the file has changed since.
        """
        directory = self.path(step)
        if not directory.exists():
            raise FileNotFoundError(f"Checkpoint not found at {directory}")
        metadata = json.loads((directory / ".metadata").read_text())
        shard = directory / f"__{self._rank}_0.distcp"
        if _sha256(shard) != metadata["shards"].get(shard.name):
            raise RuntimeError(
                "PytorchStreamReader failed reading zip archive: invalid header or archive "
                f"is corrupted: {shard}"
            )
        state: State = json.loads(shard.read_bytes().split(b"\n", 1)[0])
        return state

    def maybe_clean(self, report: Callable[[str], None]) -> None:
        """Delete old checkpoints, if this is rank 0. `report` is called with a line of text for
        each that is deleted.
        """
        if self._rank == 0:
            self._rotation.maybe_clean(report)


def save_orchestrator(directory: Path, progress: State, buffer: State | None) -> None:
    """Write the orchestrator's part of a checkpoint into `directory`: its progress as
    `progress.pt`, in one atomic step, and, if `buffer` is not None (prime-rl of January 2026), the
    buffer of rollouts as `buffer/rollout_buffer.jsonl`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f"progress.pt.{os.getpid()}.tmp"
    partial.write_text(json.dumps({"progress": progress}))
    os.replace(partial, directory / "progress.pt")
    if buffer is not None:
        (directory / "buffer").mkdir(exist_ok=True)
        (directory / "buffer" / "rollout_buffer.jsonl").write_text(json.dumps(buffer) + "\n")


def load_orchestrator(directory: Path) -> tuple[State, State | None]:
    """Return (progress, buffer) as `save_orchestrator` has written them into `directory`. The
    buffer is None if none was written. Raises FileNotFoundError if a file is missing.
    """
    state = json.loads((directory / "progress.pt").read_text())
    saved = directory / "buffer" / "rollout_buffer.jsonl"
    return state["progress"], json.loads(saved.read_text()) if saved.parent.exists() else None


def rng_state(state: tuple[Any, ...]) -> list[Any]:
    """Return `state`, the result of `random.Random().getstate()`, in a form that can be written as
    JSON.
    """
    return [state[0], list(state[1]), state[2]]


def rng_from(state: list[Any]) -> tuple[Any, ...]:
    """Return what `random.Random().setstate()` takes, from `state`, the result of `rng_state`."""
    return state[0], tuple(state[1]), state[2]


def _write_shard(path: Path, data: bytes) -> None:
    """Torch's writer notices only that the file is shorter than it should be, and never says
    why.
    """
    try:
        path.write_bytes(data)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        written = path.stat().st_size if path.exists() else 0
        raise RuntimeError(
            f"[enforce fail at inline_container.cc:664] . unexpected pos {written} vs {len(data)}\n"
            "PytorchStreamWriter failed writing file data/0: file write failed"
        ) from None


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
