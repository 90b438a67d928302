"""The files of one complete step as they are uploaded: what a resume needs, under the names under
which a new pod restores them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_agent.runs.places import refuse_foreign_way
from bs4_agent.tree.changes import entries
from bs4_common.checkpoints import tracking
from bs4_common.checkpoints.launch_record import ConfigFiles, config_files
from bs4_common.checkpoints.remote.layout import checked
from bs4_common.checkpoints.sets import StepSet, resolved_configs
from bs4_common.descriptors import real
from bs4_common.errors import Refused
from bs4_common.failures.wandb_files import address
from bs4_common.trainers.base import LaunchSpec, RunLayout, Trainer

#: Parts that no generation needs, and that are as large as all others together; copied only on
#: request.
OPTIONAL = frozenset({"weights"})


@dataclass(frozen=True)
class LocalFile:
    """One file on the pod to upload. `path` contains no symbolic link. `name` is its name in the
    list of the checkpoint's files (the manifest): its path relative to the run's output directory.
    `size` is in bytes.
    """

    path: Path
    name: str
    size: int


@dataclass(frozen=True)
class LocalSet:
    """The files of one checkpoint step on the pod that are to be uploaded.

    `t` is the time at which the step was last written to, as a Unix time in seconds. `parts` maps
    the name of each part of the checkpoint to its directory, as the list of the uploaded files (the
    manifest) names it. `data` has the files of these parts, and `beside` the config files that lie
    in no part. `configs` describes the config files with which the run was started.
    """

    step: int
    t: float
    parts: Mapping[str, str]
    data: Sequence[LocalFile]
    beside: Sequence[LocalFile]
    configs: ConfigFiles

    @property
    def config(self) -> str:
        """Return the name, relative to the run's output directory, of the config file with which
        the run was started. Return "" if it is not known.
        """
        return self.configs.main

    @property
    def files(self) -> list[LocalFile]:
        """Return all files of this checkpoint, with the config files that lie beside it."""
        return [*self.data, *self.beside]

    @property
    def paths(self) -> dict[str, Path]:
        """Return the path on the pod of each file of this checkpoint, by the file's name relative
        to the run's output directory.
        """
        return {file.name: file.path for file in self.files}

    @property
    def bytes(self) -> int:
        """Return the size of all files of this checkpoint together, in bytes."""
        return sum(file.size for file in self.files)


def local_set(
    trainer: Trainer, spec: LaunchSpec, one: StepSet, *, weights: bool = False
) -> LocalSet:
    """Return the files to upload of the checkpoint `one`, which must be complete. With `weights`,
    parts that no resume needs are included. Raises Refused if there are no files, if a part is
    outside the output directory or contains something other than files and directories, or if one
    of its directories belongs to another user or is writable by another user.
    """
    layout = trainer.layout(spec)
    needed = {rule.name for rule in trainer.parts(spec) if rule.required}
    if weights:
        needed |= OPTIONAL
    parts: dict[str, str] = {}
    data: dict[str, LocalFile] = {}
    for name, part in sorted(one.parts.items()):
        if name not in needed or not part.whole:
            continue
        parts[name] = _relative(part.path, layout)
        refuse_foreign_way(part.path, layout.output_dir)
        for file in _below(part.path.resolve(), parts[name]):
            data[file.name] = file  # a part inside another part is uploaded once
    if not data:
        raise Refused(
            f"Step {one.step} of {spec.run} has no files to upload; look at its directories."
        )
    beside, configs = _configs(spec, layout)
    extra = [file for file in beside if file.name not in data]
    return LocalSet(
        one.step,
        max(one.parts[name].t for name in parts),
        parts,
        [data[name] for name in sorted(data)],
        extra,
        configs,
    )


def wandb_ids(trainer: Trainer, spec: LaunchSpec) -> dict[str, str]:
    """Return {side: W&B run id} for the sides "trainer" and "orchestrator", from each side's own
    log. If a log has no id (offline, or not yet started), the id in the launch is used; a side
    without any id is left out.
    """
    found = tracking.given(spec)
    for source in trainer.log_sources(spec):
        if (
            source.source in ("trainer", "orchestrator")
            and (tracked := address(source.path, source.source)) is not None
        ):
            found[source.source] = tracked.id
    return found


def _relative(path: Path, layout: RunLayout) -> str:
    """Return the path relative to the output directory. Raises Refused if it is outside."""
    try:
        return checked(path.relative_to(layout.output_dir).as_posix())
    except ValueError:
        raise Refused(
            f"{path} lies outside the run's output directory {layout.output_dir}, so no "
            "other pod could put it back."
        ) from None


def _below(directory: Path, name: str) -> list[LocalFile]:
    """Return every file below `directory`, which is without links. Raises Refused for a link or a
    device, because the copy would lack it or hold what lies elsewhere on this pod, and if a
    directory is in other people's hands.
    """
    found: list[LocalFile] = []
    for entry in entries(directory):
        if not entry.regular:
            raise Refused(
                f"{entry.path} is no regular file, so this step cannot be copied whole; "
                "replace it by what it stands for."
            )
        inner = f"{name}/{entry.path.relative_to(directory).as_posix()}"
        found.append(LocalFile(entry.path, checked(inner), entry.status.st_size))
    return found


def _configs(spec: LaunchSpec, layout: RunLayout) -> tuple[list[LocalFile], ConfigFiles]:
    """Return the configs without which nobody knows what to resume: as given, and as the launcher
    resolved them. A person may give a link to a config; a launcher writes none.
    """
    found: dict[str, LocalFile] = {}
    for path in resolved_configs(layout):
        if path.is_file() and not path.is_symlink():
            name = _relative(path, layout)
            found[name] = LocalFile(real(path), name, path.stat().st_size)
    given = config_files(spec, layout.output_dir)
    for name, path in given.files.items():
        found.setdefault(name, LocalFile(path.resolve(), name, path.stat().st_size))
    return list(found.values()), given
