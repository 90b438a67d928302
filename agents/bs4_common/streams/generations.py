"""One file in the life of a log: which file it is, if it still is the same one, and where it can be
opened.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_common.clock import boot_id
from bs4_common.digest import sha256
from bs4_common.states import FileState

#: Bytes at the start of a file that distinguish it from another file with its inode.
FINGERPRINT_BYTES = 256
#: Bytes before the last known end that are compared too, because a rewritten file may begin with
#: the same banner.
MARK_BYTES = 64
#: What log rotation appends to the name of a file that it sets aside: trainer.log.1,
#: trainer.log-20261120, trainer.log.2026-11-20_10-00.
_ROTATED = re.compile(r"[._-][0-9][0-9._T:-]*")

#: Pairs of time and size that survive a restart of the agent: 6 KB of JSON for a live file, 0.4 KB
#: for a finished one.
SAVED_PAIRS = 256
SAVED_PAIRS_FINISHED = 16
#: Pairs held for each file, 64 KiB. When they are used up, every second one is dropped and they
#: come half as often: a week ends at one in 256 s.
MAX_PAIRS = 4096


class Trail:
    """The sizes that one growing file had at different times, as pairs of a Unix time in seconds
    and a number of bytes. There is at most one pair for each second, and fewer once the file has
    been growing for more than an hour.

    With these pairs a log can be searched by time even if its lines carry no times.
    """

    def __init__(self, saved: Sequence[Sequence[float]] = ()) -> None:
        self._times = array("d", [pair[0] for pair in saved])
        self._sizes = array("Q", [int(pair[1]) for pair in saved])
        self._every = 1.0

    def add(self, t: float, size: int) -> None:
        """Record that the file had `size` bytes at `t`, a Unix time in seconds. Do nothing if `t`
        is earlier than the last recorded time, or later by less than the least interval between
        records. That interval is one second at first, and doubles each time the memory for records
        is full.
        """
        # A wall clock that was set back would break the order, so such pairs are left out until it
        # has caught up.
        if self._times and t < self._times[-1] + self._every:
            return
        self._times.append(t)
        self._sizes.append(size)
        if len(self._times) >= MAX_PAIRS:
            self._times, self._sizes = self._times[::2], self._sizes[::2]
            self._every *= 2

    def size_at(self, t: float) -> int | None:
        """Return the size in bytes that the file had at `t`, a Unix time in seconds: the size that
        was last recorded at or before `t`. Return None if nothing was recorded until then.
        """
        index = bisect_right(self._times, t)
        return self._sizes[index - 1] if index else None

    def saved(self, limit: int) -> list[list[float]]:
        """Return at most `limit` of the recorded pairs [Unix time in seconds, size in bytes],
        evenly spread over all of them. They are saved in the log's state file. Return an empty list
        if nothing was recorded.
        """
        step = -(-len(self._times) // limit) or 1
        found = []
        for i in range(0, len(self._times), step):
            found.append([round(self._times[i], 3), self._sizes[i]])
        return found


@dataclass(kw_only=True)
class Generation:
    """What is known about one file of a log. A log gets a new file, a new generation, when it is
    rotated or truncated. This is saved in the log's state file, so that a restarted agent
    recognises the file.

    `end` is the file's final size in bytes, or None while the file may still grow. `lost` says why
    the file's bytes cannot be read any more, and is "" if they can be read; a file that was
    truncated in place is lost and has `end` None. `fingerprint` is a hash of the file's first
    `fingerprinted` bytes. `link` is the path of the agent's own hard link to the file, or "" if it
    has none. `seen` is the size in bytes when the file was last checked, and `mark` a hash of the
    last 64 bytes before that size, or "" if an older agent has saved none. `first_seen` is the time
    at which the file was found, as Unix time in seconds, and `boot` the boot id of the machine at
    that time. `trail` has the sizes that the file had at different times.
    """

    number: int
    path: str
    attempt: int
    device: int
    inode: int
    boot: str
    first_seen: float
    fingerprint: str = ""
    fingerprinted: int = 0
    seen: int = 0
    mark: str = ""
    end: int | None = None
    lost: str = ""
    link: str = ""
    trail: Trail = field(default_factory=Trail)

    @classmethod
    def from_dict(cls, data: Any) -> Generation:
        """Return the generation that `data` describes, a dictionary that `as_dict` has made. Raises
        KeyError, TypeError or ValueError if it is none.
        """
        found = cls(**{**data, "trail": Trail(data["trail"])})
        if found.seen < 0:
            raise ValueError(f"the size of a file cannot be {found.seen}")
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the generation, except `mark`, as a dictionary of JSON values, as it
        is saved in the log's state file. `mark` is saved beside it, because an older agent, which
        may still be started on this pod, refuses a dictionary with a field that it does not know.
        """
        trail = self.trail.saved(SAVED_PAIRS if self.live else SAVED_PAIRS_FINISHED)
        fields = {**self.__dict__, "trail": trail}
        del fields["mark"]
        return fields

    @property
    def live(self) -> bool:
        """Return True if the file may still grow: it is neither finished nor lost."""
        return self.end is None and not self.lost

    @property
    def state(self) -> FileState:
        """Return "lost" if the file's bytes cannot be read any more, "live" if it may still grow,
        and "finished" otherwise.
        """
        if self.lost:
            return "lost"
        if self.live:
            return "live"
        return "finished"

    def is_file(self, info: os.stat_result) -> bool:
        """Return True if `info`, the result of a stat call, is about the file of this generation.
        The inode numbers are compared, and also the device numbers if the machine has not been
        rebooted since the file was found (network volumes get new device numbers at each boot).
        """
        return info.st_ino == self.inode and (info.st_dev == self.device or self.boot != boot_id())

    def open(self) -> int:
        """Return a new file descriptor of exactly this file, which the caller must close, or -1 if
        the file cannot be found. It is searched in three places: at the agent's own hard link, at
        its own path, and under the names that a log rotation gives to a file with that path.
        """
        for path in self._places():
            fd = self._open_if_same(path)
            if fd >= 0:
                return fd
        return -1

    def _places(self) -> Iterator[str]:
        """Yield the paths at which the file may be. The directory is listed only for the last."""
        if self.link:
            yield self.link
        yield self.path
        yield from rotated(self.path)

    def _open_if_same(self, path: str) -> int:
        """Return a descriptor of the file at `path` if it is this generation, or -1."""
        fd = open_log(path)
        if fd < 0:
            return -1
        if self.is_file(os.fstat(fd)) and self.recognises(fd):
            return fd
        os.close(fd)
        return -1

    def recognises(self, fd: int) -> bool:
        """Return True if the open file with the descriptor `fd` can be the file that this object
        describes. That is so if it begins with the same bytes, as far as the fingerprint (a hash of
        the file's first bytes) covers them. It is always so if there is no fingerprint yet.
        """
        return (
            self.fingerprinted == 0
            or digest(os.pread(fd, self.fingerprinted, 0)) == self.fingerprint
        )

    def take_fingerprint(self, fd: int) -> bool:
        """Set the fingerprint, the hash by which the file is recognised later, from the first 256
        bytes of the open file `fd`, or from all of its bytes if it has fewer. Return True if that
        changed the fingerprint. Do nothing and return False if the fingerprint covers 256 bytes
        already.
        """
        if self.fingerprinted >= FINGERPRINT_BYTES:
            return False
        head = os.pread(fd, FINGERPRINT_BYTES, 0)
        if len(head) == self.fingerprinted:
            return False
        self.fingerprint, self.fingerprinted = digest(head), len(head)
        return True


