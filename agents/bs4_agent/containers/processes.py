"""A process in a container, seen from the host: its pid in the container, and where its paths are
on the host.

Docker gives a run a pid namespace and a mount namespace of its own. /proc on the host shows its
processes under the host's pids, but their command lines, working directories and open files name
the container's file system. Two mount tables translate: a directory of the host that is mounted
into the container is the same part of the same device in both, and `stat` through /proc/PID/root
proves it.
"""

# These are names in another file system, which pathlib would take for the host's.
# ruff: noqa: PTH115, PTH116

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from bs4_common.errors import AgentError
from bs4_common.identity import Identity

#: Stands for a container whose name is unknown. A run in it is watched and stopped, but not started
#: again.
UNNAMED = "?"
#: `/docker/ID` (cgroup v1) and `docker-ID.scope` (v2 with systemd). Docker accepts the first twelve
#: digits as a name.
_DOCKER = re.compile(
    r"(?:/docker/|docker-)([0-9a-f]{12})[0-9a-f]{52}(?:\.scope)?(?:/|$)", re.MULTILINE
)
#: An absolute path within a word of a command line: from where a value begins to where it ends.
_PATH = re.compile(r"(?:^|(?<=[=,:'\"(\[{]))/(?!/)[^'\",:\]\[(){}\s]+")
_OCTAL = re.compile(r"\\([0-7]{3})")
_NOFILE = re.compile(r"^Max open files +(\S+) +(\S+)", re.MULTILINE)
#: Seconds for which a view is reused. What is mounted into a container is decided when it is made.
_KEEP_S = 60.0
_MOST_LINKS = 40


class HiddenFiles(AgentError):
    """Raised if this agent's user may not read the files of a container."""

    type = "hidden-files"


class Mount(NamedTuple):
    """One line of /proc/PID/mountinfo: the directory `root` of the file system `device`
    ("major:minor") is seen by the process at the path `point`.
    """

    device: str
    root: str
    point: str


def mounts(text: str) -> list[Mount]:
    """Return the mounts in `text`, the content of a file /proc/PID/mountinfo, in the order in which
    they were mounted. If two have the same `point`, only the later one can be seen. The list is
    empty if the text has none.
    """
    result = []
    for line in text.splitlines():
        row = line.split(" ")
        if len(row) > 5:
            result.append(Mount(row[2], _plain(row[3]), _plain(row[4])))
    return result


def numbers(status: str) -> tuple[int, ...]:
    """Return all pids of one process from `status`, the text of its /proc/PID/status: first the
    host's pid, last the pid in the innermost pid namespace. Return () if the text has none.
    """
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return tuple(map(int, line.split()[1:]))
    return ()


def pids(pid: int) -> tuple[int, ...]:
    """Return all pids of the live process `pid`: first the host's, last the one in the innermost
    pid namespace. More than one means that the process lives in a pid namespace of its own, as in a
    container. Return () if the process is gone.
    """
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as handle:
            return numbers(handle.read())
    except OSError:
        return ()


def environment(pid: int) -> list[list[bytes]] | None:
    """Return the environment variables of a process as a list of [name, value], or None if the
    process is gone or they may not be read.
    """
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    found = []
    for entry in raw.split(b"\0"):
        if b"=" in entry:
            found.append(entry.split(b"=", 1))
    return found


def nofile(pid: int) -> tuple[int | None, int | None]:
    """Return (soft limit, hard limit) of the number of files that the process `pid` may have open.
    A limit is None if it is unlimited or cannot be read.
    """
    try:
        limits = Path(f"/proc/{pid}/limits").read_text()
    except OSError:
        return None, None
    found = _NOFILE.search(limits)
    if found is None:
        return None, None
    soft, hard = found.groups()
    return int(soft) if soft.isdigit() else None, int(hard) if hard.isdigit() else None


def first_of(pid: int) -> int:
    """Return the host's pid of the first process of the container in which the process `pid` was
    born, found among its ancestors. Return 0 for a process of the host, and for a process that was
    started into a container from outside (`docker exec`), which has no such ancestor.
    """
    while len(inner := pids(pid)) > 1:
        if inner[-1] == 1:
            return pid
        try:
            stat_line = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return 0
        pid = int(stat_line.rpartition(")")[2].split()[1])
    return 0


