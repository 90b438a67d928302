"""Finds W&B runs that were recorded offline below a directory, and makes the exact command that
uploads each of them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bs4_console.errors import NotApplicableError

#: wandb names the directories offline-run-<date>_<time>-<id>. Each contains the record
#: run-<id>.wandb, beside which `wandb sync` leaves run-<id>.wandb.synced.
_OFFLINE = re.compile(r"offline-run-\d{8}_\d{6}-(?P<id>[A-Za-z0-9_-]+)")


@dataclass(frozen=True)
class OfflineRun:
    """A W&B run that was recorded on this machine without a network. `path` is its directory,
    `bytes` the size of its record file, and `synced` is True if it was uploaded before.
    """

    id: str
    path: str
    bytes: int
    synced: bool

    @property
    def argv(self) -> list[str]:
        """Return the command, as a list of words, that uploads the run to W&B."""
        return ["wandb", "sync", self.path]


def find(root: Path) -> list[OfflineRun]:
    """Find every offline W&B run below the directory `root`. They are sorted by the time in W&B's
    directory names, oldest first. Directories without a record file are skipped; the list is empty
    if nothing is found.
    """
    found = []
    for directory in sorted(root.rglob("offline-run-*"), key=lambda path: path.name):
        named = _OFFLINE.fullmatch(directory.name)
        if named is None:
            continue
        record = directory / f"run-{named['id']}.wandb"
        if record.is_file():
            found.append(
                OfflineRun(
                    id=named["id"],
                    path=str(directory.absolute()),
                    bytes=record.stat().st_size,
                    synced=record.with_name(f"{record.name}.synced").exists(),
                )
            )
    return found


def sync(run: OfflineRun) -> int:
    """Upload one offline run with the `wandb` program and login of this machine, and return the
    program's exit code. Raises NotApplicableError if wandb is not installed.
    """
    program = shutil.which(run.argv[0])
    if program is None:
        raise NotApplicableError(
            "wandb is not installed on this machine.",
            "Install it: `pip install 'bs4-console[wandb]'`.",
        )
    # wandb's output goes to stderr. stdout is for our own output, which may be JSON.
    return subprocess.run(
        [program, *run.argv[1:]], stdin=subprocess.DEVNULL, stdout=2, check=False
    ).returncode
