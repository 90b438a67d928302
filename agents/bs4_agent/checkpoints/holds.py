"""Who needs a step's files to stay: an upload holds the step while it reads, the disk guard takes
it alone before it moves it.

Locks of the kernel on small files in the agent's home: they end with their holder, however that
ends, so none is ever stale and no pid has to be believed. A holder takes its hold first and looks
whether the step is (still) complete afterwards.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bs4_agent.errors import Busy
from bs4_agent.paths import Home

_WHO_MOST = 200
#: Seconds that a hold waits for the guard, whose looks take the lock for an instant and whose moves
#: for some milliseconds.
_PATIENCE_S = 1.0


@contextmanager
def hold(home: Home, run: str, step: int, who: str) -> Iterator[None]:
    """Keep the guard away from `step`, beside other holders. `who` is for people ("upload to
    b2://...").

    Busy while the guard has it: it is being moved away, so take another one. OSError where the
    home's filesystem has no locks.
    """
    fd = _shared(home, run, step)
    try:
        os.pwrite(fd, who.encode()[:_WHO_MOST].ljust(_WHO_MOST), 0)
        yield
    finally:
        os.close(fd)


def _shared(home: Home, run: str, step: int) -> int:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        fd = _open(home, run, step)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # The guard takes the name away with the step: a lock on a file without a name keeps
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
    try:
        return os.fstat(fd).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


@contextmanager
def alone(home: Home, run: str, step: int) -> Iterator[str]:
    """Take `step` for its removal. Gives "" when nobody holds it, and nobody can until the block
    ends; otherwise who does.
    """
    fd = _open(home, run, step)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield _who(fd)
            return
        yield ""
        # Whoever opened it meanwhile holds a file without a name, and finds that the step is gone.
        _path(home, run, step).unlink(missing_ok=True)
    finally:
        os.close(fd)


def holder(home: Home, run: str, step: int) -> str:
    """Who holds `step`, "" when nobody does. A look that takes nothing for longer than itself."""
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
    return os.pread(fd, _WHO_MOST, 0).decode("utf-8", "replace").strip() or "somebody"


def _path(home: Home, run: str, step: int) -> Path:
    return home.holds(run) / f"step_{step}"


def _open(home: Home, run: str, step: int) -> int:
    path = _path(home, run, step)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