class Watch:
    """The open file of a generation (one file of a log) that may still grow. It finds out if the
    file has grown or its content was replaced. Because the file is held open, it can be read even
    after it was deleted.
    """

    def __init__(self, generation: Generation, fd: int) -> None:
        self.generation = generation
        self.fd = fd
        info = os.fstat(fd)
        self.size = generation.seen
        self.noticed = 0
        """The size that readers were last notified of."""
        self._mtime_ns = -1
        self.grown_at = time.monotonic() - max(0.0, time.time() - info.st_mtime)
        """The monotonic second of the last growth. A file that was written long ago is quiet from
        the start.
        """

    def unchanged(self, info: os.stat_result) -> bool:
        """Return True if nothing has changed since the log's readers were last notified, so that
        the file needs no closer check. `info` is the result of a stat call at the log's path. It
        must be about this file, with the same size and modification time as then, and the file must
        still be one that may grow.
        """
        generation = self.generation
        return (
            (info.st_size, info.st_mtime_ns) == (self.noticed, self._mtime_ns)
            and self.size == self.noticed
            and generation.live
            and generation.is_file(info)
        )

    def intact(self) -> bool:
        """Check the file and note its present size. Return True if it is unchanged or has only
        grown, and False if it was truncated or rewritten in place.
        """
        info = os.fstat(self.fd)
        if info.st_size < self.size:
            return False
        if (info.st_size, info.st_mtime_ns) == (self.size, self._mtime_ns):
            return True
        if not self.generation.recognises(self.fd):
            return False
        if self.generation.mark and digest(self._before(self.size)) != self.generation.mark:
            return False
        if info.st_size > self.size and self._mtime_ns >= 0:
            self.grown_at = time.monotonic()
        self.size, self._mtime_ns = info.st_size, info.st_mtime_ns
        mark = self._before(self.size)
        # They are saved together, so an agent that starts again finds them in step.
        self.generation.seen, self.generation.mark = self.size, digest(mark)
        return len(mark) == min(self.size, MARK_BYTES)

    def _before(self, offset: int) -> bytes:
        """Return the last MARK_BYTES bytes of the file before `offset`, or all if it has fewer."""
        begin = max(0, offset - MARK_BYTES)
        return os.pread(self.fd, offset - begin, begin)

    def close(self) -> None:
        """Close the file's descriptor."""
        os.close(self.fd)


