"""Copies an open file into an open directory, and proves that the copy is the same."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from bs4_common.digest import sha256

_BLOCK = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Copied(NamedTuple):
    """A copy that was read back: its size in bytes, and its SHA-256 in hexadecimal digits."""

    size: int
    sha256: str


def copy(source: int, directory: int, name: str) -> Copied | None:
    """Copy the open file `source` to `name` in the open directory `directory`, sync the copy to the
    disk, read it back and compare. `source` and `directory` are file descriptors. Return the size
    and the SHA-256 of the copy.

    Bytes that are added to the file during the call are not copied. If bytes that were copied have
    changed during the call, return None; there is then no file `name`. Raises OSError if the
    filesystem reports an error.
    """
    half = f".{name}.half"
    try:
        with os.fdopen(os.open(half, _NEW, 0o600, dir_fd=directory), "wb") as writer:
            size = 0
            while block := os.pread(source, _BLOCK, size):
                writer.write(block)
                size += len(block)
            writer.flush()
            os.fsync(writer.fileno())
        copied = Copied(size, digest_in(directory, half, size))
        if copied.sha256 != digest(source, size):
            return None
        os.rename(half, name, src_dir_fd=directory, dst_dir_fd=directory)
        os.fsync(directory)
        return copied
    finally:
        with suppress(FileNotFoundError):
            os.unlink(half, dir_fd=directory)


def digest(source: int, size: int) -> str:
    """Return the SHA-256 of the first `size` bytes of the open file with the descriptor `source`,
    in hexadecimal digits.
    """
    found, offset = sha256(), 0
    while block := os.pread(source, min(_BLOCK, size - offset), offset):
        found.update(block)
        offset += len(block)
    return found.hexdigest()


def digest_in(directory: int, name: str, size: int) -> str:
    """Return the SHA-256, in hexadecimal digits, of the first `size` bytes of the file `name` in
    the open directory with the descriptor `directory`. Raises OSError if the file is a link or
    cannot be read.
    """
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        return digest(source, size)
    finally:
        os.close(source)
