"""Step directories, as both generations use them: `root/step_N`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from . import pace


def step_path(root: Path, step: int) -> Path:
    """Return `root/step_N`, the directory of the step N given as `step`."""
    return root / f"step_{step}"


def all_steps(root: Path) -> list[int]:
    """Return the numbers of all steps that have a directory `root/step_N`, complete or not, the
    lowest first.
    """
    return sorted(int(path.name.split("_")[-1]) for path in root.glob("step_*"))


def latest_step(root: Path) -> int | None:
    """Return the highest step that has a directory `root/step_N`, complete or not, or None if there
    is none. prime-rl does not check that the directory is complete either.
    """
    steps = all_steps(root)
    return steps[-1] if steps else None


def latest_stable(root: Path) -> int | None:
    """Return the highest step whose directory `root/step_N` has the file STABLE, which the trainer
    writes when the directory is complete. Returns None if there is none.
    """
    return next(
        (step for step in reversed(all_steps(root)) if (step_path(root, step) / "STABLE").exists()),
        None,
    )


def remove_steps_above(root: Path, step: int) -> list[int]:
    """Delete the directories `root/step_N` of all steps above `step`, and return the numbers of
    these steps.
    """
    gone = [found for found in all_steps(root) if found > step]
    for found in gone:
        shutil.rmtree(step_path(root, found))
    return gone


def wait_for(path: Path, report: Callable[[str], None]) -> None:
    """Wait without limit until `path` exists; prime-rl has no timeout here either. `report` is
    called with a line for the log at the beginning, then every ten seconds (times
    BS4_MINIATURE_PACE), and at the end.
    """
    report(f"Waiting for path `{path}`")
    started = time.monotonic()
    reported = 0
    while not path.exists():
        pace.poll()
        waited = int((time.monotonic() - started) / pace.PACE)
        if waited >= reported + 10:
            reported = waited - waited % 10
            report(f"Waiting for path `{path}` for {reported} seconds")
    report(f"Found path `{path}`")
