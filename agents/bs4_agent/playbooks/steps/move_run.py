"""move_run: moves everything that a run has written to its trash, so that the run can start afresh.
The trash keeps every byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bs4_agent.playbooks import words
from bs4_agent.playbooks.pod_actions import Context, Planned, Target, moves_to_trash, targets_at
from bs4_agent.runs.places import refuse_unmovable
from bs4_common.failures.compiled import StepSettings
from bs4_common.trainers.base import RunLayout


class MoveRun:
    """The step of a playbook that moves everything that a run has written into the run's trash (a
    directory in which removed files are kept), for a fresh start.

    With the parameter `when: nothing-saved`, the step is planned only for a run that has no
    checkpoint at all and whose trainer refuses to start in a directory that is not empty. The
    directory then has only the configs and logs of the failed attempt.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned | None:
        """Return the planned move of all directories that the run has written. Return None if
        `parameters["when"]` is "nothing-saved" and either the run has a checkpoint or its trainer
        also starts in a directory that is not empty. Raises Refused if a directory cannot be moved
        by a rename (see `places.trash_for`).
        """
        facts = context.facts()
        if parameters.get("when") == "nothing-saved" and (
            facts.checkpoints or not facts.layout.fresh_needs_empty
        ):
            return None
        roots = [str(path) for path in written(facts.layout)]
        found = _existing(roots)
        refuse_unmovable(map(Path, found), facts.layout, context.run)
        return Planned(
            "move_run",
            f"Move everything that {context.run} has written to its trash "
            f"({words.directories(len(found))})",
            moves_to_trash(found),
            {"roots": roots},
            [],
            {"directories": found},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if all directories that the step `planned` is to move are gone."""
        return not _existing(planned.parameters["roots"])

    def check(self, context: Context, planned: Planned) -> Sequence[Target]:
        """Return those directories that the step `planned` is to move and that still exist."""
        return targets_at(_existing(planned.parameters["roots"]))

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Move the directories in `targets`, which `check` has returned, to the run's trash, and
        return a sentence with their number. `planned` is the step, and `say` is called with
        progress messages. Raises StepFailed if the disk reports an error, and Refused if a safety
        rule forbids a move.
        """
        for target in targets:
            moved = context.pod_actions.trash(
                context.run, Path(target["path"]), context.action, everything=True
            )
            say(f"moved {target['path']} to {moved}")
        return f"moved {words.directories(len(targets))}"


def _existing(roots: Sequence[str]) -> list[str]:
    """Return those of the paths that exist."""
    return [root for root in roots if Path(root).exists()]


def written(layout: RunLayout) -> list[Path]:
    """Return the directories that a run writes and that must be gone before a fresh start. No
    directory in the list is inside another one.

    prime-rl's version of January 2026 spreads a run over its output_dir, so there may be several.
    Current prime-rl refuses a run directory that is not empty, so that directory is in the list
    too.
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
