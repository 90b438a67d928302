"""Deletes, moves and lists trees by descriptors; see `descriptors` for what is refused."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bs4_common.descriptors import Branch, open_directory

#: How often an entry is tried again because it has become another kind of file.
_SWAPPED_MOST = 100
#: What the kernel answers if an entry was another kind of file a moment ago, or if something was
#: put into a directory meanwhile.
_SWAPPED = (errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENOTEMPTY, errno.EPERM)


@dataclass(frozen=True)
class Entry:
    """One file, link or other entry of a directory tree that is not a directory. `name` is its name
    in its directory, which is open under the file descriptor `parent`. `path` is its path. `status`
    is the result of lstat, so that for a symbolic link it describes the link itself.
    """

    parent: int
    name: str
    path: Path
    status: os.stat_result

    @property
    def regular(self) -> bool:
        """Return True if the entry is a regular file, and not a link, a pipe or a device."""
        return stat.S_ISREG(self.status.st_mode)


def entries(path: Path) -> Iterator[Entry]:
    """Yield an Entry for each file, link or other thing below the directory `path` that is not a
    directory, sorted by name. The descriptor `parent` of an entry is open only until the next entry
    is taken. An entry that vanishes during the call is left out.

    Raises Refused if a directory belongs to another user or is writable by another user. Raises
    OSError if a directory cannot be read, has been replaced by a link, or is on another filesystem.
    """
    with open_directory(path, ours=path) as found:
        yield from _entries(Branch.top(found, path))


def _entries(branch: Branch) -> Iterator[Entry]:
    """Yield everything below the open directory that is no directory itself."""
    for name in branch.names():
        try:
            status = os.stat(name, dir_fd=branch.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield Entry(branch.descriptor, name, branch.path / name, status)
            continue
        try:
            with branch.into(name) as inner:
                yield from _entries(inner)
        except FileNotFoundError:
            continue


def refuse_foreign_tree(path: Path) -> None:
    """Raise Refused if `path`, its parent or a directory below it belongs to another user or is
    writable by another user. Return None otherwise. Raises OSError if a directory cannot be read,
    has been replaced by a link, or is on another filesystem. If `path` is a file, only its parent
    is checked.
    """
    with open_directory(path.parent, ours=path.parent) as parent:
        _look_through(Branch.top(parent, path.parent), path.name)


def _look_through(branch: Branch, name: str) -> None:
    """Open everything below the entry `name` of an open directory, and change nothing."""
    status = os.stat(name, dir_fd=branch.descriptor, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        with branch.into(name) as inner:
            for _ in _entries(inner):
                pass


def remove(path: Path, *, ours: Path | None = None) -> int:
    """Delete the file or the directory tree `path` for good, and return the number of bytes that
    this freed. Files that have another hard link do not count. Return 0 if `path` does not exist.

    The path must be absolute and contain no symbolic link. `ours` is a directory above it; None
    means the one that holds `path`. No directory from `ours` down, also inside the tree, may belong
    to another user or be writable by another user; if one does, Refused is raised and nothing is
    deleted. Raises OSError if the filesystem reports an error, or if a part of the tree is on
    another filesystem.
    """
    try:
        with open_directory(path.parent, ours=ours or path.parent) as parent:
            branch = Branch.top(parent, path.parent)
            _look_through(branch, path.name)
            return _remove(branch, path.name)
    except FileNotFoundError:
        return 0


def _remove(branch: Branch, name: str) -> int:
    """Delete the entry `name` of an open directory with everything in it, and return the bytes that
    are free by it.
    """
    freed = 0
    for _ in range(_SWAPPED_MOST):
        try:
            status = os.stat(name, dir_fd=branch.descriptor, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                os.unlink(name, dir_fd=branch.descriptor)
                if status.st_nlink == 1:
                    freed += status.st_size
                return freed
            with branch.into(name) as inner:
                for entry in inner.names():
                    freed += _remove(inner, entry)
            os.rmdir(name, dir_fd=branch.descriptor)
            return freed
        except FileNotFoundError:
            return freed  # two agents may work on it for a moment
        except OSError as error:
            if error.errno not in _SWAPPED:
                raise
            last = error
    raise last


def rename(source: Path, target: Path) -> None:
    """Rename `source` to `target`, and sync the directories of both to the disk. Both paths must be
    absolute and contain no symbolic link.

    Raises Refused if one of the directories, or `source` itself if it is a directory, belongs to
    another user or is writable by another user. Raises NotADirectoryError if a part of a path is a
    link, and OSError if the filesystem refuses the rename.
    """
    with (
        open_directory(source.parent, ours=source.parent) as come_from,
        open_directory(target.parent, ours=target.parent) as go_to,
    ):
        status = os.stat(source.name, dir_fd=come_from, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            with Branch.top(come_from, source.parent).into(source.name):
                pass
        os.rename(source.name, target.name, src_dir_fd=come_from, dst_dir_fd=go_to)
        os.fsync(go_to)
        os.fsync(come_from)
