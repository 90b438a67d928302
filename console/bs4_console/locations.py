"""The directories in which the console keeps its own files on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import PlatformDirs

_DIRS = PlatformDirs("bs4-console", appauthor=False)


def config_dir() -> Path:
    """Return the directory on this machine for files that a person edits, such as pods.toml. The
    environment variable `BS4_CONFIG_DIR` overrides it. The directory need not exist.
    """
    return _override("BS4_CONFIG_DIR") or _DIRS.user_config_path


def data_dir() -> Path:
    """Return the directory on this machine for files that must not be lost: known_hosts, and what
    was saved of pods, which may no longer exist. The environment variable `BS4_DATA_DIR` overrides
    it.
    """
    return _override("BS4_DATA_DIR") or _DIRS.user_data_path


def state_dir() -> Path:
    """Return the directory on this machine for files that may be lost: settings of the screen and
    the console's own log. The environment variable `BS4_STATE_DIR` overrides it.
    """
    return _override("BS4_STATE_DIR") or _DIRS.user_state_path


def private(directory: Path) -> Path:
    """Create `directory` with mode 0700 if it does not exist, and return it. The mode of a
    directory that exists already is not changed.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _override(variable: str) -> Path | None:
    value = os.environ.get(variable)
    if value:
        return Path(value).expanduser()
    return None
