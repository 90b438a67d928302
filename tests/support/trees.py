"""The files of a directory that other processes write to and remove from meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def below(root: Path) -> Iterator[Path]:
    """Yield every path below `root`, also of hidden files. What vanishes meanwhile is left out;
    `Path.rglob` raises FileNotFoundError then.
    """
    for directory, folders, files in os.walk(root, onerror=_pass_if_gone):
        yield from (Path(directory, name) for name in (*folders, *files))


def _pass_if_gone(error: OSError) -> None:
    """Raise any error but that a directory vanished between its listing and its visit."""
    if not isinstance(error, FileNotFoundError):
        raise error
