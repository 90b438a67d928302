"""move_run: moves everything that a run has written to its trash, so that the run can start afresh.
The trash keeps every byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.playbooks.world import Context, Planned
from bs4_agent.trainers.base import RunLayout


class MoveRun:
    """Moves the directories of a run.

    With `when: nothing-saved` the step exists only for a run that has no checkpoint at all and
    whose trainer refuses to start in a directory that is not empty. The directory then holds only
    the configs and logs of the failed attempt.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned | None:
        """Return the planned move, or None if the condition `when` does not hold."""
        facts = context.facts()
        if parameters.get("when") == "nothing-saved" and (
            facts.checkpoints or not facts.layout.fresh_needs_empty
        ):
            return None
        roots = written(facts.layout)
        found = [path for path in roots if path.exists()]
        command = "; ".join(f"mv {path} <trash>/" for path in found)
        title = (
            f"Move everything that {context.run} has written to its trash ({len(found)} "
            "directories)"
        )
        return Planned(
            "move_run",
            title,
            command,
            {"roots": [str(p) for p in roots]},
            [],
            {"directories": [str(p) for p in found]},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if none of the planned directories exists."""
        return not any(Path(root).exists() for root in planned.parameters["roots"])

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return the planned directories that exist now."""
        rows = []
        for root in planned.parameters["roots"]:
            if Path(root).exists():
                rows.append({"path": root})
        return rows

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        """Move the directories and return how many were moved."""
        for target in targets:
            path = Path(target["path"])
            moved = context.world.trash(context.run, path, context.action, everything=True)
            say(f"moved {target['path']} to {moved}")
        return f"moved {len(targets)} directories"


def written(layout: RunLayout) -> list[Path]:
    """Return the directories that a run writes and a fresh start must not find. None of them is
    inside another one.

    2026-01 spreads a run over output_dir. The current generation refuses a run directory that is
    not empty, so all of it is moved.
    """
    paths = [
        layout.run_dir,
        layout.trainer_checkpoints,
        layout.orchestrator_checkpoints,
        layout.rollouts,
        layout.broadcasts,
    ]
    if layout.weights is not None:
        paths.append(layout.weights)
    unique = []
    for path in dict.fromkeys(paths):
        if path != layout.output_dir:
            unique.append(path)
    rows = []
    for path in unique:
        if not any(other in path.parents for other in unique):
            rows.append(path)
    return rows
