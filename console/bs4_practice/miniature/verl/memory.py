"""Ray's memory monitor (2.9 to 2.54): above 95 % of the node's memory it ends the youngest worker,
before the kernel would end any process.

A container's limit is what Ray reads as the node's memory. Here that is the control group that the
raylet itself is in, and only where it has a limit: the machine around a practice pod is none of the
pod's.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

#: RAY_memory_usage_threshold and RAY_memory_monitor_refresh_ms.
_THRESHOLD, _EVERY_S = 0.95, 0.25
_GIB = 2**30


class Monitor:
    """Watches how much of the node's memory is used, as Ray does. The node's memory is what the
    control group of this process allows.
    """

    def __init__(self) -> None:
        self._looked = 0.0

    def look(self) -> tuple[int, int] | None:
        """Return (used bytes, all bytes) of the node's memory if more than 95 percent are used.
        Return None if at most 95 percent are used, if there is no limit, or if the last call that
        measured was less than 0.25 seconds ago.
        """
        if time.monotonic() - self._looked < _EVERY_S:
            return None
        self._looked = time.monotonic()
        found = _measure()
        return found if found is not None and found[0] > _THRESHOLD * found[1] else None


def cause(pid: int, what: str, used: int, whole: int) -> str:
    """Return the message with which Ray ends the worker with the process id `pid` for lack of
    memory. `what` is the worker's class, and `used` and `whole` are the used and all bytes of the
    node's memory.
    """
    users = sorted(((_resident(one), one) for one in _members()), reverse=True)[:10]
    lines = "\n".join(f"{one}\t{size / _GIB:.2f}\t{_command(one)}" for size, one in users)
    return (
        "Task was killed due to the node running low on memory.\n"
        f"Memory on the node (IP: 127.0.0.1, ID: {os.getpid():056x}) where the task (actor ID: "
        f"{pid:032x}, name={what}.__init__, "
        f"pid={pid}, memory used={_resident(pid) / _GIB:.2f}GB) was running was "
        f"{used / _GIB:.2f}GB / {whole / _GIB:.2f}GB "
        f"({used / whole:.6f}), which exceeds the memory usage threshold of {_THRESHOLD:g}. Ray "
        f"killed this worker (ID: {pid:056x}) "
        "because it was the most recently scheduled task; to see more information about memory "
        "usage on this node, use `ray logs "
        "raylet.out -ip 127.0.0.1`. To see the logs of the worker, use `ray logs "
        f"worker-{pid:056x}*out -ip 127.0.0.1. "
        f"Top 10 memory users:\nPID\tMEM(GB)\tCOMMAND\n{lines}\n"
        "Refer to the documentation on how to address the out of memory issue: "
        "https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html."
    )


def _group() -> Path | None:
    """This process's control group for memory; None where there is none to be seen."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("memory", ""):
            group = Path("/sys/fs/cgroup", controllers, path.lstrip("/"))
            if (group / "memory.limit_in_bytes").exists() or (group / "memory.max").exists():
                return group
    return None


def _measure() -> tuple[int, int] | None:
    """Used and whole bytes; what the kernel could drop at once (files that it has read) is not
    used. None without a limit.
    """
    group = _group()
    if group is None:
        return None
    old = (group / "memory.limit_in_bytes").exists()
    limit = (group / ("memory.limit_in_bytes" if old else "memory.max")).read_text().strip()
    if limit == "max" or int(limit) >= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        return None
    used = int((group / ("memory.usage_in_bytes" if old else "memory.current")).read_text())
    stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    prefix = "total_" if old else ""
    return used - sum(
        int(stat.get(f"{prefix}{kind}_file", 0)) for kind in ("inactive", "active")
    ), int(limit)


def _members() -> list[int]:
    group = _group()
    return (
        [] if group is None else [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    )


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _command(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode("utf-8", "replace")
            .strip()[:100]
        )
    except (FileNotFoundError, ProcessLookupError):
        return ""
