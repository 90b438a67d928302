"""Single scans of what surrounds a run: its settings, its processes' limits, W&B directories,
dataset caches, adapters and log archives.

Each function returns None if it cannot know. Of a process's environment only the names are kept,
and of one value only a digest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bs4_agent.containers import processes as containers
from bs4_agent.detect import wandb_files
from bs4_agent.detect.environment import (
    Adapter,
    DatasetCache,
    EnvironmentVersion,
    ProcessFacts,
    RunEnvironment,
    WandbDirectory,
)
from bs4_agent.digest import sha256
from bs4_agent.paths import storage
from bs4_agent.runs.files import LISTED_MOST, listed, mtime, read_passing, write_json
from bs4_agent.runs.model import Attempt, Member, Run
from bs4_agent.runs.places import log_directories
from bs4_agent.trainers import settings, verl_settings
from bs4_agent.trainers.base import LaunchSpec, RunLayout, Trainer
from bs4_agent.trainers.settings import UNKNOWN_CONFIG, BadConfig, parse_arguments

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
#: `# env: owner/name@1.2.3`, `# environment: name==1.2.3` and `# env_version = "1.2.3"` in the
#: comments at the top of a config.
_NAMED = re.compile(
    r"^#\s*env(?:ironment)?\s*[:=]\s*([A-Za-z0-9_./-]{1,100}?)(?:@|==)v?(\d[\w.]{0,30})",
    re.IGNORECASE | re.MULTILINE,
)
_VERSION = re.compile(
    r"^#\s*env(?:ironment)?[_ -]version\s*[:=]\s*\"?v?(\d[\w.]{0,30})", re.IGNORECASE | re.MULTILINE
)
_HEADER = 8192


def flat_settings(spec: LaunchSpec, argv: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the settings of a run by dotted key, for example `{"ckpt.interval": 20}`. `argv` is
    the command that was really started; the options in it replace the config file's values. An
    empty table has the value True, because a bare `[ckpt]` switches checkpoints on. Return None if
    the config is unknown or cannot be read.
    """
    if spec.trainer == "verl":
        # Hydra's words count, with or without a config file behind them.
        return verl_settings.flat(spec, argv) or None
    if spec.config == UNKNOWN_CONFIG:
        return None
    try:
        data = settings.settings_of(spec, watching=True).data
        options = parse_arguments(argv).options
    except BadConfig:
        return None
    flat = flatten(data)
    for key, value in options:
        if value is not True or not any(name.startswith(key + ".") for name in flat):
            flat[key] = value
    return flat or None


def of_files(spec: LaunchSpec, layout: RunLayout) -> tuple[dict[str, Any] | None, RunEnvironment]:
    """Return (settings by dotted key, RunEnvironment) of a finished run, as far as its directory
    shows them: the configs that its launcher wrote, the trainer's refusal of a config, adapters and
    W&B directories. The settings are None if no config was written.
    """
    flat: dict[str, Any] = {}
    configs = layout.run_dir / "configs"
    if spec.trainer == "verl":
        flat = verl_settings.overrides(verl_settings.recorded(layout.run_dir))
    for component in ("trainer", "orchestrator", "inference"):
        flat.update(flatten(read_passing(configs / f"{component}.json") or {}, component + "."))
    try:
        flat.update(flatten(settings.load_toml(configs / "orch.toml"), "orchestrator."))
    except BadConfig:
        pass  # the current generation writes none, and 2026-01 may have died before it did
    rejected, rejected_t = text_file(configs / "error.txt")
    known = flat or None
    return known, RunEnvironment(
        looked_t=time.time(),
        wandb=wandb_directories(spec, layout),
        adapters=adapters(spec, known),
        rejected=rejected,
        rejected_t=rejected_t,
    )


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings as one level with dotted keys: `{"a": {"b": 1}, "c": [{"d": 2}]}`
    becomes `{"a.b": 1, "c.0.d": 2}`. `prefix` is put before each key. Lists of plain values stay
    lists, an empty table becomes True, and values that are None are left out.
    """
    flat: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat.update(flatten(value, name + ".") if value else {name: True})
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for index, item in enumerate(value):
                flat.update(flatten(item, f"{name}.{index}."))
        elif value is not None and value != "None":
            flat[name] = value
    return flat


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


def wandb_directories(spec: LaunchSpec, layout: RunLayout) -> list[WandbDirectory]:
    """Return the local W&B directories of a run, oldest first, from the places where W&B puts them.
    For those of the newest attempt, `step` is read, too.
    """
    found = wandb_files.directories(wandb_roots(spec, layout))
    for one in wandb_files.together(found):
        found[found.index(one)] = dataclasses.replace(one, step=wandb_files.newest_step(one))
    return found


def wandb_roots(spec: LaunchSpec, layout: RunLayout) -> list[Path]:
    """Return the directories called `wandb` in which W&B may keep this run's data: in the working
    directory, the output directory and the run's own directory. They need not exist.
    """
    places = dict.fromkeys((spec.cwd, layout.output_dir, layout.run_dir))
    return [place / "wandb" for place in places]


def dataset_caches(members: Sequence[Member]) -> list[DatasetCache] | None:
    """Return the entries of the cache of the `datasets` library that the processes `members` of a
    run use, or None if the cache cannot be found or does not exist.
    """
    root = _datasets_root(members)
    if root is None:
        return None
    return dataset_caches_in(root)


def dataset_caches_in(root: Path) -> list[DatasetCache] | None:
    """Return the entries of one cache directory of the `datasets` library, or None if the directory
    does not exist. An entry is complete if it holds `dataset_info.json`; an unfinished one is named
    `<hash>.incomplete`.
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


