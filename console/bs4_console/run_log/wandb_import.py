"""Finds W&B runs that were recorded offline, below a directory of this machine or on a pod, and
makes the exact command that uploads each of them.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_common.ledger import RunView
from bs4_console.errors import NotApplicableError
from bs4_console.pods.paths import ask_paths
from bs4_console.pods.session import PodSession

#: wandb names the directories offline-run-<date>_<time>-<id>. Each contains the record
#: run-<id>.wandb, beside which `wandb sync` leaves run-<id>.wandb.synced.
_OFFLINE = re.compile(r"offline-run-\d{8}_\d{6}-(?P<id>[A-Za-z0-9_-]+)")


@dataclass(frozen=True)
class OfflineRun:
    """A W&B run that was recorded without a network, on this machine or on a pod. `path` is its
    directory on the machine that has it. `bytes` is the size of its record file. It is None for a
    run on a pod, because the agent only lists names there. `synced` is True if the run was uploaded
    before. `argv` is the command, as a list of words, that uploads it to W&B if it is run on this
    machine. For a run on another machine, the command opens a shell there.
    """

    id: str
    path: str
    bytes: int | None
    synced: bool
    argv: list[str]


def find(root: Path) -> list[OfflineRun]:
    """Return every offline W&B run below the directory `root`. They are sorted by the time in W&B's
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
                    argv=["wandb", "sync", str(directory.absolute())],
                )
            )
    return found


async def of_pod(live: PodSession, run: RunView, shell: Sequence[str]) -> list[OfflineRun]:
    """Ask a pod for the offline W&B runs (recorded without a network) of its run `run`, and return
    them, oldest first. They are searched for in the run's working directory, its output directory
    and the directories directly in that. Nothing is opened; the agent only lists names.

    `shell` is the command that opens a shell on the pod, or () if the pod is this machine. The
    `argv` of each result runs the upload through that shell. The upload uses the pod's own login
    and the `wandb` of the run's environment if there is one. Raises RemoteError if a directory
    cannot be listed.
    """
    program = "wandb"
    if (await ask_paths(live, f"{run.cwd}/.venv")).names:
        own = (await ask_paths(live, f"{run.cwd}/.venv/bin/wandb")).names
        program = next((name for name in own if name == f"{run.cwd}/.venv/bin/wandb"), program)
    places = [f"{run.cwd}/", f"{run.output_dir}/"]
    below = (await ask_paths(live, f"{run.output_dir}/")).names
    places += [name for name in below if name.endswith("/") and name.isprintable()]
    found = {}
    for place in dict.fromkeys(places):
        if f"{place}wandb/" not in (await ask_paths(live, f"{place}wandb")).names:
            continue
        for directory in (await ask_paths(live, f"{place}wandb/offline-run-")).names:
            named = _OFFLINE.fullmatch(directory.rstrip("/").rpartition("/")[2])
            if named is None:
                continue
            record = f"{directory}run-{named['id']}.wandb"
            files = (await ask_paths(live, record)).names
            if record not in files:
                continue
            path = directory.rstrip("/")
            upload = [program, "sync", path]
            found[path] = OfflineRun(
                id=named["id"],
                path=path,
                bytes=None,
                synced=f"{record}.synced" in files,
                argv=[*shell, shlex.join(upload)] if shell else upload,
            )
    return sorted(found.values(), key=lambda one: Path(one.path).name)


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
