"""Segments in shared memory that a dead process left behind: files of our user that no process has
open.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from bs4_agent.tree.copies import copy
from bs4_common.descriptors import open_directory, open_file, real
from bs4_common.errors import Refused, StepFailed


def stale(root: Path) -> list[Path]:
    """Return the regular files directly in the shared-memory directory `root` that belong to the
    agent's user and that no process has open or mapped into its memory. If the agent may not read
    some process, return an empty list, because then it cannot know that a file is unused.
    """
    try:
        entries = [entry for entry in os.scandir(root) if entry.is_file(follow_symlinks=False)]
    except OSError:
        return []
    own = {}
    for entry in entries:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid():
            own[(status.st_dev, status.st_ino)] = Path(entry.path)
    if not own or (used := _in_use(root)) is None:
        return []
    return sorted(path for path in own.values() if str(path) not in used)


def _in_use(root: Path) -> set[str] | None:
    """Return every path below `root` that some process has open or mapped, or None if the agent may
    not read one of the processes.
    """
    used: set[str] = set()
    prefix = f"{root.resolve()}/"
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or entry.name == "1":
            # init maps no such segment, and some container runtimes show its descriptors to nobody.
            continue
        try:
            paths = [_target(descriptor) for descriptor in (entry / "fd").iterdir()]
            maps = (entry / "maps").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        except PermissionError:
            return None
        for line in maps.splitlines():
            if prefix in line:
                paths.append(line.split(None, 5)[5])
        for path in paths:
            if path.startswith(prefix):
                used.add(str(root / Path(path).name))
    return used


def _target(descriptor: Path) -> str:
    """Return the path that a descriptor points to, or "" if it was closed in the meantime (the
    descriptor that lists the directory always is).
    """
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return ""


def set_aside(path: Path, target: Path) -> None:
    """Move the shared-memory file `path` to `target`, which is on a disk. Shared memory is a file
    system of its own, so the bytes are copied and compared, and only then is `path` deleted.

    Raises StepFailed if the file changes during the copy or the disk is full. Raises Refused if
    `path` is no file of the agent's user any more, or if the directory of `target` belongs to
    another user or is writable by another user. In all these cases `path` is left as it is.
    """
    try:
        with (
            open_directory(real(path).parent) as memory,
            open_file(real(path)) as source,
            open_directory(target.parent, ours=target.parent, make=0o700) as directory,
        ):
            status = os.fstat(source)
            if status.st_uid != os.getuid():
                raise Refused(f"{path} belongs to another user by now; make a new plan.")
            same = copy(source, directory, target.name) is not None
            now = os.stat(path.name, dir_fd=memory, follow_symlinks=False)
            if not same or not os.path.samestat(status, now):
                raise StepFailed(
                    f"{path} changes while it is copied, so somebody uses it; it was left where "
                    "it is. Look who does."
                )
            os.unlink(path.name, dir_fd=memory)
    except OSError as error:
        raise StepFailed(
            f"{path} could not be set aside ({error.strerror}); it was left where it is. "
            "Make room on the disk first."
        ) from error