def name_in(cgroup: str) -> str:
    """Return the name of the Docker container that `cgroup` names, which is the text of a file
    /proc/PID/cgroup. It can be given to `docker exec`. Return "" if the text names no container.
    """
    match = _DOCKER.search(cgroup)
    return "" if match is None else match.group(1)


def name_of(pid: int) -> str:
    """Return the name of the Docker container in which a process lives. Return "" for a process on
    the host, and the constant UNNAMED, which is "?", for a container that is not Docker's. Raises
    HiddenFiles if the container's files may not be read.
    """
    try:
        found = name_in(Path(f"/proc/{pid}/cgroup").read_text(errors="replace"))
    except OSError:
        found = ""
    return found or (UNNAMED if len(pids(pid)) > 1 and View.of(pid) is not None else "")


class View:
    """The file system as a process in another mount namespace, usually in a container, sees it.
    This object translates between that process's paths and the host's. Make it with `View.of`.
    """

    def __init__(self, pid: int, inside: Sequence[Mount], here: Sequence[Mount]) -> None:
        self.pid = pid
        self._inside, self._here = inside, here
        self._root = f"/proc/{pid}/root"

    @classmethod
    def of(cls, pid: int) -> View | None:
        """Return the view of the process `pid`. Return None if the process is gone, or sees the
        same files as this agent, so that no path needs to be translated. Raises HiddenFiles if the
        process's files may not be read. Within one minute the same object is returned again.
        """
        identity = Identity.of(pid)
        try:
            if (
                identity is None
                or os.stat(f"/proc/{pid}/ns/mnt").st_ino == os.stat("/proc/self/ns/mnt").st_ino
            ):
                return None
            known = _views.get(identity)
            if known is None or time.monotonic() - known[0] > _KEEP_S:
                inside, here = (
                    mounts(Path(f"/proc/{one}/mountinfo").read_text()) for one in (pid, "self")
                )
                os.stat(f"/proc/{pid}/root/.")
                for old in [other for other in list(_views) if not other.alive()]:
                    _views.pop(old, None)
                known = _views[identity] = (time.monotonic(), View(pid, inside, here))
        except PermissionError:
            raise HiddenFiles(
                f"Process {pid} lives in a container whose files this user may not look at; run "
                "the agent as root, or as the user that started the container."
            ) from None
        except (FileNotFoundError, ProcessLookupError):
            return None
        return known[1]

    def here(self, path: str | Path) -> Path | None:
        """Return the host's path of the file that the process sees at `path`, or None if the host
        cannot see that file under any path.
        """
        return self._other_side(str(path), self._inside, self._root, self._here, "")

    def inside(self, path: str | Path) -> Path | None:
        """Return the path under which the process sees the host's `path`, or None if the process
        does not see that file.
        """
        return self._other_side(str(path), self._here, "", self._inside, self._root)

    def has(self, path: str | Path) -> bool:
        """Return True if the process sees a file or directory at its path `path`, whether it is on
        a disk of the host or exists in the container alone.
        """
        return _stat(self._root + _resolved(str(path), self._root)) is not None

    def raw(self, path: str | Path) -> Path:
        """Return a path below /proc/PID/root with which the host can open the process's `path`,
        even if the file is in no directory of the host.
        """
        return Path(self._root + _resolved(str(path), self._root))

    def words_here(self, words: Iterable[str]) -> list[str]:
        """Return the words of a command line, with each absolute path of the process replaced by
        the host's path of the same file. A path that the host does not see stays as it is.
        """
        return _renamed(words, self.here)

    def words_inside(self, words: Iterable[str]) -> list[str]:
        """Return the words of a command line, with each absolute path of the host replaced by the
        process's path of the same file. A path that the process does not see stays as it is.
        """
        return _renamed(words, self.inside)

    def _other_side(
        self, path: str, ours: Sequence[Mount], root: str, theirs: Sequence[Mount], their_root: str
    ) -> Path | None:
        """Return the name of `path` in the other mount table, or None if it is not the same file
        there.
        """
        wanted = _named(path, root)
        held = _holding(ours, wanted)
        if held is None:
            return None
        within = _join(held.root, _below(wanted, held.point))
        shown = [
            mount
            for mount in theirs
            if mount.device == held.device and _is_below(within, mount.root)
        ]
        for mount in sorted(shown, key=lambda mount: -len(mount.root)):
            found = _join(mount.point, _below(within, mount.root))
            if _same(root + wanted, their_root + found):
                return Path(found)
        return None