def environment_versions(
    spec: LaunchSpec, config: Mapping[str, Any] | None
) -> list[EnvironmentVersion] | None:
    """Return the training environments whose versions the comments at the top of the run's config
    name, each with the version that is installed in `.venv` of the working directory. `config` has
    the run's settings. Return None if the config file is unknown or cannot be read.
    """
    if spec.config == UNKNOWN_CONFIG:
        return None
    try:
        with spec.config_path.open("rb") as handle:
            header = handle.read(_HEADER).decode("utf-8", "replace")
    except OSError:
        return None
    pins: dict[str, str] = dict(_NAMED.findall(header))
    known = config or {}
    first = known.get("orchestrator.env.0.id") or known.get(
        "orchestrator.train.source.0.env.taskset.id"
    )
    if not pins and first is not None and (match := _VERSION.search(header)):
        pins[str(first)] = match.group(1)
    found = []
    for name, version in pins.items():
        found.append(EnvironmentVersion(name, version, *_installed(spec.cwd, name)))
    return found


def _installed(cwd: Path, name: str) -> tuple[str | None, Path]:
    """Return (version of a package in `cwd/.venv`, the path that shows it), from its dist-info
    directory. The version is None if the package is not installed. Names are compared as packaging
    normalises them.
    """
    wanted = re.sub(r"[-_.]+", "_", name.rsplit("/", 1)[-1]).lower()
    for packages in sorted((cwd / ".venv" / "lib").glob("python3*/site-packages")):
        for path in listed(packages):
            title, _, version = path.name.removesuffix(".dist-info").rpartition("-")
            if path.name.endswith(".dist-info") and re.sub(r"[-_.]+", "_", title).lower() == wanted:
                return version, path
    return None, cwd / ".venv"


def adapters(spec: LaunchSpec, config: Mapping[str, Any] | None) -> list[Adapter] | None:
    """Return the LoRA adapters that the settings in `config` load from a path on the pod, each with
    the names of its missing files. Return None if `config` is None.
    """
    if config is None:
        return None
    found = []
    for key, value in config.items():
        named = key.rsplit(".", 1)[-1] in ("lora_adapter_path", "adapter_path")
        if not named or not isinstance(value, str) or not value:
            continue
        path = spec.cwd / value
        missing = ["adapter_config.json"] if not (path / "adapter_config.json").exists() else []
        weights = path / "adapter_model.safetensors"
        if not weights.exists() and not weights.with_suffix(".bin").exists():
            missing.append(weights.name)
        found.append(Adapter(path, missing))
    return found


def text_file(path: Path) -> tuple[str | None, float]:
    """Return (the first 4096 bytes of a file as text, its mtime as a Unix time in seconds), or
    (None, 0.0) if the file cannot be read.
    """
    try:
        with path.open("rb") as handle:
            return handle.read(4096).decode("utf-8", "replace"), os.fstat(handle.fileno()).st_mtime
    except OSError:
        return None, 0.0


def logs_kept(run: Run, attempt: Attempt, trainer: Trainer) -> bool | None:
    """Return True if a log from before this attempt still exists, in the run's log directories or
    in the archive of logs on the pod. Return False if no log is older than this attempt, and None
    if there are no logs.
    """
    layout = trainer.layout(run.spec)
    places = [*log_directories(trainer, run.spec), storage(layout.output_dir, run.name) / "logs"]
    seen = False
    for place in places:
        for root, _, files in os.walk(place):
            for name in files[:LISTED_MOST]:
                seen = True
                changed = mtime(Path(root) / name)
                if changed is not None and changed < attempt.started_t:
                    return True
    return False if seen else None


def lineage(
    directory: Path, config: Mapping[str, Any] | None
) -> tuple[dict[str, str] | None, dict[str, str] | None]:
    """Return (names of this attempt, names of the newest earlier attempt that recorded any). They
    are the names that a run must keep when it is continued: model, adapter and W&B run, from the
    settings in `config`. A value is None if it is unknown. This attempt's names are saved in
    `lineage.json` in `directory`, the attempt's directory, unless they are there already.
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
    in its `lineage.json`. `attempts` is the directory with one directory for each attempt. Return
    None if none of the last 19 attempts has saved any.
    """
    for earlier in range(number - 1, max(0, number - 20), -1):
        before = read_passing(attempts / str(earlier) / "lineage.json")
        if before is not None:
            return {str(k): str(v) for k, v in before.items()}
    return None


def names(config: Mapping[str, Any]) -> dict[str, str]:
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
