"""A directory for the files of one input, in memory where the machine has that."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yield an empty directory, which is removed with all that is in it."""
    parent = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="bs4-fuzz-", dir=parent) as directory:
        yield Path(directory)
