"""Removes steps for a retention order: each is first renamed to a place that no trainer reads, and
only then deleted. Nothing is removed that a process has open or mapped.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_agent.containers import processes as containers
from bs4_agent.playbooks.pod_actions import Target
from bs4_agent.runs.places import trash_for
from bs4_agent.runs.registry import Runs
from bs4_agent.runs.trash import below, own_path
from bs4_agent.tree.changes import refuse_foreign_tree, remove, rename
from bs4_common.checkpoints.sets import StepSet
from bs4_common.descriptors import open_directory
from bs4_common.errors import Refused, StepFailed
from bs4_common.ids import is_key
from bs4_common.mounts import mounted_below
from bs4_common.runs.model import Run


@dataclass(frozen=True)
class Move:
    """One directory of a checkpoint that is to be moved into the run's trash (a directory in which
    removed files are kept). `source` is its path with links resolved and `trash` a trash directory
    on the same file system. The directory goes to `trash`/KEY/`name`, where KEY is the key of the
    action that moves it.
    """

    step: int
    source: Path
    trash: Path
    name: Path


def moves(runs: Runs, run: Run, sets: Sequence[StepSet]) -> list[Move]:
    """Return how the checkpoints `sets` would be moved to the trash of `run`, from which they are
    deleted later: one Move for each of their directories. Nothing is moved yet. Raises Refused if a
    directory is not the run's own, is a link, is a file system of its own, or belongs to another
    user or is writable by another user.
    """
    layout = runs.trainer(run.spec).layout(run.spec)
    found = []
    for one in sets:
        for directory in one.directories:
            source = own_path(runs, run, directory)
            try:
                refuse_foreign_tree(source)
            except OSError as error:
                raise Refused(
                    f"{error.filename or source} cannot be looked through ({error.strerror}), so "
                    f"{source} was left where it is; look at it by hand."
                ) from error
            trash = trash_for(source, layout, run.name, stays=False)
            found.append(Move(one.step, source, trash, below(directory, layout.output_dir)))
    return found


def trashes(wanted: Sequence[Move]) -> list[Path]:
    """Return the trash directories into which `wanted` moves, without repeats."""
    return list(dict.fromkeys(one.trash for one in wanted))


def move(wanted: Sequence[Move], key: str) -> None:
    """Move all directories in `wanted` into their trash, in a directory named after the action's
    key `key`. A directory that the trainer has deleted in the meantime is skipped. Raises
    StepFailed if the file system reports an error or something is mounted below a directory, and
    Refused if a directory belongs to another user or is writable by another user; directories that
    were moved by then stay in the trash (a directory in which removed files are kept).
    """
    for one in wanted:
        target = one.trash / key / one.name
        if mount := mounted_below(one.source):
            raise StepFailed(
                f"{mount} is mounted below {one.source}, and what lies there is not the "
                "run's; unmount it first."
            )
        try:
            with open_directory(target.parent, ours=one.trash.parents[1], make=0o700):
                rename(one.source, target)
        except FileNotFoundError:
            continue  # the trainer has deleted it
        except OSError as error:
            raise StepFailed(
                f"{one.source} could not be moved to {target} ({error.strerror}); it was "
                "left where it is."
            ) from error


def free(trashes: Sequence[Path], key: str) -> int:
    """Delete for good what the action `key` has moved into these trash directories, and return the
    number of bytes that this freed. The call can be repeated after an interruption. Raises
    StepFailed if the disk reports an error, and Refused if `key` is no action's key, a path is not
    the trash of a run, or a directory belongs to another user or is writable by another user.
    """
    if not is_key(key):
        raise Refused(f"{key!r} is no action's key; nothing was deleted.")
    freed = 0
    for trash in trashes:
        if trash.name != "trash" or trash.parent.parent.name != ".bs4":
            raise Refused(f"{trash} is no trash of a run; nothing was deleted there.")
        # Only above `.bs4` may a person have put a link.
        place = trash.parents[2].resolve().joinpath(*trash.parts[-3:])
        try:
            freed += remove(place / key, ours=place.parents[1])
        except OSError as error:
            raise StepFailed(
                f"{trash / key} could not be deleted ({error.strerror}); delete it by hand."
            ) from error
    return freed


def targets(wanted: Sequence[Move], sets: Sequence[StepSet]) -> list[Target]:
    """Return one Target (the record of a thing that a step of an action changes) for each directory
    in `wanted`, in the form in which the journal has it before the directories are moved. `sets`
    are the checkpoints to which the directories belong.
    """
    sizes = {}
    for one in sets:
        for part in one.parts.values():
            sizes[part.path.resolve()] = part.bytes

    def of(source: Path) -> int:
        return sum(size for path, size in sizes.items() if source == path or source in path.parents)

    return [{"path": str(one.source), "bytes": of(one.source)} for one in wanted]


def readers(directories: Collection[Path], processes: Iterable[int]) -> dict[Path, int]:
    """Return {directory: pid} for each of `directories` that is in use: the process `pid`, one of
    `processes`, has a file in it open or mapped into memory. A directory that no process uses is
    left out.

    A mapped file counts even if its descriptor was closed after the mapping, because programs read
    weights in this way. The check costs some milliseconds for a hundred processes, so it is meant
    for the moment before a directory is moved, not for every scan. Files of other users' processes
    cannot be seen.
    """
    found: dict[Path, int] = {}
    for pid in processes:
        if pid == os.getpid() or not directories:
            continue
        wanted = _called(pid, directories)
        used = _open_below(pid, wanted) | _mapped_below(pid, wanted)
        for prefix in used:
            found.setdefault(wanted[prefix], pid)
    return found


def _called(pid: int, directories: Collection[Path]) -> dict[str, Path]:
    """Return the directories by the prefixes under which the kernel reports a process's files: our
    paths, and for a process in a container also the container's paths.
    """
    wanted = {f"{directory}/": directory for directory in directories}
    try:
        view = containers.View.of(pid)
    except containers.HiddenFiles:
        view = None  # such a process hides its open files too
    for directory in directories if view is not None else ():
        if view is not None and (there := view.inside(directory)) is not None:
            wanted[f"{there}/"] = directory
    return wanted


def _open_below(pid: int, wanted: Mapping[str, Path]) -> set[str]:
    """Return the prefixes below which the process has a file open."""
    try:
        # A Path for every entry would double the cost.
        descriptors = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
    except OSError:
        return set()
    found: set[str] = set()
    for descriptor in descriptors:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}") + "/"  # noqa: PTH115  as above
        except OSError:
            continue
        found.update(prefix for prefix in wanted if target.startswith(prefix))
    return found


def _mapped_below(pid: int, wanted: Mapping[str, Path]) -> set[str]:
    """Return the prefixes below which the process has a file mapped."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as handle:
            maps = handle.read()
    except OSError:
        return set()
    return {prefix for prefix in wanted if b" " + os.fsencode(prefix) in maps}
