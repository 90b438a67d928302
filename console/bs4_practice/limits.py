"""Limits of a live process, set from outside as `prlimit` does it, and memory limits of a control
group.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from bs4_practice.tree import Process

_V1 = Path("/sys/fs/cgroup/memory")
_V2 = Path("/sys/fs/cgroup")


def open_files(process: Process, spare: int = 0) -> int:
    """Limit the live `process` to the files that it has open now and about `spare` more. Returns
    the new limit, which is the lowest file number that the process may not use.
    """
    now = (
        max((int(entry.name) for entry in Path(f"/proc/{process.pid}/fd").iterdir()), default=2) + 1
    )
    limit = now + spare
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    return limit


def soft_open_files(pid: int, soft: int) -> None:
    """Set the soft limit of open files of the live process `pid` to `soft`. Processes that this
    process starts from now on inherit the limit, and each may raise its own limit again.
    """
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def address_space(process: Process, spare: int = 0) -> None:
    """Limit the memory that the live `process` may map to what it has mapped now and `spare` bytes
    more. Further allocations of the process then fail.
    """
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + spare
    resource.prlimit(process.pid, resource.RLIMIT_AS, (limit, limit))


def needs_memory_groups() -> str:
    """Return why no control group with a memory limit can be made on this machine, or "" if that is
    possible.
    """
    if os.geteuid() != 0:
        return "control groups can be made by root only"
    if not (_V1 / "memory.limit_in_bytes").exists() and "memory" not in _text(
        _V2 / "cgroup.subtree_control"
    ):
        return "the memory controller is not there for control groups of our own"
    try:
        with memory_group("probe"):
            return ""
    except OSError as error:
        return f"no control group can be made ({error.strerror})"


def needs_memory_groups_and_kernel_log() -> str:
    """Return why no control group with a memory limit can be made on this machine or its kernel log
    cannot be read, or "" if both are possible.
    """
    if not os.access("/dev/kmsg", os.R_OK):
        return "the kernel log is hidden here"
    return needs_memory_groups()


@contextlib.contextmanager
def memory_group(name: str) -> Iterator[Path]:
    """Make a control group of the kernel, and yield its directory for the length of a `with` block.
    When the block ends the group is removed, and processes that are still in it move to the group
    above. `name` becomes a part of the group's name. Raises OSError if the group cannot be made.
    """
    parent = _V1 if (_V1 / "memory.limit_in_bytes").exists() else _V2
    group = parent / f"bs4-practice-{os.getpid()}-{name}"
    group.mkdir()
    try:
        yield group
    finally:
        for pid in _text(group / "cgroup.procs").split():
            with contextlib.suppress(OSError):  # it ends while we look
                (parent / "cgroup.procs").write_text(pid)
        group.rmdir()


def confine(group: Path, process: Process, spare: int) -> None:
    """Put `process` into the control group `group` and limit the group's memory to `spare` bytes.
    Memory that the process already has does not count; the kernel ends a process of the group when
    the group takes more.
    """
    (group / "cgroup.procs").write_text(str(process.pid))
    limit = group / (
        "memory.limit_in_bytes" if (group / "memory.limit_in_bytes").exists() else "memory.max"
    )
    limit.write_text(str(spare))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
