"""What the files of a run say about it: its settings, W&B directories, training environments and
adapters. Each function returns None if it cannot know.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bs4_common.failures import wandb_files
from bs4_common.failures.environment import (
    Adapter,
    EnvironmentVersion,
    RunEnvironment,
    WandbDirectory,
)
from bs4_common.files import foreign_object, listed, open_regular
from bs4_common.trainers import registry, settings
from bs4_common.trainers.base import LaunchSpec, RunLayout
from bs4_common.trainers.settings import (
    UNKNOWN_CONFIG,
    BadConfig,
    FlatSettings,
    Settings,
    parse_arguments,
)

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


def flat_settings(spec: LaunchSpec, argv: Sequence[str] = ()) -> FlatSettings | None:
    """Return the settings of a run by dotted key, for example `{"ckpt.interval": 20}`. `argv` is
    the command that was really started; the options in it replace the config file's values. An
    empty table has the value True, because a bare `[ckpt]` switches checkpoints on. Return None if
    the config is unknown or cannot be read.
    """
    if (of_words := registry.get(spec.trainer).traits.flat) is not None:
        # Hydra's words count, with or without a config file behind them.
        return of_words(spec, argv) or None
    if spec.config == UNKNOWN_CONFIG:
        return None
    try:
        flat = dict(settings.settings_of(spec, watching=True).flat())
        options = parse_arguments(argv).options
    except BadConfig:
        return None
    for key, value in options:
        if value is not True or not any(name.startswith(key + ".") for name in flat):
            flat[key] = value
    return FlatSettings(flat) or None


def of_files(spec: LaunchSpec, layout: RunLayout) -> tuple[FlatSettings | None, RunEnvironment]:
    """Return (settings by dotted key, RunEnvironment) of a finished run, as far as its directory
    shows them: the configs that its launcher wrote, the trainer's refusal of a config, adapters and
    W&B directories. The settings are None if no config was written.
    """
    flat: dict[str, Any] = {}
    configs = layout.run_dir / "configs"
    if (recorded := registry.get(spec.trainer).traits.recorded) is not None:
        flat.update(recorded(layout.run_dir))
    for component in ("trainer", "orchestrator", "inference"):
        written = Settings(foreign_object(configs / f"{component}.json"))
        flat.update(written.flat(component + "."))
    try:
        flat.update(settings.load_toml(configs / "orch.toml").flat("orchestrator."))
    except BadConfig:
        pass  # the current generation writes none, and 2026-01 may have died before it did
    rejected, rejected_t = text_file(configs / "error.txt")
    known = FlatSettings(flat) or None
    return known, RunEnvironment(
        looked_t=time.time(),
        wandb=wandb_directories(spec, layout),
        adapters=adapters(spec, known),
        rejected=rejected,
        rejected_t=rejected_t,
    )


def wandb_directories(spec: LaunchSpec, layout: RunLayout) -> list[WandbDirectory]:
    """Return the local W&B directories of a run, oldest first, from the places where W&B puts them.
    Only in those of the newest attempt, the field `step` is filled in.
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


def environment_versions(
    spec: LaunchSpec, config: FlatSettings | None
) -> list[EnvironmentVersion] | None:
    """Return the training environments whose versions the comments at the top of the run's config
    name, each with the version that is installed in `.venv` of the working directory. `config` has
    the run's settings. Return None if the config file is unknown or cannot be read.
    """
    if spec.config == UNKNOWN_CONFIG:
        return None
    try:
        with open_regular(spec.config_path) as handle:
            header = handle.read(_HEADER).decode("utf-8", "replace")
    except OSError:
        return None
    pins: dict[str, str] = dict(_NAMED.findall(header))
    known = config or FlatSettings()
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


def adapters(spec: LaunchSpec, config: FlatSettings | None) -> list[Adapter] | None:
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
        with open_regular(path) as handle:
            return handle.read(4096).decode("utf-8", "replace"), os.fstat(handle.fileno()).st_mtime
    except OSError:
        return None, 0.0