def digest(data: bytes) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 of `data`."""
    return sha256(data).hexdigest()[:32]


def open_log(path: str) -> int:
    """Open the regular file at `path` for reading and return its file descriptor, which the caller
    must close. Return -1 if there is no such file, or if something else is there, such as a FIFO or
    a directory. Raises OSError for other errors, such as a missing permission.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ELOOP):
            return -1
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return -1


def rotated(path: str) -> list[str]:
    """Return the paths of the files beside `path` that a log rotation may have made of it, such as
    `trainer.log.1`, oldest first. The list is empty if there are none.
    """
    directory, name = os.path.split(path)
    found = []
    try:
        with os.scandir(directory or ".") as entries:
            for entry in entries:
                if (
                    entry.name.startswith(name)
                    and _ROTATED.fullmatch(entry.name[len(name) :])
                    and entry.is_file()
                ):
                    found.append((entry.stat().st_mtime_ns, entry.path))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            raise
    return [path for _, path in sorted(found)]


def link_into(archive: Path, fd: int, name: str) -> str:
    """Make a hard link to the open file `fd` in the directory `archive` and return the path of the
    link. It is named `name`, with a number appended if that name is taken.

    Return "" if no link can be made, for example because `archive` is on another filesystem. That
    is common, and while the agent lives nothing is lost by it, because the agent holds the file
    open. The link is made from the file descriptor, because another file may have the file's path
    by now.
    """
    try:
        archive.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = os.open(archive, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        for candidate in [name, *(f"{name}-{n}" for n in range(1, 100))]:
            try:
                # With both directories Python uses linkat with AT_SYMLINK_FOLLOW. Plain link would
                # link the symlink.
                os.link(
                    f"/proc/self/fd/{fd}",
                    candidate,
                    src_dir_fd=directory,
                    dst_dir_fd=directory,
                    follow_symlinks=True,
                )
            except FileExistsError:
                if not os.path.samestat(os.stat(candidate, dir_fd=directory), os.fstat(fd)):
                    continue
            return str(archive / candidate)
    except OSError:
        return ""
    finally:
        os.close(directory)
    return ""
