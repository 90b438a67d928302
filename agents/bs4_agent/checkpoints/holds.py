"""Holds on the files of a step: an upload holds the step while it reads, and the disk guard takes
it alone before it moves it.

The holds are kernel locks on small files in the agent's home. They end with their holder, however
it ends, so no hold is ever stale and no pid has to be trusted. A holder takes its hold first and
then checks that the step is still complete.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bs4_agent.paths import Home
from bs4_common.errors import Busy

_WHO_MOST = 200
#: Seconds that a hold waits for the guard, which takes the lock for an instant to check and for
#: some milliseconds to move.
_PATIENCE_S = 1.0


@contextmanager
def hold(home: Home, run: str, step: int, who: str) -> Iterator[None]:
    """Protect the checkpoint of training step `step` of `run` against removal for the length of a
    `with` block. The program that removes old checkpoints (retention) then leaves it alone. Several
    callers may hold the same step. `who` is a text for people that says what holds it ("upload to
    b2://...").

    Raises Busy if the checkpoint is being removed at this moment; choose a newer step then. Raises
    OSError if the file system of the agent's home has no locks.
    """
    fd = _shared(home, run, step)
    try:
        os.pwrite(fd, who.encode()[:_WHO_MOST].ljust(_WHO_MOST), 0)
        yield
    finally:
        os.close(fd)


def _shared(home: Home, run: str, step: int) -> int:
    """Return a shared lock's descriptor for the step. Raises Busy after `_PATIENCE_S` seconds."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        fd = _open(home, run, step)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # The guard deletes the lock file with the step, and a lock on a deleted file keeps
            # nobody out.
            if _same(fd, _path(home, run, step)):
                return fd
        except BlockingIOError:
            pass
        os.close(fd)
        if time.monotonic() > deadline:
            raise Busy(
                f"Step {step} of {run} is being removed under its keep-last order; take a "
                "newer one."
            )
        time.sleep(0.05)


def _same(fd: int, path: Path) -> bool:
    """Return True if the descriptor is open on the file that `path` names now."""
    try:
        return os.fstat(fd).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


@contextmanager
def alone(home: Home, run: str, step: int) -> Iterator[str]:
    """Try to lock the checkpoint of training step `step` of `run` for the length of a `with` block,
    so that it can be removed. The block gets "" if the lock was obtained; until the block ends, no
    other program can `hold` the step. If another program holds it already, the block gets the text
    that says who; the step must then not be removed.
    """
    fd = _open(home, run, step)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield _who(fd)
            return
        yield ""
        # A process that has opened the file in the meantime holds a deleted file, and finds that
        # the step is gone.
        _path(home, run, step).unlink(missing_ok=True)
    finally:
        os.close(fd)


def holder(home: Home, run: str, step: int) -> str:
    """Return who holds the checkpoint `step` of `run`, which means that it must not be removed now:
    the text `who` that was given to `hold`. Return "" if nobody holds it. This only looks, and
    holds nothing itself.
    """
    try:
        fd = os.open(_path(home, run, step), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _who(fd)
    finally:
        os.close(fd)
    return ""


def _who(fd: int) -> str:
    """Return the text that the holder has written into the file."""
    return os.pread(fd, _WHO_MOST, 0).decode("utf-8", "replace").strip() or "somebody"


def _path(home: Home, run: str, step: int) -> Path:
    """Return the path of the step's lock file."""
    return home.holds(run) / f"step_{step}"


def _open(home: Home, run: str, step: int) -> int:
    """Return a descriptor of the step's lock file, which is created if necessary."""
    path = _path(home, run, step)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
