"""Finds the checkpoints of a run, which of them are complete on every side (for prime-rl, trainer
and orchestrator), and what is above a step.

Nothing in prime-rl checks that a checkpoint is complete: both generations resolve "latest" by the
name of the directory. Here a checkpoint counts if the marker that its writer writes last is there,
and also the content that the marker promises: a marker alone proves nothing.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bs4_common.checkpoints.content import wanting
from bs4_common.files import open_regular
from bs4_common.trainers.base import Checkpoint, LaunchSpec, PartRule, RunLayout, Trainer

_STEP = re.compile(r"(?:global_)?step_(\d{1,12})")
#: The most bytes of a pointer file, which holds one number.
_POINTER_BYTES = 64

#: The size, newest mtime and lack of each part that has its markers, by its directory and that
#: directory's mtime. A finished checkpoint is never written again, and to walk a full run on a
#: network disk every few seconds would cost more than everything else that the agent does.
_sizes: dict[Path, tuple[int, tuple[int, float, str]]] = {}
_SIZES_MAX = 4096
_SETTLED_S = 60.0


def inventory(trainer: Trainer, spec: LaunchSpec) -> list[Checkpoint]:
    """Return the checkpoints of the run that `spec` describes on the pod's disk, oldest step first.
    A step is included if any part of it exists, complete or not.

    The call is cheap enough to be repeated every few seconds: the files that the trainer writes
    last, which show that a part is complete, are checked each time; sizes are measured again only
    if they can have changed.
    """
    return scan(trainer.parts(spec))


def scan(rules: Sequence[PartRule]) -> list[Checkpoint]:
    """Return the checkpoints in the directories that `rules` name, oldest step first; each rule
    describes one part of a checkpoint. A directory that vanishes during the scan (the trainer's own
    keep_last deletes it) counts as absent.
    """
    roots: dict[Path, dict[int, Path]] = {}
    named: dict[Path, int | None] = {}
    for rule in rules:
        roots[rule.root] = step_directories(rule.root)
        if rule.pointer is not None:
            named[rule.pointer] = pointed(rule.pointer)
    steps = sorted(set().union(*roots.values()))
    return [_checkpoint(step, rules, roots, named) for step in steps]


def pointed(pointer: Path) -> int | None:
    """Return the training step that is written in the file `pointer`, in which a trainer names its
    newest checkpoint (verl's latest_checkpointed_iteration.txt). Return None if the file does not
    exist, and -1 if it names no step (it is empty after a kill or a full disk during its writing).
    """
    try:
        with open_regular(pointer) as handle:
            said = handle.read(_POINTER_BYTES).strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return int(said) if said.isdigit() else -1


def nearest(path: Path) -> Path:
    """Return `path` if it exists, otherwise the nearest directory above it that exists."""
    return next(place for place in (path, *path.parents) if place.exists())


def written_by(layout: RunLayout) -> list[Path]:
    """Return the directories that the run with this layout writes to, that of its output first."""
    places = [
        layout.output_dir,
        layout.run_dir,
        layout.trainer_checkpoints,
        layout.orchestrator_checkpoints,
        layout.broadcasts,
        layout.rollouts,
    ]
    if layout.weights is not None:
        places.append(layout.weights)
    return places


def one_on_each_disk(places: Iterable[Path]) -> dict[int, Path]:
    """Return the first of `places` on each filesystem, by the filesystem's device number, in their
    order. For one that does not exist, the nearest existing directory above it stands. One that
    cannot be looked at is left out.
    """
    found: dict[int, Path] = {}
    for place in places:
        try:
            there = nearest(place)
            found.setdefault(there.stat().st_dev, there)
        except (OSError, ValueError, StopIteration):
            continue  # gone in between, a broken mount, or a name that no disk takes
    return found


def texts(paths: Iterable[Path]) -> list[str]:
    """Return each of the paths as a string, in the same order."""
    return [str(path) for path in paths]


def complete_steps(checkpoints: Iterable[Checkpoint]) -> list[int]:
    """Return the steps of these checkpoints that are complete on every side (for prime-rl, trainer
    and orchestrator), oldest first.
    """
    return sorted(c.step for c in checkpoints if c.complete)


def newest_resumable(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the newest checkpoint that is complete on every side (for prime-rl, trainer and
    orchestrator), so that a run can resume from it, or None if there is no such checkpoint.
    """
    return max((c for c in checkpoints if c.complete), key=lambda c: c.step, default=None)


def step_directories(root: Path) -> dict[int, Path]:
    """Return {N: path} of every directory `root/step_N` (verl: `root/global_step_N`), complete or
    not. A step directory that is a link to another disk counts too, because the trainers follow it.
    The result is empty if `root` does not exist.
    """
    found: dict[int, Path] = {}
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                match = _STEP.fullmatch(entry.name)
                if match is not None and entry.is_dir():
                    found[int(match.group(1))] = root / entry.name
    except (FileNotFoundError, NotADirectoryError):
        pass
    return found


def _checkpoint(
    step: int,
    rules: Sequence[PartRule],
    roots: Mapping[Path, Mapping[int, Path]],
    named: Mapping[Path, int | None],
) -> Checkpoint:
    """Return the checkpoint of one step, complete or not."""
    parts: dict[str, Path] = {}
    missing: list[str] = []
    lacking: dict[str, str] = {}
    directories: dict[str, Path] = {}
    total, newest = 0, 0.0
    for rule in rules:
        directory = roots[rule.root].get(step)
        if directory is not None and directory not in directories.values():
            directories[rule.name] = directory
        part = None if directory is None else directory / rule.sub
        if part is None or not part.is_dir():
            if rule.required:
                missing.append(rule.name)
            continue
        size, mtime, why = measure(rule.name, part, rule.markers)
        if rule.pointer is not None:
            why = why or _behind(
                rule.pointer,
                named[rule.pointer],
                step,
                newest_step=max(roots[rule.root]),
                directory=roots[rule.root][step],
            )
        if why and rule.required:
            missing.append(rule.name)
            lacking[rule.name] = why
        parts[rule.name] = part
        total, newest = total + size, max(newest, mtime)
    return Checkpoint(
        step=step,
        parts=parts,
        missing=missing,
        complete=not missing,
        bytes=total,
        newest_mtime=newest,
        directories=directories,
        lacking=lacking,
    )


def _behind(
    pointer: Path, named: int | None, step: int, *, newest_step: int, directory: Path
) -> str:
    """Return why the pointer file says that this step was not finished, or "".

    An empty pointer file was being written for the newest step, which then does not count. Without
    a pointer file, a step counts if the state of its data loader (`data.pt`, `data_0.pt`) is there,
    which is the last file before the pointer. Older writers have neither of them, and their steps
    count.
    """
    if named is None:
        if any(directory.glob("data*.pt")) or not any(directory.parent.glob("*step_*/data*.pt")):
            return ""
        return "no data.pt"
    if named < 0:
        if step == newest_step:
            return f"{pointer.name} names no step"
        return ""
    if step > named:
        return f"{pointer.name} names step {named}"
    return ""


def measure(name: str, part: Path, markers: Sequence[str]) -> tuple[int, float, str]:
    """Return (size in bytes, newest modification time as a Unix time in seconds, reason) of one
    part of a checkpoint. `name` is the part's name, for example "trainer", and `part` its
    directory. `markers` are the names of its marker files, which the trainer writes when the part
    is complete.

    The reason says why the part is incomplete, and is "" if it is complete. The marker files are
    checked each time; the other files are measured again only if they can have changed. Raises
    OSError if the disk fails.
    """
    try:
        stamp = part.stat().st_mtime_ns
    except FileNotFoundError:
        return 0, 0.0, "gone"
    why = lacks_marker(part, markers)
    known = _sizes.get(part)
    if not why and known is not None and known[0] == stamp:
        return known[1]
    size, newest = size_of(part)
    measured = size, newest, why or wanting(name, part)
    # The result is cached only after a while: a marker appears when its writing begins, and a file
    # that grows in a subdirectory does not change this directory's mtime.
    if not why and newest and time.time() - newest > _SETTLED_S:
        if len(_sizes) >= _SIZES_MAX:
            _sizes.clear()
        _sizes[part] = (stamp, measured)
    return measured


def lacks_marker(part: Path, markers: Sequence[str]) -> str:
    """Return the first of the files `markers` (which the trainer writes when a part is complete)
    that the directory `part` lacks, as a phrase ("no STABLE"), or "" if all exist.
    """
    for marker in markers:
        if not (part / marker).exists():
            return f"no {marker}"
    return ""


def size_of(directory: Path) -> tuple[int, float]:
    """Return (bytes of all files below `directory`, newest modification time as a Unix time in
    seconds). A symbolic link is counted as a link, because what it points to does not belong to the
    run.
    """
    total, newest = 0, 0.0
    pending = [str(directory)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                        continue
                    status = entry.stat(follow_symlinks=False)
                    total += status.st_size
                    newest = max(newest, status.st_mtime)
        except FileNotFoundError:
            continue
    return total, newest
