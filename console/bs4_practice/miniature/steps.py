"""Step directories, as both generations use them: `root/step_N`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from . import pace


def step_path(root: Path, step: int) -> Path:
    """Return the directory of `step` below `root`."""
    return root / f"step_{step}"


def all_steps(root: Path) -> list[int]:
    """Return every step that has a directory below `root`, complete or not, in ascending order."""
    return sorted(int(path.name.split("_")[-1]) for path in root.glob("step_*"))


def latest_step(root: Path) -> int | None:
    """Return the largest step that has a directory below `root`, or None if there is none. Neither
    generation looks whether that directory is complete.
    """
    steps = all_steps(root)
    return steps[-1] if steps else None


def latest_stable(root: Path) -> int | None:
    """Return the largest step below `root` whose STABLE marker was written, or None if there is
    none.
    """
    return next(
        (step for step in reversed(all_steps(root)) if (step_path(root, step) / "STABLE").exists()),
        None,
    )


def remove_steps_above(root: Path, step: int) -> list[int]:
    """Delete the directories of the steps above `step`, and return their numbers."""
    gone = [found for found in all_steps(root) if found > step]
    for found in gone:
        shutil.rmtree(step_path(root, found))
    return gone


def wait_for(path: Path, report: Callable[[str], None]) -> None:
    """Wait until `path` exists, for ever if need be: neither generation has a timeout here.
    `report` is called with a line at the start, every ten seconds of the real program and at the
    end.
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
