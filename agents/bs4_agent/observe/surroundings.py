"""Single scans of what surrounds a run on the pod: its processes' limits and variables, dataset
caches, log archives, the names of the attempts before, and the kernel's out-of-memory killer.

Each function returns None if it cannot know. Of a process's environment only the names are kept,
and of one value only a digest.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from bs4_agent.containers import processes as containers
from bs4_agent.paths import storage
from bs4_agent.runs.places import log_directories
from bs4_common.digest import sha256
from bs4_common.failures.environment import DatasetCache, ProcessFacts
from bs4_common.files import LISTED_MOST, listed, mtime, read_passing, write_json
from bs4_common.runs.model import Attempt, Member, Run
from bs4_common.trainers.base import Trainer
from bs4_common.trainers.settings import FlatSettings

_COMPONENTS = (
    "launcher",
    "trainer",
    "rank",
    "orchestrator",
    "inference",
    "engine",
    "worker",
    "env-server",
)
_MAX_PROCESSES = 64
#: Names that a run must keep if it continues another run: the key of the lineage, and the settings
#: that hold the name.
_LINEAGE = {
    "model.name": ("model.name", "trainer.model.name"),
    "lora_name": ("orchestrator.lora_name", "orchestrator.model.lora.name"),
    "wandb.name": ("wandb.name", "monitors.wandb.name"),
}


def processes(members: Sequence[Member]) -> list[ProcessFacts]:
    """Return what /proc shows of the processes `members` of a run: limit and number of open files,
    names of variables, working directory. At most 64 are read, and only those with a known part in
    the run. Of a process that has ended, only the identity and the component are set.
    """
    chosen = (_process(member) for member in members if member.component in _COMPONENTS)
    return list(islice(chosen, _MAX_PROCESSES))


def _process(member: Member) -> ProcessFacts:
    """Return what /proc shows of one process. Only its identity and component are set if it has
    ended.
    """
    pid = member.identity.pid
    place = Path(f"/proc/{pid}")
    nofile, _ = containers.nofile(pid)
    names, wandb_id, shared = _environment(pid)
    cwd = open_files = None
    with contextlib.suppress(OSError):
        open_files = len(list((place / "fd").iterdir()))
    with contextlib.suppress(OSError):
        cwd = containers.here(pid, (place / "cwd").readlink())
    if not member.identity.alive():  # the pid may belong to another process by now
        return ProcessFacts(identity=member.identity, component=member.component)
    return ProcessFacts(
        identity=member.identity,
        component=member.component,
        nofile=nofile,
        open_files=open_files,
        names=names,
        wandb_id=wandb_id,
        shared=shared,
        cwd=cwd,
    )


def _environment(pid: int) -> tuple[frozenset[str] | None, str | None, bool]:
    """Return (variable names, digest of WANDB_RUN_ID, True if W&B's shared mode is on). The names
    are None if the environment cannot be read or the process wrote its title over it.
    """
    pairs = containers.environment(pid)
    if not pairs:
        return None, None, False
    names = frozenset(name.decode("utf-8", "replace") for name, _ in pairs)
    wandb, shared = None, False
    for name, value in pairs:
        if name == b"WANDB_RUN_ID" and value and wandb is None:
            wandb = sha256(value).hexdigest()[:16]
        elif name == b"WANDB_SHARED_MODE":
            shared = shared or value not in (b"", b"0")
    return names, wandb, shared


def dataset_caches(members: Sequence[Member]) -> list[DatasetCache] | None:
    """Find the directory in which the library `datasets` keeps its cache for the processes
    `members` of a run, by their environment, and return all entries there, one for each dataset,
    also of other runs. Return None if there is no such directory.
    """
    root = _datasets_root(members)
    if root is None:
        return None
    return dataset_caches_in(root)


def dataset_caches_in(root: Path) -> list[DatasetCache] | None:
    """Return all entries, finished or not, of one cache directory of the `datasets` library, or
    None if the directory does not exist. An entry is complete if it holds `dataset_info.json`; an
    unfinished one is named `<hash>.incomplete`.
    """
    if not root.is_dir():
        return None
    found: list[DatasetCache] = []
    pending, looked = [(root, 0)], 0
    while pending and looked < LISTED_MOST:
        directory, depth = pending.pop()
        for path in listed(directory):
            looked += 1
            if path.name.endswith(".incomplete"):
                found.append(DatasetCache(path, False, _newest(path)))
            elif (path / "dataset_info.json").exists():
                found.append(DatasetCache(path, True, mtime(path) or 0.0))
            elif depth < 4 and path.is_dir() and not path.is_symlink():
                pending.append((path, depth + 1))
    return found


#: The variables that name the place of the caches, and the directory below it.
_DATASETS = {
    b"HF_DATASETS_CACHE": "",
    b"HF_HOME": "datasets",
    b"HOME": ".cache/huggingface/datasets",
}


def _datasets_root(members: Sequence[Member]) -> Path | None:
    """Return the cache directory that HF_DATASETS_CACHE, HF_HOME or HOME of the run's own processes
    name, or None if no process can be read. These values are places, not secrets.
    """
    for member in members:
        values = dict(containers.environment(member.identity.pid) or ())
        for name, below in _DATASETS.items():
            if name in values:
                return containers.here(member.identity.pid, Path(os.fsdecode(values[name])) / below)
    return None


def logs_kept(run: Run, attempt: Attempt, trainer: Trainer) -> bool | None:
    """Return True if a log from before this attempt still exists, in the run's log directories or
    in the archive of logs on the pod. Return False if no log is older than this attempt, and None
    if there are no logs.

    A directory that has logs also proves this, if it has not changed since before the attempt. Its
    logs themselves may look new because another run still writes to them; but a start that deletes
    logs makes their directories anew.
    """
    layout = trainer.layout(run.spec)
    places = [*log_directories(trainer, run.spec), storage(layout.output_dir, run.name) / "logs"]
    seen = False
    for place in places:
        for root, _, files in os.walk(place):
            for name in (*files[:LISTED_MOST], "") if files else ():
                seen = True
                changed = mtime(Path(root) / name)
                if changed is not None and changed < attempt.started_t:
                    return True
    return False if seen else None


def lineage(
    directory: Path, config: FlatSettings | None
) -> tuple[dict[str, str] | None, dict[str, str] | None]:
    """Return the names that a run must keep when it is continued (those of the model, the adapter
    and the W&B run), as two dictionaries: this attempt's, and those of the newest earlier attempt
    that has saved any. This attempt's come from its settings `config`. They are also saved in
    `lineage.json` in `directory`, the attempt's directory, unless that file exists. The second is
    None if no earlier attempt has saved any. Both are None if `config` is None or there is no such
    directory.
    """
    if config is None or not directory.is_dir():
        return None, None
    mine = names(config)
    path = directory / "lineage.json"
    if not path.exists():
        write_json(path, mine, durable=False)
    return mine, names_before(directory.parent, int(directory.name))


def names_before(attempts: Path, number: int) -> dict[str, str] | None:
    """Return the names (model, adapter, W&B run) that the newest attempt before `number` has saved
    in its `lineage.json`. `attempts` is the directory with one directory for each attempt. Returns
    None if none of the last 19 attempts has saved any.
    """
    for earlier in range(number - 1, max(0, number - 20), -1):
        before = read_passing(attempts / str(earlier) / "lineage.json")
        if before is not None:
            return {str(k): str(v) for k, v in before.items()}
    return None


def names(config: FlatSettings) -> dict[str, str]:
    """Return the names in the settings that a run must keep when it is continued, by key:
    `model.name`, `lora_name` and `wandb.name`. A name that is not set is left out.
    """
    found = {}
    for name, keys in _LINEAGE.items():
        value = next((config[key] for key in keys if key in config), None)
        if value is not None:
            found[name] = str(value)
    return found


def oom_kills(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return how often the kernel's out-of-memory killer has acted in this process's control group
    since the group was made, or None if the kernel does not show it. `proc` and `groups` are the
    directories where procfs and the control groups are mounted.
    """
    lines = _lines(proc / "self" / "cgroup")
    own = next((line[3:] for line in lines if line.startswith("0::")), "/")
    for path in (
        groups / own.lstrip("/") / "memory.events",
        groups / "memory.events",
        groups / "memory" / "memory.oom_control",
    ):
        for line in _lines(path):
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.isdigit():
                return int(value)
    return None


def _lines(path: Path) -> list[str]:
    """Return the lines of a file, or an empty list if it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _newest(path: Path) -> float:
    """Return the newest mtime of a directory and its entries as a Unix time, or 0.0 if none can be
    read.
    """
    return max((m for one in (path, *listed(path)) if (m := mtime(one)) is not None), default=0.0)
