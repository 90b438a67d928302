"""Small files that must be whole or absent, and looks at directories that may vanish."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Entries of one directory that are looked at: more than a run makes, few enough for a look every
#: few seconds.
LISTED_MOST = 2000


def write_json(path: Path, value: Mapping[str, Any], *, durable: bool = True) -> None:
    """Replace `path` in one rename, mode 0600. `durable`: also survive a power cut (an fsync of the
    file and of its directory).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as handle:
            json.dump(value, handle, separators=(",", ":"))
            handle.write("\n")
            handle.flush()
            if durable:
                os.fsync(fd)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in `path`, or None when there is no such file. A file of ours that is no JSON
    object is an error, not an absence.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    value = json.loads(text)
    if not isinstance(value, dict):
        # Wrong content, not a wrong argument.
        raise ValueError(f"{path} is not a JSON object; move it aside.")  # noqa: TRY004
    return value


def read_passing(path: Path) -> dict[str, Any] | None:
    """As `read_json`, for what was not written durably: a power cut may leave it empty, and what it
    told of has ended then anyway.
    """
    try:
        return read_json(path)
    except ValueError:
        return None


def listed(directory: Path) -> list[Path]:
    """What lies in a directory, LISTED_MOST at most; nothing where it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            found = []
            for entry in itertools.islice(entries, LISTED_MOST):
                found.append(directory / entry.name)
            return found
    except OSError:
        return []


def mtime(path: Path) -> float | None:
    """Wall second of the last change; None where there is nothing to look at."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None
