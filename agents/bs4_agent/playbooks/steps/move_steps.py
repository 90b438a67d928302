"""move_steps: moves what a resume must not find to the run's trash: every step above the resume
step, and what no checkpoint needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.playbooks import words
from bs4_agent.playbooks.pod_actions import Context, Planned, Target, moves_to_trash, targets_at
from bs4_agent.runs.places import refuse_unmovable
from bs4_common.checkpoints.inventory import complete_steps, size_of, step_directories, texts
from bs4_common.errors import NotApplicable, PlanChanged
from bs4_common.failures.compiled import StepSettings
from bs4_common.trainers.base import RunLayout

#: The resume step of a run that has saved nothing.
_NOTHING = -1


class MoveSteps:
    """The step of a playbook that moves away those directories `step_N` of a run (checkpoints,
    weights, rollouts) with which the trainer would not resume at the right training step. They go
    to the run's trash, a directory in which removed files are kept.

    A dying run may save once more while it is stopped. So a person confirms not the single
    directories but a rule that finds them, the selector: the directories in which to look, the
    training step above which to move, and the largest number of entries. The directories are listed
    in the journal before they move. Everything above that training step moves. At or below it, two
    kinds move: directories that the trainer itself empties when it starts, and weights for the
    inference server of steps without a checkpoint, which the trainer deletes over time.

    If the run has saved nothing, everything moves. But if its trainer needs an empty directory for
    a new start, the playbook's step `move_run` does the work instead.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned | None:
        """Return the planned move. Return None if the run has saved nothing and its trainer needs
        an empty directory, because the playbook's step `move_run` does the work then. `parameters`
        is not used. Raises NotApplicable if the run has checkpoints but no complete one, and
        Refused if a directory cannot be moved by a rename (see `places.trash_for`).
        """
        facts = context.facts()
        if context.resume is None and facts.checkpoints:
            raise NotApplicable(
                f"No step of {context.run} is complete on every side, so there is nothing to "
                "resume from. The playbook start-afresh moves everything aside."
            )
        if context.resume is None and facts.layout.fresh_needs_empty:
            return None
        selector = selector_of(facts.layout, context.resume)
        found = in_the_way(selector, _kept(context))
        refuse_unmovable(found, facts.layout, context.run)
        selector["limit"] = 2 * len(found) + 8
        wanted = f"step {selector['above']}"
        if selector["above"] == _NOTHING:
            wanted = "a new start"
        title = f"Move nothing: nothing is there that {wanted} does not need"
        if found:
            title = (
                f"Move {words.directories(len(found))} that {wanted} does not need to the run's "
                "trash"
            )
        return Planned(
            "move_steps",
            title,
            moves_to_trash(found),
            selector,
            [],
            {"directories": [{"path": str(path), "bytes": size_of(path)[0]} for path in found]},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if the selector of the step `planned` (the rule that finds the directories)
        finds none any more.
        """
        return not in_the_way(planned.parameters, _kept(context))

    def check(self, context: Context, planned: Planned) -> Sequence[Target]:
        """Return the directories that the selector of the step `planned` finds now, which are to be
        moved. Raises PlanChanged if the newest complete checkpoint is not the one of the plan any
        more, or if there are more directories than were confirmed.
        """
        newest, above = max(_kept(context), default=_NOTHING), planned.parameters["above"]
        if newest != above:
            raise PlanChanged(
                f"The newest complete step of {context.run} is {newest} by now, not {above}; "
                "make a new plan."
            )
        found = in_the_way(planned.parameters, _kept(context))
        if len(found) > planned.parameters["limit"]:
            raise PlanChanged(
                f"{words.directories(len(found))} above step {above} by now, more than were "
                "confirmed; make a new plan."
            )
        return targets_at(found)

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
            moved = context.pod_actions.trash(context.run, Path(target["path"]), context.action)
            say(f"moved {target['path']} to {moved}")
        return f"moved {words.directories(len(targets))}"


def _kept(context: Context) -> set[int]:
    """Return the steps that are complete on every side."""
    return set(complete_steps(context.facts().checkpoints))


def _roots(layout: RunLayout) -> list[Path]:
    """Return the directories in which this generation keeps step directories that matter to a
    resume, without repeats. Directories that move as a whole are left out.
    """
    roots = [
        layout.orchestrator_checkpoints,
        layout.trainer_checkpoints,
        layout.rollouts,
        layout.broadcasts,
    ]
    if layout.weights is not None:
        roots.append(layout.weights)
    rows = []
    for root in dict.fromkeys(roots):
        if root not in layout.wiped:
            rows.append(root)
    return rows


def selector_of(layout: RunLayout, resume: int | None) -> dict[str, Any]:
    """Return the rule (the selector) that finds the directories which must be gone before a start
    from training step `resume`, or before a new start if `resume` is None. It is a dictionary:
    `above` (the training step above which every directory `step_N` goes), `roots` (the directories
    in which to look for these), `broadcasts` (the directory of the weights for the inference
    server) and `wiped` (directories that go as a whole).
    """
    return {
        "above": _NOTHING if resume is None else resume,
        "roots": texts(_roots(layout)),
        "broadcasts": str(layout.broadcasts),
        "wiped": texts(layout.wiped),
    }


def in_the_way(selector: Mapping[str, Any], kept: set[int]) -> list[Path]:
    """Return the directories on the disk that must be gone before a start. `selector` is the rule
    that `selector_of` has returned for this start. It selects these directories:
    - `step_N` in one of its `roots`, if N is above its number `above`
    - `step_N` in its `broadcasts` (weights for the inference server), if N is not above `above` and
      not in `kept`, the training steps with a complete checkpoint
    - those in its `wiped` that are not empty
    """
    found = []
    for root in selector["roots"]:
        for step, path in sorted(step_directories(Path(root)).items()):
            if step > selector["above"]:
                found.append(path)
    for step, path in sorted(step_directories(Path(selector["broadcasts"])).items()):
        if step <= selector["above"] and step not in kept:
            found.append(path)
    for text in selector["wiped"]:
        if (path := Path(text)).is_dir() and any(path.iterdir()):
            found.append(path)
    return found
