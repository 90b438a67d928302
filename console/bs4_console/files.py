"""Small files of our own, replaced whole: a reader sees the old content or the new, never half."""

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

_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_component(name: str) -> bool:
    """Return whether what a pod calls something may be one part of a path here: no separator, no
    leading dot, not too long.
    """
    return len(name) <= ceilings.NAME_BYTES and _COMPONENT.fullmatch(name) is not None


def replace(path: Path, data: bytes) -> None:
    """Write `data` with mode 0600 and rename it over `path`. A symlink (dotfile managers) stays
    one: its target is replaced.
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
    """Hold off other consoles between reading `path` and replacing it (a lock file beside it; the
    lock ends with its holder).
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
    """Hold `lock` while the block lasts; RefusedError with the sentence `otherwise` when another
    process does.
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
    """A small file that holds secrets. UsageError when it is not there, or others can read it."""
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
