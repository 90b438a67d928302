"""move_files: moves the files that a named selector finds to the run's trash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.paths import storage
from bs4_agent.playbooks import sharedmemory
from bs4_agent.playbooks.pod_actions import Context, Planned, Target, moves_to_trash, targets_at
from bs4_agent.runs.places import refuse_unmovable
from bs4_common.checkpoints.inventory import complete_steps, size_of, step_directories
from bs4_common.errors import NotApplicable, PlanChanged
from bs4_common.failures.compiled import StepSettings

#: The most entries, if the playbook names no limit.
_LIMIT = 64


class MoveFiles:
    """The step of a playbook that moves certain files of a run to its trash, a directory in which
    removed files are kept. A person confirms not the single files but the name of a rule that finds
    them (the selector), with a limit of their number, because a dying run may still add files. The
    files are listed in the journal before they move.

    The selectors are:

    * `corrupt-checkpoint`: the checkpoint from which the failed attempt was started and after which
      it has not finished a training step. It may look like the newest complete checkpoint, which
      nothing else may move. But the attempt has shown that it cannot be loaded. An older complete
      checkpoint must exist.
    * `torn-checkpoint`: checkpoint directories of training steps above the newest complete
      checkpoint.
    * `partial-broadcast`: directories of weights for the inference server that lack the file
      STABLE, which the trainer writes last.
    * `rejection-note`: the file configs/error.txt, in which the trainer of prime-rl's version of
      January 2026 says why it refuses a config. The file is evidence, and the next start deletes it
      if that start succeeds.
    * `stale-shm`: files in shared memory of the agent's user that no process has open. Shared
      memory is another file system, so the bytes are copied and compared before they are deleted.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned | None:
        """Return the planned move, or None if the selector (the rule that finds the files) finds no
        file. In `parameters`, `select` is the selector's name, `limit` the largest number of files
        and directories to move (default 64), and `bytes` the largest size of all together (default:
        no limit). Raises NotApplicable if `select` is `corrupt-checkpoint` and it is not proved
        that the checkpoint is corrupt, PlanChanged if the selector finds more than these limits
        allow, and Refused if a file cannot be moved by a rename (see `places.trash_for`).
        """
        select = parameters["select"]
        hashed: dict[str, Any] = {
            "select": select,
            "limit": int(parameters.get("limit", _LIMIT)),
            "bytes": parameters.get("bytes"),
        }
        step = _corrupt(context, select)
        if step is not None:
            hashed["step"] = step
        found = _find(context, select, step)
        if not found:
            return None
        _refuse_more(found, select, limit=hashed["limit"], most=hashed["bytes"])
        if select != "stale-shm":
            refuse_unmovable(found, context.facts().layout, context.run)
        return Planned(
            "move_files",
            f"Move {len(found)} {select} entr{'y' if len(found) == 1 else 'ies'} "
            "to the run's trash",
            moves_to_trash(found),
            hashed,
            [],
            {"entries": [{"path": str(path), "bytes": _bytes(path)} for path in found]},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if the selector of the step `planned` (the rule that finds the files) finds
        no file any more.
        """
        rule = planned.parameters
        return not _find(context, rule["select"], rule.get("step"))

    def check(self, context: Context, planned: Planned) -> Sequence[Target]:
        """Return the files that the selector of the step `planned` (the rule that finds the files)
        finds now. Raises PlanChanged if there are more than the confirmed limits allow.
        """
        rule = planned.parameters
        found = _find(context, rule["select"], rule.get("step"))
        _refuse_more(found, rule["select"], limit=rule["limit"], most=rule["bytes"])
        return targets_at(found)

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Move the files in `targets`, which `check` has returned, to the run's trash, and return a
        sentence with their number. `planned` is the step, and `say` is called with progress
        messages. Raises StepFailed if the disk reports an error, and Refused if a safety rule
        forbids a move.
        """
        for target in targets:
            path = Path(target["path"])
            say(f"moved {path} to {_move(context, planned.parameters['select'], path)}")
        return f"moved {len(targets)} entries"


def _corrupt(context: Context, select: str) -> int | None:
    """Return the training step of the corrupt checkpoint, which is decided when the plan is made,
    or None for another selector. Raises NotApplicable if it is not proved to be corrupt.
    """
    if select != "corrupt-checkpoint":
        return None
    facts = context.facts()
    step = facts.spec.resume
    loading = facts.state not in ("ended", "lost") and (
        facts.alive("rank") or facts.alive("trainer")
    )
    if step is None or facts.trainer_side.steps or loading:
        raise NotApplicable(
            f"It is not shown that a checkpoint of {context.run} cannot be loaded: its last "
            "attempt did not fail on an explicit resume step. Resume from the step in question "
            "first, or move it aside by hand."
        )
    if min(complete_steps(facts.checkpoints), default=step) >= step:
        raise NotApplicable(
            f"Step {step} of {context.run} cannot be loaded and no older step is complete. "
            f"Fetch step {step} from the object store, or use start-afresh."
        )
    return step


def _find(context: Context, select: str, step: int | None) -> list[Path]:
    """Return the paths that the selector finds now. `step` is that of a corrupt checkpoint."""
    if select == "stale-shm":
        return sharedmemory.stale(context.pod_actions.shared_memory())
    facts = context.facts()
    layout = facts.layout
    if select == "corrupt-checkpoint":
        roots = dict.fromkeys([layout.trainer_checkpoints, layout.orchestrator_checkpoints])
        name = f"step_{step}"
        return [root / name for root in roots if (root / name).is_dir()]
    if select == "torn-checkpoint":
        newest = max(complete_steps(facts.checkpoints), default=-1)
        torn: list[Path] = []
        for checkpoint in facts.checkpoints:
            if not checkpoint.complete and checkpoint.step > newest:
                torn += checkpoint.directories.values()
        return torn
    if select == "partial-broadcast":
        published = sorted(step_directories(layout.broadcasts).items())
        return [path for _, path in published if not (path / "STABLE").exists()]
    note = layout.run_dir / "configs" / "error.txt"
    return [note] if note.is_file() else []


def _move(context: Context, select: str, path: Path) -> Path:
    """Move one path to the run's trash and return its new path."""
    if select != "stale-shm":
        return context.pod_actions.trash(
            context.run, path, context.action, everything=select == "corrupt-checkpoint"
        )
    target = (
        storage(context.facts().layout.output_dir, context.run)
        / "trash"
        / context.action
        / "shm"
        / path.name
    )
    sharedmemory.set_aside(path, target)
    return target


def _refuse_more(found: Sequence[Path], select: str, *, limit: int, most: int | None) -> None:
    """Raise PlanChanged if there are more than `limit` paths, or more than `most` bytes."""
    if len(found) > limit:
        raise PlanChanged(
            f"{len(found)} entries are {select} by now, more than {limit}; look at them by hand."
        )
    if most is not None and (total := sum(map(_bytes, found))) > most:
        raise PlanChanged(
            f"They hold {total} bytes, more than the {most} that were confirmed; look at "
            "them by hand."
        )


def _bytes(path: Path) -> int:
    """Return the size of a file or of a directory with its files, in bytes."""
    if path.is_dir():
        return size_of(path)[0]
    return path.stat().st_size
