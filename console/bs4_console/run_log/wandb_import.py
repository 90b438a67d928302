"""W&B runs that were recorded offline: found below a directory, and the exact command that uploads
each.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bs4_console.errors import NotApplicableError

#: wandb names them offline-run-<date>_<time>-<id>; in each is run-<id>.wandb, beside which `wandb
#: sync` leaves run-<id>.wandb.synced.
_OFFLINE = re.compile(r"offline-run-\d{8}_\d{6}-(?P<id>[A-Za-z0-9_-]+)")


@dataclass(frozen=True)
class OfflineRun:
    """`bytes`: size of its record; `argv`: what uploads it."""

    id: str
    path: str
    bytes: int
    synced: bool

    @property
    def argv(self) -> list[str]:
        return ["wandb", "sync", self.path]


def find(root: Path) -> list[OfflineRun]:
    """Every offline run below `root`, oldest first by W&B's own naming. Directories without a
    record are left out.
    """
    found = []
    for directory in sorted(root.rglob("offline-run-*"), key=lambda path: path.name):
        named = _OFFLINE.fullmatch(directory.name)
        record = None
        if named:
            record = directory / f"run-{named['id']}.wandb"
        if named and record and record.is_file():
            synced = record.with_name(record.name + ".synced").exists()
            found.append(
                OfflineRun(named["id"], str(directory.absolute()), record.stat().st_size, synced)
            )
    return found


def sync(run: OfflineRun) -> int:
    """Upload one run with the wandb of this machine and its own login; its exit code.
    NotApplicableError where there is none.
    """
    program = shutil.which(run.argv[0])
    if program is None:
        raise NotApplicableError(
            "wandb is not installed on this machine.",
            "Install it: `pip install 'bs4-console[wandb]'`.",
        )
    # Its words go to stderr: stdout is for ours, which may be JSON.
    return subprocess.run(
        [program, *run.argv[1:]], stdin=subprocess.DEVNULL, stdout=2, check=False
    ).returncode
