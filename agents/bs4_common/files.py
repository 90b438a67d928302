"""Read and write small files that must be whole or absent, list directories that may vanish, and
measure the filesystems on which they lie.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from bs4_common.foreign_json import check_nesting, loads
from bs4_common.telemetry import DiskUsage

#: The most entries of one directory that are listed: more than a run makes, and few enough to list
#: them every few seconds.
LISTED_MOST = 2000
#: The most bytes of a small file that another program has written, such as a config.
FOREIGN_MOST = 16 * 1024 * 1024


def write_json(path: Path, value: Mapping[str, Any], *, durable: bool = True) -> None:
    """Write `value` as JSON to `path`, with mode 0600. The new content replaces the file by one
    rename, so a reader finds either the old content or the new and never a part of one.

    With `durable` the file and its directory are also synced to disk, so that the change survives a
    power cut. Raises OSError if the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
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
    """Sync a directory to disk, so that a rename or a new file in it survives a power cut. Raises
    OSError if that fails.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in the file `path`, or None if there is no such file. Raises
    ValueError if the file holds anything but a JSON object, or one that nests too deep. Some of
    these files are not ours, and the parser would raise RecursionError, or end the process.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    check_nesting(text)
    value = json.loads(text)
    if not isinstance(value, dict):
        # The content is wrong, not an argument.
        raise ValueError(f"{path} is not a JSON object; move it aside.")  # noqa: TRY004
    return value


def read_passing(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in the file `path`, or None if there is no such file or its content is
    damaged.

    It is meant for files that describe living processes and were not synced to disk. A power cut
    may leave them empty, but after it the processes that they described have ended anyway.
    """
    try:
        return read_json(path)
    except ValueError:
        return None


def open_regular(path: Path) -> BinaryIO:
    """Open the regular file `path`, which another program has written, for reading. Symbolic links
    are followed.

    What is no regular file, for example a pipe, for which a reader would wait for ever, or a device
    without an end, counts as absent: FileNotFoundError is raised. Raises another OSError if the
    file cannot be opened, and IsADirectoryError for a directory.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        kind = os.fstat(fd).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(kind):
            raise FileNotFoundError(errno.ENOENT, "No regular file", str(path))
        return os.fdopen(fd, "rb")
    except OSError:
        os.close(fd)
        raise


def read_regular(path: Path, most: int = FOREIGN_MOST) -> bytes:
    """Return the content of the regular file `path`, which another program has written. Raises
    OSError if it has more than `most` bytes, and the errors of `open_regular`.
    """
    with open_regular(path) as handle:
        data = handle.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return data


def foreign_object(path: Path) -> Any:
    """Return the JSON object in the regular file `path`, which another program has written. Return
    an empty dictionary if there is no such file, or if it cannot be read or holds anything else.
    """
    try:
        value = loads(read_regular(path))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def listed(directory: Path) -> list[Path]:
    """Return the paths of the entries of `directory`, at most 2,000 of them, in no particular
    order. The list is empty if the directory cannot be read.
    """
    try:
        with os.scandir(directory) as entries:
            found = []
            for entry in itertools.islice(entries, LISTED_MOST):
                found.append(directory / entry.name)
            return found
    except OSError:
        return []


def mtime(path: Path) -> float | None:
    """Return the Unix time in seconds at which the file was last changed, or None if there is no
    such file or it cannot be read.
    """
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def private(path: Path) -> bool:
    """Return True if only the owner can read the file. A file that does not exist counts as
    private.
    """
    try:
        return not stat.S_IMODE(path.stat().st_mode) & 0o077
    except FileNotFoundError:
        return True


def disk_usage(path: Path) -> DiskUsage:
    """Return `{"path", "used", "total", "free", "read_only"}` of the filesystem on which `path`
    lies or would lie. Sizes are in bytes. All but the path are None if the filesystem reports an
    error.

    `free` is what an ordinary user may still write, so used + free is less than total if blocks are
    reserved for root.
    """
    for place in (path, *path.parents):
        try:
            status = os.statvfs(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            break
        size = status.f_frsize
        return {
            "path": str(path),
            "used": (status.f_blocks - status.f_bfree) * size,
            "total": status.f_blocks * size,
            "free": status.f_bavail * size,
            "read_only": bool(status.f_flag & os.ST_RDONLY),
        }
    return unknown_disk(str(path))


def unknown_disk(path: str) -> DiskUsage:
    """Return what `disk_usage` returns for a filesystem that reports an error: `path`, and None for
    every other value.
    """
    return {"path": path, "used": None, "total": None, "free": None, "read_only": None}
