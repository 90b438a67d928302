"""The run's trash. What is in the way is moved aside by one rename. It is never deleted and can be
put back.
"""

from __future__ import annotations

import os
from pathlib import Path

from bs4_agent.runs.places import (
    log_directories,
    own_directories,
    refuse_beside,
    refuse_foreign_way,
    trash_for,
)
from bs4_agent.runs.registry import Runs
from bs4_agent.tree.changes import rename
from bs4_common.clock import stamp
from bs4_common.descriptors import Border, at, open_directory, open_file
from bs4_common.errors import Refused, StepFailed
from bs4_common.files import read_json, write_json
from bs4_common.ids import is_key, ulid
from bs4_common.runs.model import Run


def trash(
    runs: Runs, name: str, path: Path, *, stamp_as: str = "", everything: bool = False
) -> Path:
    """Move `path` into the trash of the run `name` and return its new path. The trash is a
    directory on the pod in which removed files are kept: `path` becomes `trash/<stamp>/<path below
    output_dir>` in the directory `.bs4/RUN` beside the run's output_dir. A path under another
    mount goes to such a directory there (see `places.trash_for`).

    The stamp is `stamp_as`, the key of an action, so that the same action, if it is repeated, finds
    that the path was moved already. If `stamp_as` is empty, the stamp is a new ULID (a unique id).
    `everything` permits moving the newest complete checkpoint, for a fresh start that a person has
    confirmed with the run's name.

    Raises Refused if the run is live or shares a directory with a live run, or if the path is
    outside the run's own directories after its symbolic links are resolved. Raises Refused also for
    a symbolic link, for a path where a filesystem is mounted, for a directory that another user
    owns or may write to, and, without `everything`, for the newest complete checkpoint or a
    directory around it. Raises StepFailed if the filesystem refuses the move. Raises UnknownRun if
    there is no such run.
    """
    run = runs.get(name)
    layout = runs.trainer(run.spec).layout(run.spec)
    if stamp_as and not is_key(stamp_as):
        raise Refused(f"{stamp_as!r} is no action's key; {path} was left where it is.")
    area = trash_for(path, layout, name) / (stamp_as or ulid())
    target = area / below(path, layout.output_dir)
    if not os.path.lexists(path) and os.path.lexists(target):
        return target
    source = _permitted(runs, run, path, everything=everything)
    if os.path.lexists(target):
        raise Refused(
            f"{target} is there already, so {path} was left where it is; look at both, then "
            "move one aside by hand."
        )
    try:
        with open_directory(target.parent, ours=area.parents[2], make=0o700) as go_to:
            if Border.of(go_to) != Border.at(source):
                raise Refused(
                    f"{path} lies on another filesystem than {area}, or under another mount, so "
                    "moving it would mean copying it; move it aside by hand there."
                )
            # The note is written before the move, so that the path can be put back after a crash.
            note = at(go_to, _ticket(target).name)
            write_json(note, {"original": str(source), "run": name, **stamp()})
            rename(source, target)
    except OSError as error:
        raise StepFailed(
            f"{path} could not be moved to {target} ({error.strerror}); nothing was lost. "
            "Correct that, then try again."
        ) from error
    return target


def restore(trashed_path: Path) -> Path:
    """Move what lies at `trashed_path`, where `trash` has put it, back to its original path, and
    return that path. If it was moved back in an earlier call, nothing is done and the original path
    is returned.

    Raises Refused if something else is at the original path, if no note in the trash (a directory
    in which removed files are kept) says what the original path was, or if the original directory
    has become a symbolic link.
    """
    try:
        with open_file(_ticket(trashed_path)) as note:
            original = Path((read_json(at(note)) or {})["original"])
    except FileNotFoundError:
        raise Refused(
            f"{trashed_path} has no note of where it came from; move it by hand."
        ) from None
    if not os.path.lexists(trashed_path) and os.path.lexists(original):
        return original
    if os.path.lexists(original):
        raise Refused(f"{original} exists again, so nothing was put back; move it aside first.")
    try:
        with open_directory(original.parent, make=0o755):
            rename(trashed_path, original)
    except NotADirectoryError as error:
        raise Refused(
            f"{error.filename} has become a link, so nothing was put back; move it by hand."
        ) from error
    return original


def _permitted(runs: Runs, run: Run, path: Path, *, everything: bool) -> Path:
    """Return the path with its links resolved if it may be moved. Raises Refused otherwise."""
    if run.live:
        raise Refused(f"{run.name} is running and may write to {path}; stop it first.")
    refuse_beside(runs, run.spec)
    source = own_path(runs, run, path)
    if not everything:
        _spare_the_newest(runs, run, source)
    return source


def own_path(runs: Runs, run: Run, path: Path) -> Path:
    """Return `path` with its symbolic links resolved if it is one of the run's own directories or
    lies in one. Raises Refused if it does not. Raises Refused too if `path` is relative, is a
    symbolic link itself, does not exist, is in the run's trash (a directory in which removed files
    are kept), or is reached through a directory that belongs to another user or that another user
    may write to.

    This function does not check whether the run is live.
    """
    if ".." in path.parts or not path.is_absolute():
        raise Refused(f"{path} is not a plain absolute path; name the directory itself.")
    if path.is_symlink():
        raise Refused(
            f"{path} is a link; name the directory that it points to, if that is to move."
        )
    source = path.resolve()
    if not os.path.lexists(source):
        raise Refused(f"There is no {path}; nothing was moved. Make a new plan.")
    trainer = runs.trainer(run.spec)
    layout = trainer.layout(run.spec)
    output_dir = layout.output_dir.resolve()
    places = [*own_directories(layout), *log_directories(trainer, run.spec)]
    own = any(place == source or place in source.parents for place in places)
    if not own or source == output_dir or source in output_dir.parents:
        raise Refused(
            f"{path} is not one of {run.name}'s own directories (it is really {source}); "
            "only those are moved."
        )
    if any(_in_storage(source, place) for place in places):
        raise Refused(f"{path} is in the trash already.")
    refuse_foreign_way(path, layout.output_dir)
    return source


def _in_storage(source: Path, place: Path) -> bool:
    """Return True if `source` is in a directory `.bs4` below the run's directory `place`."""
    return source.is_relative_to(place) and ".bs4" in source.relative_to(place).parts


def _spare_the_newest(runs: Runs, run: Run, source: Path) -> None:
    """Raise Refused if `source` holds the newest complete checkpoint or lies in it."""
    newest = max(
        (c for c in runs.trainer(run.spec).checkpoints(run.spec) if c.complete),
        key=lambda c: c.step,
        default=None,
    )
    if newest is None:
        return
    for part in [*newest.parts.values(), *newest.directories.values()]:
        real = part.resolve()
        if real == source or real in source.parents or source in real.parents:
            raise Refused(
                f"{source} holds step {newest.step}, the newest complete checkpoint of "
                f"{run.name}; that one is never moved."
            )


def below(path: Path, output_dir: Path) -> Path:
    """Return the relative path under which `path` lies in the trash (a directory in which removed
    files are kept) after it was moved there. It is the part of the path below `output_dir`. A path
    that is not in `output_dir`, such as a checkpoint directory on another disk, gets its whole path
    below `elsewhere/`.
    """
    parent = path.parent.resolve()
    real, base = parent / path.name, output_dir.resolve()
    if base in real.parents:
        return real.relative_to(base)
    return Path("elsewhere", *real.parts[1:])


def _ticket(target: Path) -> Path:
    """Return the path of the note that says where a moved path came from."""
    return target.with_name(f".{target.name}.bs4-moved.json")
