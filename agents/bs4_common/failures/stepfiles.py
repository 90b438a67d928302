"""The steps that exist as files on each side: the 2026-01 hand-off between orchestrator and
trainer.
"""

from __future__ import annotations

import re
from pathlib import Path

from bs4_common.failures.facts import StepFiles
from bs4_common.trainers.base import RunLayout

_STEP = re.compile(r"^step_(\d+)$")


def step_files(layout: RunLayout) -> StepFiles:
    """Return the files by which orchestrator and trainer of prime-rl's version of January 2026 hand
    steps to each other, as far as they exist. For each kind of file, the result maps the step to
    the file's mtime as a Unix time in seconds. A step is in `rollouts` only once its rollouts.bin
    is complete. A directory that does not exist has no steps.
    """
    return StepFiles(
        orchestrator_checkpoints=_mtimes(layout.orchestrator_checkpoints, ""),
        rollouts=_mtimes(layout.run_dir / "rollouts", "rollouts.bin"),
        rank_files=_mtimes(layout.output_dir / "rollouts", "rank_0.bin"),
    )


def _mtimes(root: Path, member: str) -> dict[int, float]:
    """Return the mtime of `member` in each step directory below `root`, by step. Missing files are
    left out.
    """
    found: dict[int, float] = {}
    try:
        entries = list(root.iterdir())
    except OSError:
        return found
    for entry in entries:
        if match := _STEP.match(entry.name):
            try:
                found[int(match.group(1))] = (entry / member).stat().st_mtime
            except OSError:
                continue  # cleaned away, or not complete yet
    return found
