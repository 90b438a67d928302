"""Which steps exist as files on which side: the 2026-01 hand-off between orchestrator and
trainer.
"""

from __future__ import annotations

import re
from pathlib import Path

from bs4_agent.detect.facts import StepFiles
from bs4_agent.trainers.base import RunLayout

_STEP = re.compile(r"^step_(\d+)$")


def step_files(layout: RunLayout) -> StepFiles:
    """Wall mtimes by step. `rollouts` counts a step only once its rollouts.bin is complete (it is
    written as .tmp and renamed).
    """
    return StepFiles(
        orchestrator_checkpoints=_mtimes(layout.orchestrator_checkpoints, ""),
        rollouts=_mtimes(layout.run_dir / "rollouts", "rollouts.bin"),
        rank_files=_mtimes(layout.output_dir / "rollouts", "rank_0.bin"),
    )


def _mtimes(root: Path, member: str) -> dict[int, float]:
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