def _renamed(words: Iterable[str], name: Callable[[str], Path | None]) -> list[str]:
    """Return the words with every absolute path replaced by `name(path)`, unless that is None."""
    return [_PATH.sub(lambda found: str(name(found[0]) or found[0]), word) for word in words]


#: Views of live processes, with the monotonic second at which they were made.
_views: dict[Identity, tuple[float, View]] = {}


def here(pid: int, path: Path) -> Path | None:
    """Return the host's path of the file that the process `pid` sees at `path`, or None if the host
    cannot see that file or the process's files may not be read.
    """
    try:
        view = View.of(pid)
    except HiddenFiles:
        return None
    if view is None:
        return path
    return view.here(path)


def share_files(one: int, other: int) -> bool:
    """Return True if the two processes, given by their pids, share a mount namespace, so that they
    see the same files. Return False if they do not, or if it cannot be read.
    """
    try:
        return os.stat(f"/proc/{one}/ns/mnt").st_ino == os.stat(f"/proc/{other}/ns/mnt").st_ino
    except OSError:
        return False


def open_file(pid: int, descriptor: int) -> Path | None:
    """Return the host's path of the regular file that the process `pid` has open under the file
    descriptor `descriptor`. Return None if that is no regular file, has no path on the host, or
    cannot be read.

    The kernel names the file either as the process sees it or as the host sees it; the inode number
    decides which of the two it is.
    """
    link = f"/proc/{pid}/fd/{descriptor}"
    try:
        named, found = Path(link).readlink(), Path(link).stat()
        view = View.of(pid)
    except (OSError, HiddenFiles):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    candidates = [named] if view is None else [view.here(named), named]
    for path in candidates:
        try:
            if path is not None and os.path.samestat(path.stat(), found):
                return path
        except OSError:
            continue
    return None


def _named(path: str, root: str) -> str:
    """Return the one name of a path: without symbolic links, except for a last one that leads to no
    directory (an environment's `bin/python3` is one).
    """
    found = _stat(root + (resolved := _resolved(path, root)))
    if found is not None and stat.S_ISDIR(found.st_mode):
        return resolved
    top, _, last = path.rstrip("/").rpartition("/")
    return _join(_resolved(top, root), last)


def _resolved(path: str, root: str) -> str:
    """Return `path` without symbolic links, as seen by a process whose root directory is `root`: an
    absolute link starts at that root and not at ours.
    """
    found, todo, links = "/", [part for part in path.split("/") if part][::-1], 0
    while todo:
        part = todo.pop()
        if part == ".":
            continue
        if part == "..":
            found = os.path.dirname(found)
            continue
        step = _join(found, part)
        try:
            target = os.readlink(root + step)
        except OSError:
            found = step
            continue
        links += 1
        if links > _MOST_LINKS:
            return path
        found = "/" if target.startswith("/") else found
        todo += [word for word in target.split("/") if word][::-1]
    return found


def _holding(table: Sequence[Mount], path: str) -> Mount | None:
    """Return the mount that shows `path`, or None: the mount with the longest point, and of several
    at one point the last.
    """
    best: Mount | None = None
    for mount in table:
        if _is_below(path, mount.point) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _is_below(path: str, top: str) -> bool:
    """Return True if `path` is `top` or is below it."""
    return top == "/" or path == top or path.startswith(top + "/")


def _below(path: str, top: str) -> str:
    """Return the part of `path` below `top`."""
    if top == "/":
        return path.lstrip("/")
    return path[len(top) + 1 :]


def _join(top: str, rest: str) -> str:
    """Return `rest` below the directory `top`, or `top` if `rest` is empty."""
    if rest:
        return f"{top.rstrip('/')}/{rest}"
    return top


def _same(one: str, other: str) -> bool:
    """Return True if both paths are one file, or, if they do not exist yet, would be made in one
    directory.
    """
    while True:
        first, second = _stat(one), _stat(other)
        if first is not None and second is not None:
            return os.path.samestat(first, second)
        (one, name), (other, other_name) = os.path.split(one), os.path.split(other)
        if first is not None or second is not None or name != other_name or not name:
            return False


def _stat(path: str) -> os.stat_result | None:
    """Return the stat result of a path without following a link, or None if it cannot be read."""
    try:
        return os.lstat(path)
    except OSError:
        return None


def _plain(word: str) -> str:
    """Return a field of mountinfo with its octal escapes decoded."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), word)
