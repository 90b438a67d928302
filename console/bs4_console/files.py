"""Reading, locking and replacing the console's small files. A file is replaced as a whole: a reader
sees the old content or the new content and never a mixture.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from bs4_console import ceilings
from bs4_console.errors import RefusedError, UsageError
from bs4_console.locations import private

REPORT_SUFFIX = ".report.tar.gz"
"""How the name of a crash report's file ends."""
_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_component(name: str) -> bool:
    """Return True if `name`, which came from a pod, can safely be used as the name of a file or
    directory on this machine: it has no separator and no leading dot, and at most 200 characters
    (ceilings.NAME_BYTES).
    """
    return len(name) <= ceilings.NAME_BYTES and _COMPONENT.fullmatch(name) is not None


def replace(path: Path, data: bytes) -> None:
    """Replace the contents of the file `path` in one step: write `data` to a temporary file with
    mode 0600 and rename it to `path`. If `path` is a symbolic link, the file to which it points is
    replaced. Raises OSError if that fails.
    """
    target = path.resolve()
    private(target.parent)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock for the length of a `with` block, so that no other console on this machine
    changes the file `path` meanwhile. Wait, without a limit, until the consoles that hold it are
    done. The lock is a file beside `path`. It is released when the block or the process ends.
    """
    private(path.resolve().parent)
    lock = path.resolve().with_name(f".{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def alone(lock: Path, otherwise: str) -> Iterator[None]:
    """Hold the lock file `lock` for the length of a `with` block. If another process holds it,
    RefusedError is raised at once, with the sentence `otherwise` as its message.
    """
    private(lock.parent)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(otherwise, "Wait for its end, or end it.") from None
        yield
    finally:
        os.close(descriptor)


def private_text(path: Path) -> str:
    """Return the text of a file that holds secrets, at most its first 64 KiB. Raises UsageError if
    the file cannot be read, or if its mode lets other users read it.
    """
    try:
        with path.open("rb") as handle:
            if stat.S_IMODE(os.fstat(handle.fileno()).st_mode) & 0o077:
                raise UsageError(
                    f"{path} can be read by others, and it holds secrets.",
                    f"Run `chmod 600 {path}`.",
                )
            return handle.read(64 << 10).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "Check its name.") from error
