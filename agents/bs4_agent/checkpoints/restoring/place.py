"""Finds the place of a restored step under the trainer that will resume it, and puts it there: one
rename for each directory, and nothing is overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bs4_agent.checkpoints.restoring.fetch import Target, sized
from bs4_agent.paths import storage
from bs4_agent.tree.changes import rename
from bs4_common.checkpoints.inventory import nearest, texts
from bs4_common.checkpoints.remote.source import RemoteSet
from bs4_common.checkpoints.sets import StepSet, set_of, step_sets, verify
from bs4_common.descriptors import Border, open_directory, real
from bs4_common.errors import PlanChanged, Refused
from bs4_common.trainers.base import LaunchSpec, Trainer

#: The order in which parts are put in place: optional parts first and the trainer's own last. While
#: that is missing, nobody takes the step for complete.
_ORDER = ("weights", "broadcast", "orchestrator", "trainer")
#: The directory in the staging directory for files that belong to no part.
_BESIDE = "beside"


@dataclass(frozen=True)
class Directory:
    """One step directory that a restore fills. Its files are fetched into `staged`, and one rename
    turns `staged` into `final`.
    """

    staged: Path
    final: Path


@dataclass(frozen=True)
class Placement:
    """Where every file of a restored checkpoint goes.

    `staging` is the directory into which everything is fetched. `directories` are the directories
    of the checkpoint, in the order in which they are renamed to their final place. `targets` are
    all files. `beside` is the final directory of the files that belong to no part of the
    checkpoint, such as configs; it is next to the run's trash (a directory in which removed files
    are kept). `configs` maps the name of each config, as the checkpoint's list of files (the
    manifest) has it, to its path in `beside`.
    """

    staging: Path
    directories: Sequence[Directory]
    targets: Sequence[Target]
    beside: Path
    configs: Mapping[str, Path]

    @property
    def extra(self) -> Sequence[Target]:
        """Return those files to fetch (of `targets`) that belong to no part of the checkpoint, such
        as configs. They go to the directory `beside`, apart from the checkpoint's own directories.
        """
        found = []
        for t in self.targets:
            if self.staging / _BESIDE in t.staged.parents:
                found.append(t)
        return found

    @property
    def finals(self) -> list[str]:
        """Return the paths, as strings, at which the directories of the restored step finally
        lie.
        """
        return texts(one.final for one in self.directories)


def placement(trainer: Trainer, spec: LaunchSpec, found: RemoteSet) -> Placement:
    """Return where every file of the stored step `found` goes on this pod. Raises Refused if the
    trainer has no place for a part of the step, or if that place is on another file system or
    under another mount than the staging directory, or belongs to another user or is writable by
    another user.
    """
    base, name = storage(spec.output_dir, spec.run), f"step_{found.step}"
    staging, beside = base / "restore" / f"{name}-{found.identity[:12]}", base / "restored" / name
    places = _places(trainer, spec)
    roots: dict[Path, Path] = {}
    targets = []
    # A single config goes where a person looks for it. Several configs keep their relative
    # positions, by which they include each other.
    configs = {path: beside / path for path in found.configs}
    if len(configs) == 1:
        configs = {path: beside / final.name for path, final in configs.items()}
    for file in found.files:
        part, inside = _part_of(found, file.path)
        if part is None or file.path in configs:
            below = configs.get(file.path, beside / file.path).relative_to(beside)
            targets.append(Target(file, staging / _BESIDE / below, beside / below))
            continue
        if part not in places:
            raise Refused(
                f"{spec.trainer} keeps no {part} part, which step {found.step} of "
                f"{found.run} has; restore it with its own trainer."
            )
        root, sub = places[part]
        _refuse_unusable(root, base)
        tree = roots.setdefault(root, staging / f"tree-{len(roots)}")
        below = Path(f"step_{found.step}", *PurePosixPath(sub).parts, *inside.parts)
        targets.append(Target(file, tree / below, root / below))
    order = sorted(
        roots,
        key=lambda root: max(_turn(part) for part, (where, _) in places.items() if where == root),
    )
    return Placement(
        staging,
        [Directory(roots[root] / name, root / name) for root in order],
        targets,
        beside,
        configs,
    )


def local(trainer: Trainer, spec: LaunchSpec, step: int) -> StepSet | None:
    """Return the checkpoint of training step `step` on this pod if it is complete and its files can
    be read without an error, otherwise None.
    """
    one = set_of(step_sets(trainer, spec), step)
    if one is not None and not verify(one):
        return one
    return None


def in_the_way(where: Placement) -> list[Path]:
    """Return the directories that lie where a fetched step directory, which still waits in the
    staging directory, must finally be. An empty directory counts too, because a trainer sees it.
    """
    found = []
    for one in where.directories:
        if os.path.lexists(one.staged) and os.path.lexists(one.final):
            found.append(one.final)
    return found


def clashing(where: Placement) -> list[Path]:
    """Return the directories that exist now where a step directory of this restore must finally be,
    whether or not that step directory is fetched already.
    """
    found = []
    for one in where.directories:
        if os.path.lexists(one.final):
            found.append(one.final)
    return found


def put(where: Placement, aside: Callable[[Path], Path]) -> list[Path]:
    """Rename each fetched step directory to its final place and return the new paths. `aside` is
    called with a path that occupies a final place, moves it away and returns its new path. After an
    interruption, the call can be repeated: only directories that are still in the staging directory
    are renamed.

    Raises PlanChanged if a directory is neither in the staging directory nor in its final place.
    Raises Refused if a directory in a path belongs to another user or is writable by another user,
    and OSError if the disk reports an error.
    """
    placed = []
    for one in where.directories:
        if not os.path.lexists(one.staged):
            if not one.final.is_dir():
                raise PlanChanged(f"{one.final} has gone since it was restored; restore it again.")
            continue
        if os.path.lexists(one.final):
            aside(one.final)
        # The trainer follows links above a step, so these are resolved.
        final = real(one.final)
        with open_directory(final.parent, make=0o755):
            rename(one.staged, final)
        placed.append(one.final)
    return placed


def put_beside(where: Placement) -> None:
    """Move the config, and other files that belong to no part of the checkpoint, from the staging
    directory to `where.beside`, which is next to the run's trash (a directory in which removed
    files are kept) and archived logs. A config that a person wrote is never touched. Raises Refused
    if a directory in a path belongs to another user or is writable by another user, and OSError if
    the disk reports an error.
    """
    for target in where.extra:
        if target.present is not None and target.staged.exists():
            with open_directory(target.present.parent, make=0o700):
                rename(target.staged, target.present)


def beside(where: Placement) -> bool:
    """Return True if the files that were stored with a checkpoint but belong to no part of it, such
    as configs, are all in the directory `where.beside` and have the sizes that they have in the
    object store.
    """
    return all(sized(target.present, target.file) for target in where.extra)


def above(trainer: Trainer, spec: LaunchSpec, step: int) -> list[int]:
    """Return the steps with a complete checkpoint on the pod that are newer than the restored
    `step`, lowest first; the list is empty if there are none. A launch that names no step would
    resume from the newest of them and not from `step`.
    """
    found = []
    for one in step_sets(trainer, spec):
        if one.complete and one.step > step:
            found.append(one.step)
    return found


def _places(trainer: Trainer, spec: LaunchSpec) -> Mapping[str, tuple[Path, str]]:
    """Return {part: (root, path below `root/step_N`)}, including the parts that a resume does not
    need.
    """
    layout = trainer.layout(spec)
    places = {"broadcast": (layout.broadcasts, "")}
    if layout.weights is not None:
        places["weights"] = (layout.weights, "")
    return places | {rule.name: (rule.root, rule.sub) for rule in trainer.parts(spec)}


def _turn(part: str) -> int:
    """Return the position of the part in the order in which parts are put in place."""
    if part in _ORDER:
        return _ORDER.index(part)
    return len(_ORDER)


def _part_of(found: RemoteSet, path: str) -> tuple[str | None, PurePosixPath]:
    """Return the part to which a file belongs (or None) and its path inside that part."""
    whole = PurePosixPath(path)
    for part, directory in sorted(found.parts.items(), key=lambda item: -len(item[1])):
        if PurePosixPath(directory) in whole.parents:
            return part, whole.relative_to(directory)
    return None, whole


def _refuse_unusable(root: Path, base: Path) -> None:
    """Raise Refused if one rename cannot move a file from `base` to `root`, or if `root` is in
    other people's hands.
    """
    if Border.at(nearest(root).resolve()) != Border.at(nearest(base).resolve()):
        raise Refused(
            f"{root} is on another filesystem than {base}, or under another mount, so nothing can "
            "be put there in one rename; give another --output-dir."
        )
    if root.is_dir():
        with open_directory(root.resolve(), ours=root.resolve()):
            pass
