"""The files of one complete step as they are uploaded: what a resume needs, under the names under
which a new pod restores them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_agent.checkpoints import tracking
from bs4_agent.checkpoints.launch_record import ConfigFiles, config_files
from bs4_agent.checkpoints.remote.layout import checked
from bs4_agent.checkpoints.sets import StepSet, resolved_configs
from bs4_agent.detect.wandb_files import address
from bs4_agent.errors import Refused
from bs4_agent.trainers.base import LaunchSpec, RunLayout, Trainer

#: Parts that no generation needs, and that are as large as all others together; copied only on
#: request.
OPTIONAL = frozenset({"weights"})


@dataclass(frozen=True)
class LocalFile:
    """One file to upload. `name` is its name in a manifest, relative to the output directory."""

    path: Path
    name: str
    size: int


@dataclass(frozen=True)
class LocalSet:
    """The files of one step to upload.

    `t` is the wall-clock time at which the set was last written to. `parts` maps a part to its path
    in the manifest. `data` has the files of these parts, `beside` the configs. `configs` names the
    config files with which the run was started; they are in `beside` or `data`.
    """

    step: int
    t: float
    parts: Mapping[str, str]
    data: Sequence[LocalFile]
    beside: Sequence[LocalFile]
    configs: ConfigFiles

    @property
    def config(self) -> str:
        """Return the name of the config with which the run was started, or "" if unknown."""
        return self.configs.main

    @property
    def files(self) -> list[LocalFile]:
        """Return all files of the set."""
        return [*self.data, *self.beside]

    @property
    def paths(self) -> dict[str, Path]:
        """Return the path of every file by its name."""
        return {file.name: file.path for file in self.files}

    @property
    def bytes(self) -> int:
        """Return the size of all files, in bytes."""
        return sum(file.size for file in self.files)


def local_set(
    trainer: Trainer, spec: LaunchSpec, one: StepSet, *, weights: bool = False
) -> LocalSet:
    """Return the files of the set `one`, which must be complete. `weights` includes parts that no
    resume needs. Raises Refused if a part is outside the output directory or holds something that
    is no file.
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
        for file in _below(part.path, parts[name]):
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
    """Return the W&B run ids by side, as each side's own log has them. If a log has none (offline,
    or not yet started), the id from the launch is used.
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
    """Return every regular file below `directory`; links to files are followed. Raises Refused for
    a link to a directory or a device, because the copy would lack it.
    """
    found: list[LocalFile] = []
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            path, inner = Path(entry.path), f"{name}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                found += _below(path, inner)
                continue
            status = entry.stat()
            if not stat.S_ISREG(status.st_mode):
                raise Refused(
                    f"{path} is no regular file, so this step cannot be copied whole; "
                    "replace it by what it stands for."
                )
            found.append(LocalFile(path, checked(inner), status.st_size))
    return found


def _configs(spec: LaunchSpec, layout: RunLayout) -> tuple[list[LocalFile], ConfigFiles]:
    """Return the configs without which nobody knows what to resume: as given, and as the launcher
    resolved them.
    """
    found: dict[str, LocalFile] = {}
    for path in resolved_configs(layout):
        if path.is_file():
            name = _relative(path, layout)
            found[name] = LocalFile(path, name, path.stat().st_size)
    given = config_files(spec, layout.output_dir)
    for name, path in given.files.items():
        found.setdefault(name, LocalFile(path, name, path.stat().st_size))
    return list(found.values()), given
