"""Where the console keeps its own files on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import PlatformDirs

_DIRS = PlatformDirs("bs4-console", appauthor=False)


def config_dir() -> Path:
    """What a person edits: pods.toml. `BS4_CONFIG_DIR` overrides it."""
    return _override("BS4_CONFIG_DIR") or _DIRS.user_config_path


def data_dir() -> Path:
    """What must not be lost: known_hosts, the mirrored streams of pods that may be gone.
    `BS4_DATA_DIR` overrides it.
    """
    return _override("BS4_DATA_DIR") or _DIRS.user_data_path


def state_dir() -> Path:
    """What is nice to have again: view settings, the console's own log. `BS4_STATE_DIR` overrides
    it.
    """
    return _override("BS4_STATE_DIR") or _DIRS.user_state_path


def private(directory: Path) -> Path:
    """`directory`, made with mode 0700 when it is new (an existing one keeps the mode its owner
    gave it).
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _override(variable: str) -> Path | None:
    value = os.environ.get(variable)
    if value:
        return Path(value).expanduser()
    return None
