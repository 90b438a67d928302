"""The directory on this machine in which practice pods live. It is gone when they are, and what a
killed demo has left is cleared by the next one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bs4_common.identity import Identity
from bs4_common.mounts import mounted_below

PREFIX = "bs4-"
#: The file that says which processes a directory belongs to.
RECORD = "owners.json"
_RECORD_BYTES = 1 << 16


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """Make a new directory for practice pods, and yield its path for the length of a `with` block.
    At the end it is removed with all its files. Before, directories that earlier calls have left
    are removed, if their processes are dead (see `clear`). Raises OSError if no directory can be
    made.
    """
    clear(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as directory:
        path = Path(directory)
        belongs(path, os.getpid())
        yield path


def belongs(directory: Path, pid: int) -> None:
    """Write into the record of `directory` that it belongs to the process `pid` too, by its pid and
    start time. It is not cleared while that process lives. Does nothing if the process has ended.
    """
    own = Identity.of(pid)
    if own is None:
        return
    file, known = directory / RECORD, []
    if file.exists():
        known = json.loads(file.read_text())
    new = directory / f"{RECORD}.new"
    new.write_text(json.dumps([*known, {**own.as_dict(), "host": os.uname().nodename}]))
    new.replace(file)


def clear(parent: Path) -> list[Path]:
    """Remove the directories of earlier demos in `parent` that nobody ended, because their
    processes were killed. Return those that were removed.

    A directory is removed only if it is this user's, has a record, each process in the record is
    dead, and no filesystem is mounted below it. Any other is left as it is.
    """
    removed = []
    for path in sorted(parent.glob(f"{PREFIX}*")):
        if _is_left(path):
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


def _is_left(path: Path) -> bool:
    """Return True if the directory `path` is one of ours whose processes are all dead."""
    own = Identity.of(os.getpid())
    try:
        if path.is_symlink() or not path.is_dir() or path.stat().st_uid != os.getuid():
            return False
        with (path / RECORD).open("rb") as file:
            known = json.loads(file.read(_RECORD_BYTES))
        owners = [Identity.from_dict(one) for one in known]
        hosts = {one["host"] for one in known}
        mount = mounted_below(path)
    except (OSError, ValueError, KeyError, TypeError):
        return False  # no record of ours: somebody else's, or just being made
    # Another machine may share the directory, and a process there be alive.
    if own is None or mount or hosts != {os.uname().nodename}:
        return False
    for owner in owners:
        # Of a process in another pid namespace it cannot be known whether it lives.
        if owner.alive() or (owner.boot_id == own.boot_id and owner.pidns != own.pidns):
            return False
    return True
