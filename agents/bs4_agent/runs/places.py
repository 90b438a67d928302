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
    """Return the directories that hold only this run's files, resolved. None is inside another.

    `output_dir` is not among them: under the current generation other runs lie in it.
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
    """Return the directories of the run's logs, resolved. None is inside another.

    `output_dir` itself and directories that hold the run's checkpoints are left out, even if a log
    lies there. Otherwise archiving the logs would archive every checkpoint.
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
    """Return True if two starts of one trainer are attempts of one run: their run directory, with
    every link resolved, is the same.

    The directory above it says nothing, because several runs lie in one, and a person who starts a
    run again by hand may give that directory another name.
    """
    return (one.told or one.run_dir).resolve() == (other.told or other.run_dir).resolve()


def overlapping(one: RunLayout, other: RunLayout) -> Path | None:
    """Return a directory to which two runs would both write, or None if there is none."""
    for mine in own_directories(one):
        for theirs in own_directories(other):
            if mine == theirs or mine in theirs.parents or theirs in mine.parents:
                return mine
    return None


def refuse_beside(runs: Runs, spec: LaunchSpec) -> None:
    """Raise Refused if another live run writes to a directory of `spec`, because the files there
    may be what it just saved.

    An engine or an evaluation that was started separately writes only logs, so it may run beside
    another run.
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
