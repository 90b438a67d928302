"""The files of one complete step as they are uploaded: what a resume needs, under the names that a
new pod puts them back by.
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
from bs4_agent.checkpoints.sets import StepSet
from bs4_agent.detect.wandb_files import address
from bs4_agent.errors import Refused
from bs4_agent.trainers.base import LaunchSpec, RunLayout, Trainer

#: Parts that are needed by no generation and as large as all others together: only on request.
OPTIONAL = frozenset({"weights"})


@dataclass(frozen=True)
class LocalFile:
    """`name`: as in a manifest, relative to the output directory."""

    path: Path
    name: str
    size: int


@dataclass(frozen=True)
class LocalSet:
    """`t`: wall second at which the set was last written to. `parts` as in a manifest; `data` the
    files of these parts, `beside` configs. `configs`: those among `beside` (or `data`) that the run
    was started with.
    """

    step: int
    t: float
    parts: Mapping[str, str]
    data: Sequence[LocalFile]
    beside: Sequence[LocalFile]
    configs: ConfigFiles

    @property
    def config(self) -> str:
        """The one that the run was started with, "" when it is not known."""
        return self.configs.main

    @property
    def files(self) -> list[LocalFile]:
        return [*self.data, *self.beside]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def local_set(
    trainer: Trainer, spec: LaunchSpec, one: StepSet, *, weights: bool = False
) -> LocalSet:
    """`one`, which must be complete. Refused for a part outside the output directory, or one that
    holds what is no file.
    """
    layout = trainer.layout(spec)
    needed = {rule.name for rule in trainer.parts(spec) if rule.required} | (
        OPTIONAL if weights else set()
    )
    parts: dict[str, str] = {}
    data: dict[str, LocalFile] = {}
    for name, part in sorted(one.parts.items()):
        if name not in needed or not part.whole:
            continue
        parts[name] = _relative(part.path, layout)
        for file in _below(part.path, parts[name]):
            data[file.name] = file  # a part inside another one is uploaded once
    if not data:
        raise Refused(
            f"Step {one.step} of {spec.run} has no files to upload; look at its directories."
        )
    beside, configs = _configs(spec, layout)
    extra = [file for file in beside if file.name not in data]
    t = max(one.parts[name].t for name in parts)
    return LocalSet(one.step, t, parts, [data[name] for name in sorted(data)], extra, configs)


def wandb_ids(trainer: Trainer, spec: LaunchSpec) -> dict[str, str]:
    """W&B's run ids by side: as each side's own log says them; where it says none (offline, not yet
    started), as its launch gave them.
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
    try:
        return checked(path.relative_to(layout.output_dir).as_posix())
    except ValueError:
        raise Refused(
            f"{path} lies outside the run's output directory {layout.output_dir}, so no "
            "other pod could put it back."
        ) from None


def _below(directory: Path, name: str) -> list[LocalFile]:
    """Every regular file, links to files followed. A link to a directory or a device would be
    missing in the copy: Refused.
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
    """The configs without which nobody knows what to resume: as given, and as the launcher resolved
    them.
    """
    found: dict[str, LocalFile] = {}
    resolved = layout.run_dir / "configs"
    for path in sorted([*resolved.glob("*.json"), *resolved.glob("*.toml")]):
        if path.is_file():
            name = _relative(path, layout)
            found[name] = LocalFile(path, name, path.stat().st_size)
    given = config_files(spec, layout.output_dir)
    for name, path in given.files.items():
        found.setdefault(name, LocalFile(path, name, path.stat().st_size))
    return list(found.values()), given
