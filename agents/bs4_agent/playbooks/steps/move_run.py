"""move_run: moves everything that a run has written to its trash, so that the run can start afresh.
The trash keeps every byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.playbooks.pod_actions import Context, Planned, moves_to_trash, targets_at
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
        roots = [str(path) for path in written(facts.layout)]
        found = _existing(roots)
        return Planned(
            "move_run",
            f"Move everything that {context.run} has written to its trash ({len(found)} "
            "directories)",
            moves_to_trash(found),
            {"roots": roots},
            [],
            {"directories": found},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if none of the planned directories exists."""
        return not _existing(planned.parameters["roots"])

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return the planned directories that exist now."""
        return targets_at(_existing(planned.parameters["roots"]))

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        """Move the directories and return how many were moved."""
        for target in targets:
            moved = context.pod_actions.trash(
                context.run, Path(target["path"]), context.action, everything=True
            )
            say(f"moved {target['path']} to {moved}")
        return f"moved {len(targets)} directories"


def _existing(roots: Sequence[str]) -> list[str]:
    """Return those of the paths that exist."""
    return [root for root in roots if Path(root).exists()]


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
    unique = dict.fromkeys(paths)
    unique.pop(layout.output_dir, None)
    found = []
    for path in unique:
        if unique.keys().isdisjoint(path.parents):
            found.append(path)
    return found
