"""The directories that belong to a run, with every link resolved. Only these may be moved."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bs4_agent.errors import Refused
from bs4_agent.trainers.base import LaunchSpec, RunLayout, Trainer

if TYPE_CHECKING:
    from bs4_agent.runs.registry import Runs


def own_directories(layout: RunLayout) -> list[Path]:
    """Return the directories that hold only this run's files, such as its checkpoints, with every
    link resolved. A directory that lies inside another of them is left out.

    `output_dir` itself is never among them, because with the current prime-rl generation other runs
    lie in it too.
    """
    named = [
        layout.run_dir,
        layout.trainer_checkpoints,
        layout.orchestrator_checkpoints,
        layout.broadcasts,
        layout.rollouts,
        layout.weights,
        *layout.wiped,
    ]
    return _outermost(
        path.resolve() for path in named if path is not None and path != layout.output_dir
    )


def log_directories(trainer: Trainer, spec: LaunchSpec) -> list[Path]:
    """Return the directories in which the run's logs lie, with every link resolved. A directory
    that lies inside another of them is left out.

    `output_dir` itself and directories around the run's checkpoints are never among them, even if a
    log lies there. Otherwise archiving the logs would archive every checkpoint.
    """
    layout = trainer.layout(spec)
    # A component may write a second log beside the launcher's redirect (2026-01: run_default/logs).
    found = [source.path.parent.resolve() for source in trainer.log_sources(spec)] + [
        layout.run_dir.resolve() / "logs"
    ]
    held: set[Path] = set()
    for root in (layout.output_dir, layout.trainer_checkpoints, layout.orchestrator_checkpoints):
        held.update((root.resolve(), *root.resolve().parents))
    return _outermost(path for path in found if path not in held)


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Return each of these directories once, without those that are inside another."""
    found = dict.fromkeys(paths)
    return [path for path in found if found.keys().isdisjoint(path.parents)]


def same_run(one: RunLayout, other: RunLayout) -> bool:
    """Return True if two starts of one trainer belong to the same run, because they have the same
    run directory once links are resolved.

    `output_dir` is not compared. Several runs may lie in one, and a person who starts a run again
    by hand may name it in another way.
    """
    return (one.told or one.run_dir).resolve() == (other.told or other.run_dir).resolve()


def overlapping(one: RunLayout, other: RunLayout) -> Path | None:
    """Return a directory of the first run that is also one of the second, lies inside one, or has
    one inside. Return None if the two runs never write to the same directory.
    """
    for mine in own_directories(one):
        for theirs in own_directories(other):
            if mine == theirs or mine in theirs.parents or theirs in mine.parents:
                return mine
    return None


def refuse_beside(runs: Runs, spec: LaunchSpec) -> None:
    """Raise Refused if another live run writes to a directory of the run that `spec` describes.
    Files there may be what that run has just saved, so they must not be moved.

    An inference server or an evaluation that was started separately writes only logs and is no
    obstacle.
    """
    mine = runs.trainer(spec).layout(spec)
    for other in runs.all():
        writes = other.live and other.spec.component not in ("inference", "eval")
        if (
            other.name != spec.run
            and writes
            and (both := overlapping(mine, runs.trainer(other).layout(other.spec)))
        ):
            raise Refused(
                f"{spec.run} and {other.name}, which is running, both write to {both}; "
                f"nothing is moved there. Stop {other.name} first."
            )
