"""Opens directories and files by descriptors, one part of the path at a time.

A link at any level is an error, even one that is put there while a path is walked. Directories that
another user owns or may write to are refused where that is asked for.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bs4_common.errors import Refused

_FOUND = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: A directory on the way needs no permission to be read.
_PASSED = _FOUND | os.O_PATH
_READ = _FOUND | os.O_RDONLY
#: A named pipe must not hold up the one that opens it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: The most directories inside one another: each costs a descriptor and some frames of the stack.
#: No trainer nests a tenth of this.
_DEEPEST = 100


@contextmanager
def open_directory(
    path: Path, *, ours: Path | None = None, make: int | None = None
) -> Iterator[int]:
    """Yield a file descriptor of the directory `path`, which is closed after the `with` block. The
    path must be absolute, and none of its parts may be a symbolic link.

    `ours` is `path` or a directory above it (None: nothing is checked). That directory and
    everything on the way from there to `path` must not belong to another user or be writable by
    another user. With `make`, directories that do not exist are made with these permissions. Raises
    Refused if another user owns such a directory or may write to it, NotADirectoryError if a part
    of the path is a link or no directory, and other OSErrors.
    """
    if not path.is_absolute() or ".." in path.parts:
        raise Refused(f"{path} is not a plain absolute path; name the directory itself.")
    with ExitStack() as stack:
        found = os.open("/", _READ)
        stack.callback(os.close, found)
        for place in (*reversed(path.parents), path):
            if place.name:
                flags = _READ if place == path else _PASSED
                found = _entered(found, place, flags, make)
                stack.callback(os.close, found)
            if ours is not None and (ours == place or ours in place.parents):
                refuse_foreign(found, place)
        yield found


@contextmanager
def open_file(path: Path) -> Iterator[int]:
    """Yield a file descriptor of the regular file `path`, open for reading, which is closed after
    the `with` block. The path must be absolute, and no part of it may be a link.

    Raises Refused if it is no regular file, and OSError if it cannot be opened. It is not checked
    who owns the directory of the file.
    """
    with open_directory(path.parent) as parent:
        try:
            found = os.open(path.name, _FILE, dir_fd=parent)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Refused(_no_file(path)) from error
            raise OSError(error.errno, error.strerror, str(path)) from error
        try:
            if not stat.S_ISREG(os.fstat(found).st_mode):
                raise Refused(_no_file(path))
            yield found
        finally:
            os.close(found)


def real(path: Path) -> Path:
    """Return `path` with the symbolic links above its last part resolved. If the last part itself
    is a link, it stays one.
    """
    return path.parent.resolve() / path.name


def at(descriptor: int, name: str = "") -> Path:
    """Return a path (below /proc/self/fd) for functions that only take paths. It leads to the entry
    `name` of the directory that is open under the file descriptor `descriptor`, or, if `name` is
    "", to what is open under that descriptor. The path is valid as long as the descriptor is open.
    """
    return Path(f"/proc/self/fd/{descriptor}", name)


def refuse_foreign(descriptor: int, path: Path) -> None:
    """Raise Refused if the directory that is open under `descriptor` belongs neither to the agent's
    user nor to root, or if another user may rename or delete what is in it. Return None otherwise.
    `path` names the directory in the message.
    """
    found = os.fstat(descriptor)
    if found.st_uid not in (os.geteuid(), 0):
        raise Refused(
            f"{path} belongs to another user (uid {found.st_uid}), so what is in it is left alone; "
            "make it yours with `chown`, or do by hand there what you want done."
        )
    writable = found.st_mode & stat.S_IWOTH or (
        found.st_mode & stat.S_IWGRP and _has_others(found.st_gid)
    )
    if writable and not found.st_mode & stat.S_ISVTX:
        raise Refused(
            f"Other users may write to {path}, so what is in it is left alone; take that away with "
            f"`chmod go-w {path}`, then try again. Where chmod has no effect, as on some network "
            "volumes, mount it so that only its owner may write (umask=022), or give the run an "
            "output directory elsewhere."
        )


def _has_others(group: int) -> bool:
    """Return True if another user may be in the group. With the umask 002 of Ubuntu, every new
    directory is writable for a group of which its owner is the only member.
    """
    import grp
    import pwd  # an agent seldom comes here

    try:
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return True
    me = os.geteuid()
    for user in pwd.getpwall():
        if user.pw_uid == me:
            members.discard(user.pw_name)
        elif user.pw_gid == group:
            return True
    return bool(members)


@dataclass(frozen=True)
class Border:
    """The device number and the mount id of an open directory, by which it is found out where
    another filesystem begins: at a directory for which one of the two differs. If the same device
    is mounted again (a bind mount), only the mount id differs. No rename and no hard link leads
    from one border to another, not even on one device. A kernel that reports no mount ids (gVisor)
    leaves the device number to decide.
    """

    device: int
    mount: bytes

    @classmethod
    def of(cls, descriptor: int) -> Border:
        """Return the device number and the mount id of the directory that is open under the file
        descriptor `descriptor`.
        """
        with open(f"/proc/self/fdinfo/{descriptor}", "rb") as lines:
            mount = next((line for line in lines if line.startswith(b"mnt_id:")), b"")
        return cls(os.fstat(descriptor).st_dev, mount)

    @classmethod
    def at(cls, path: Path) -> Border:
        """Return the device number and the mount id of what lies at `path`; where something is
        mounted, those of the mounted. If the last part of the path is a link, the link itself is
        meant. Raises OSError if nothing lies there.
        """
        found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return cls.of(found)
        finally:
            os.close(found)


@dataclass(frozen=True)
class Branch:
    """An open directory of a directory tree, for a walk through the tree. `path` names it in
    messages, and `border` says on which filesystem the tree is. `depth` is 0 for the directory at
    the top of the tree, and larger by 1 for each level below it.
    """

    descriptor: int
    path: Path
    border: Border
    depth: int = 0

    @classmethod
    def top(cls, descriptor: int, path: Path) -> Branch:
        """Return the Branch (an open directory, from which its subdirectories can be opened) for
        the top of a directory tree. A walk through the tree begins with it. `descriptor` is the
        file descriptor of the open directory, and `path` its path.
        """
        return cls(descriptor, path, Border.of(descriptor))

    @contextmanager
    def into(self, name: str) -> Iterator[Branch]:
        """Open the directory `name` in this one, and yield it as a branch, which is closed after
        the `with` block. Raises Refused if that directory belongs to another user or is writable by
        another user, or lies more than 100 levels below the top of the tree, and OSError if it is
        no directory or is on another filesystem.
        """
        path = self.path / name
        found = os.open(name, _READ, dir_fd=self.descriptor)
        try:
            refuse_foreign(found, path)
            if Border.of(found) != self.border:
                raise OSError(errno.EXDEV, f"{path} is another filesystem", str(path))
            if self.depth == _DEEPEST:
                raise Refused(
                    f"{path} lies in {_DEEPEST} directories inside one another, so it was left "
                    "alone; look at it by hand."
                )
            yield Branch(found, path, self.border, self.depth + 1)
        finally:
            os.close(found)

    def names(self) -> list[str]:
        """Return the names of the entries of the directory, sorted."""
        with os.scandir(self.descriptor) as entries:
            return sorted(entry.name for entry in entries)


def _entered(parent: int, path: Path, flags: int, make: int | None) -> int:
    """Return a descriptor of the directory `path`, opened in its open parent. If `make` is given, a
    directory that does not exist is made.
    """
    name = path.name
    try:
        if make is not None:
            with suppress(FileNotFoundError):
                return os.open(name, flags, dir_fd=parent)
            with suppress(FileExistsError):
                os.mkdir(name, make, dir_fd=parent)
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        # The kernel names only the last part.
        raise OSError(error.errno, error.strerror, str(path)) from error


def _no_file(path: Path) -> str:
    """Return the message about an entry that is no regular file."""
    return f"{path} is no regular file (a link, for example), so it is not read; replace it by one."
