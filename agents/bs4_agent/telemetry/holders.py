"""Find the processes that have a GPU's device node open. Inside a container this is the only proof
of GPU use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bs4_agent.telemetry.processes import Proc
    from bs4_common.identity import Identity

# A scan of one process costs 4 µs for each open file, and vLLM ranks have hundreds. 24 of them with
# 200 files each take 20 ms, which every 5 s would be all of the agent's budget. So a known holder
# is confirmed through the descriptors that proved it (about ten).
_CONFIRM_S = 5.0
_LIST_S = 30.0
# CUDA opens all GPUs that it may use at once. A holder that opens another one later is rare.
_LIST_HOLDER_S = 120.0
_YOUNG_S = 60.0
_URGENT_S = 1.0

_UVM = -1
_CONTROL = -2
_NODES = {"ctl": _CONTROL, "-uvm": _UVM, "-uvm-tools": _CONTROL}


class _Look:
    """The device nodes that one process had open at the last scan. `nodes` maps a node (its minor
    number, _UVM or _CONTROL) to a descriptor that showed it. `hidden` is True if its descriptors
    cannot be read.
    """

    __slots__ = ("confirmed_m", "hidden", "identity", "listed_m", "nodes")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.listed_m = float("-inf")
        self.confirmed_m = float("-inf")
        self.nodes: dict[int, int] = {}
        self.hidden = False


def _pause(look: _Look, urgent: bool, young: bool) -> float:
    """Return the seconds between two listings of all files of a process. A process that has a GPU
    already needs none soon; a young process may be about to open one.
    """
    if any(node >= 0 for node in look.nodes):
        return _LIST_HOLDER_S
    if urgent:
        return _URGENT_S
    if young:
        return _CONFIRM_S
    return _LIST_S


class DeviceHolders:
    """Finds the processes (holders) that have NVIDIA device nodes open, such as `nvidia0` in the
    directory `dev`. That is /dev, except in tests and on practice pods (simulated ones). This
    object is not thread-safe; ProcessTable holds a lock while it uses it.
    """

    def __init__(self, dev: Path) -> None:
        # Links under /proc/PID/fd show the resolved path.
        self._prefix = os.path.realpath(dev) + "/nvidia"
        self._looks: dict[int, _Look] = {}

    def scan(self, processes: Mapping[int, Proc], urgent: Collection[int]) -> dict[int, set[int]]:
        """Return {pid: minor numbers} for those of `processes` that have an NVIDIA device node
        open. The minor numbers are a set with the N of each /dev/nvidiaN (a GPU) that the process
        has open. The set is empty if it has only nvidiactl or nvidia-uvm open.

        To save time, the open files of most processes are read again only after 5 to 120 s. Those
        of a process whose pid is in `urgent` and that had no GPU open are read again after a
        second.
        """
        now, wall = time.monotonic(), time.time()
        for pid in self._looks.keys() - processes.keys():
            del self._looks[pid]
        for pid, proc in processes.items():
            if proc.ended:
                self._looks.pop(pid, None)
                continue
            look = self._looks.get(pid)
            if look is None or look.identity != proc.identity:
                look = self._looks[pid] = _Look(proc.identity)
            if now - look.listed_m >= _pause(look, pid in urgent, wall - proc.started_t < _YOUNG_S):
                self._list(pid, look, now)
            elif look.nodes and now - look.confirmed_m >= _CONFIRM_S:
                self._confirm(pid, look, now)
        return {
            pid: {node for node in look.nodes if node >= 0}
            for pid, look in self._looks.items()
            if look.nodes
        }

    def monitors(self, processes: Mapping[int, Proc]) -> set[int]:
        """Return the pids of those of `processes` that have a GPU open only to watch it, such as
        nvidia-smi and this agent. CUDA needs the device nvidia-uvm. If at least one of `processes`
        has it open, all that have a GPU open without it are watchers. If none has, only the
        agent's pid can be in the result.

        The open files are those that the last `scan` found.
        """
        holders, computing = set(), set()
        for pid, look in self._looks.items():
            if look.nodes and pid in processes:
                holders.add(pid)
                if _UVM in look.nodes:
                    computing.add(pid)
        watching = holders - computing if computing else set()
        return watching | ({os.getpid()} & holders)

    def unreadable(self, processes: Mapping[int, Proc]) -> int:
        """Return how many of `processes` have open files that the agent was not permitted to see at
        the last `scan`. Each of them may hold a GPU without the agent knowing it.
        """
        return sum(look.hidden for pid, look in self._looks.items() if pid in processes)

    def _list(self, pid: int, look: _Look, now: float) -> None:
        """Read all open files of a process."""
        look.listed_m = look.confirmed_m = now
        look.nodes = {}
        try:
            # A Path for each entry would double the cost.
            descriptors = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
        except PermissionError:
            look.hidden = True
            return
        except (FileNotFoundError, ProcessLookupError):
            return
        look.hidden = False
        for fd in descriptors:
            node = self._node(pid, fd)
            if node is not None:
                look.nodes[node] = int(fd)

    def _confirm(self, pid: int, look: _Look, now: float) -> None:
        """Read only the descriptors that showed device nodes, and all open files if one of them
        changed.
        """
        look.confirmed_m = now
        if any(self._node(pid, fd) != node for node, fd in look.nodes.items()):
            self._list(pid, look, now)

    def _node(self, pid: int, fd: int | str) -> int | None:
        """Return the device node behind a descriptor, or None if it is none."""
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")  # noqa: PTH115  as above
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return None
        if not target.startswith(self._prefix):
            return None
        name = target[len(self._prefix) :].removesuffix(" (deleted)")
        if name.isdigit():
            return int(name)
        return _NODES.get(name)
