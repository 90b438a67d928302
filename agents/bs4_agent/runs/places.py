"""The directories that belong to a run, with every link resolved. Only these may be moved."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bs4_agent.paths import storage
from bs4_common.checkpoints.inventory import nearest
from bs4_common.descriptors import Border, open_directory
from bs4_common.errors import Refused
from bs4_common.mounts import mounted_below
from bs4_common.trainers.base import LaunchSpec, RunLayout, Trainer

if TYPE_CHECKING:
    from bs4_agent.runs.registry import Runs


def own_directories(layout: RunLayout) -> list[Path]:
    """Return the directories that hold only files of the run with this layout, such as its
    checkpoints, with every symbolic link resolved. A directory that lies inside another one of the
    list is left out.

    `output_dir` itself is never among them, because in current prime-rl other runs lie in it too.
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
    """Return the directories in which the logs of the run that `spec` describes lie, with every
    symbolic link resolved. A directory that lies inside another one of the list is left out.

    `output_dir` itself and directories that contain the run's checkpoints are never among them,
    even if a log lies there, because otherwise archiving the logs would archive every checkpoint.
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


def trash_for(path: Path, layout: RunLayout, run: str, *, stays: bool = True) -> Path:
    """Return the trash directory (a directory in which removed files are kept) of the run `run`
    into which `path` can be moved by one rename, so that nothing is copied. It is in the run's own
    directory `.bs4/RUN` beside `layout.output_dir`. For a path under another mount, such as a
    checkpoint directory on a disk of its own, it is in a directory `.bs4/RUN` under that mount,
    beside the directory that holds `path`. Two mounts of one disk are two, because no rename leads
    from one to the other. Nothing is created. `stays` False says that what is moved there is
    deleted soon, so that it does not matter if the trainer does it.

    Raises Refused if there is no such directory, because `path` is where a filesystem is mounted,
    or because the trainer would empty the directory at its next start. Raises OSError if `path`
    cannot be looked at.
    """
    source = path.parent.resolve() / path.name
    border = Border.at(source if os.path.lexists(source) else nearest(source))
    # A fresh start of prime-rl of 2026-01 empties the broadcasts too.
    wiped_at_start = (*layout.wiped, layout.broadcasts)
    for base in (storage(layout.output_dir, run), storage(source.parent, run)):
        emptied = any(wiped.resolve() in base.parents for wiped in wiped_at_start)
        if not (emptied and stays) and Border.at(nearest(base / "trash")) == border:
            return base / "trash"
    raise Refused(
        f"{path} lies on another filesystem than {storage(layout.output_dir, run)}, or under "
        "another mount, so moving it would mean copying it; move it aside by hand there."
    )


def refuse_unmovable(paths: Iterable[Path], layout: RunLayout, run: str) -> None:
    """Raise Refused if one of `paths` cannot be moved into the trash of the run `run` by a rename,
    so that a plan says it before anything is done (see `trash_for`), or if it is a link or
    something is mounted below it.
    """
    for path in paths:
        if path.is_symlink():
            raise Refused(
                f"{path} is a link, and what it points to may not be this run's; move it by hand."
            )
        if mount := mounted_below(path):
            raise Refused(f"{mount} is mounted there, so {path} cannot be moved; unmount it first.")
        trash_for(path, layout, run)


def refuse_foreign_way(path: Path, output_dir: Path) -> None:
    """Raise Refused if a directory from `output_dir` down to the one that holds `path` belongs to
    another user or is writable by another user, because a link that such a user put there would
    pass for the run's own. Raises OSError if one of these directories cannot be opened.
    """
    for place in path.parents:
        if place == output_dir or output_dir in place.parents:
            with open_directory(place.resolve(), ours=place.resolve()):
                pass


def same_run(one: RunLayout, other: RunLayout) -> bool:
    """Return True if both layouts, of two starts of one trainer, are of the same run. They are if
    they have the same run directory once symbolic links are resolved.

    `output_dir` is not compared, because several runs may lie in one, and because a person who
    starts a run again by hand may write its output_dir in another way.
    """
    return (one.told or one.run_dir).resolve() == (other.told or other.run_dir).resolve()


def overlapping(one: RunLayout, other: RunLayout) -> Path | None:
    """Return a directory to which both runs write, or None if there is none. It is one of the first
    run's directories that is also a directory of the second run, lies inside one, or contains one.
    """
    for mine in own_directories(one):
        for theirs in own_directories(other):
            if mine == theirs or mine in theirs.parents or theirs in mine.parents:
                return mine
    return None


def refuse_beside(runs: Runs, spec: LaunchSpec) -> None:
    """Raise Refused if another live run writes to a directory of the run that `spec` describes. The
    files there may be what that other run has just saved, so they must not be moved. Do nothing
    otherwise.

    A live inference server or evaluation that was started on its own writes only logs, so it is
    never a reason to refuse.
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
