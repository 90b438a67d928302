"""The processes of a pod: one cheap pass over /proc, with an identity for each process that cannot
be confused with another one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from bs4_agent.containers import processes
from bs4_agent.scope import Scope
from bs4_agent.telemetry.holders import DeviceHolders
from bs4_common.clock import boot_id
from bs4_common.identity import Identity

_HZ = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD in field 9 of /proc/PID/stat

# Titles come late: setproctitle runs after the imports, which take 5 to 30 s under vLLM. It also
# sets the command name, which every pass reads anyway, so after the first seconds a change of name
# is the signal. The slow re-read is for an exec that keeps the name.
_YOUNG_S = 10.0
_CMDLINE_AGAIN_S = 60.0
_CMDLINE_BYTES = 32768

# Two readers within this time share one CPU value. At 100 ticks a second a shorter interval
# measures only rounding.
_CPU_INTERVAL_S = 0.5

# A bare GPU host has 1,000 to 3,000 kernel threads, none of which can belong to a run. At 8 µs each
# they alone would be 1 % of a core. A pid that is known to be one is read again only on every 15th
# full pass (30 s), in turns.
_KERNEL_RECHECK_PASSES = 15

_EXITS_KEPT = 4096


class Proc(NamedTuple):
    """One process at one moment.

    `state` is the state letter of /proc/PID/stat; a process in state Z (zombie) has ended. `cpu` is
    in percent of ONE core since the previous scan, so eight busy threads make 800; it is None at
    the first scan. `rss` is its memory in bytes. `uid` is the owner of /proc/PID: the effective
    user, or 0 for a process that forbids inspection. `started_t` is its start as Unix time in
    seconds. `cmdline` is the last command line that was not empty, so a zombie keeps its name.
    """

    identity: Identity
    ppid: int
    state: str
    comm: str
    cmdline: tuple[str, ...]
    uid: int
    rss: int
    cpu: float | None
    started_t: float

    @property
    def ended(self) -> bool:
        """Return True if the process has ended. That is so for a zombie, although it is still
        listed.
        """
        return self.state in ("Z", "X")


class Snapshot(dict[int, Proc]):
    """The processes at one moment, as a dictionary that maps each pid to its Proc. `m` is that
    moment, in seconds of the monotonic clock. A snapshot is never changed after it was returned.
    """

    m: float = 0.0

    def find(self, identity: Identity) -> Proc | None:
        """Return the process with this identity, also if it is a zombie. Return None if the process
        is not in the snapshot, even if another process has the same pid by now.
        """
        proc = self.get(identity.pid)
        if proc is not None and proc.identity == identity:
            return proc
        return None

    def descendants(self, root: Identity) -> list[Proc]:
        """Return all descendants of the process `root`, parents before children, without the
        process itself. The list is empty if `root` is not in the snapshot.
        """
        return self.descendants_of([root])

    def descendants_of(self, roots: Collection[Identity]) -> list[Proc]:
        """Return all descendants of the processes `roots`, parents before children, without these
        processes themselves. A process of `roots` that is not in the snapshot is ignored. The list
        is empty if there are no descendants.
        """
        by_parent: dict[int, list[Proc]] = {}
        for proc in self.values():
            by_parent.setdefault(proc.ppid, []).append(proc)
        known = {root.pid for root in roots}
        queue = [root for root in roots if self.find(root) is not None]
        found: list[Proc] = []
        for parent in queue:
            for proc in by_parent.get(parent.pid, ()):
                if proc.identity.pid not in known and _can_be_child(proc, parent):
                    known.add(proc.identity.pid)
                    found.append(proc)
                    queue.append(proc.identity)
        return found


def _can_be_child(proc: Proc, parent: Identity) -> bool:
    """Return True if the process is not older than its supposed parent. A pass is not atomic: a
    parent may end and its pid be taken before it is read.
    """
    return proc.identity.start_ticks >= parent.start_ticks


class _Entry:
    """What is remembered of one process between two scans."""

    __slots__ = (
        "cmdline",
        "comm",
        "cpu",
        "cpu_m",
        "cpu_ticks",
        "ended",
        "identity",
        "inner",
        "inside",
        "names_due_m",
        "started_t",
        "uid",
        "young_m",
    )

    def __init__(self, identity: Identity, age: float, now: float) -> None:
        self.identity = identity
        self.started_t = round(time.time() - age, 2)
        self.young_m = now - age + _YOUNG_S
        self.names_due_m = now
        self.cmdline: tuple[str, ...] = ()
        self.comm = ""
        self.uid = -1
        self.cpu: float | None = None
        self.cpu_m = 0.0
        self.cpu_ticks = 0
        self.inner: tuple[int, ...] | None = None
        self.inside = False
        self.ended = False

    def read_names(self, comm: str, now: float) -> None:
        """Read the command line and the owner if they may have changed."""
        if comm == self.comm and now < self.names_due_m:
            return
        pid = self.identity.pid
        self.comm = comm
        self.names_due_m = now if now < self.young_m else now + _CMDLINE_AGAIN_S
        raw = _read(f"/proc/{pid}/cmdline", _CMDLINE_BYTES)
        if raw:
            self.cmdline = tuple(
                part.decode("utf-8", "replace") for part in raw.rstrip(b"\0").split(b"\0")
            )
        try:
            self.uid = os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116  a Path would double the cost
        except (FileNotFoundError, ProcessLookupError):
            return

    def measure_cpu(self, ticks: int, now: float) -> None:
        """Update the CPU share from the clock ticks used so far, at most every 0.5 s."""
        elapsed = now - self.cpu_m
        if self.cpu_m and elapsed < _CPU_INTERVAL_S:
            return
        if self.cpu_m:
            self.cpu = round(100.0 * max(ticks - self.cpu_ticks, 0) / _HZ / elapsed, 1)
        self.cpu_ticks, self.cpu_m = ticks, now


class ProcessTable:
    """All processes within a scope, which is the whole machine or the processes below one process.
    It is thread-safe, and all readers share one cache.

    It reads /proc itself, because psutil does not have the start ticks that an identity needs and
    takes about ten times as long: 77 µs a process instead of 8 (measured, 77 processes, Python
    3.11). With 150 processes every 2 s that is 0.06 % of a core instead of 0.6 %, and the whole
    agent may use 0.5 %.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.exit_seen: dict[Identity, float] = {}
        """The processes of the scope that have ended since they were seen, and the monotonic second
        at which that was noticed; the newest 4,096.
        """
        self._lock = threading.Lock()
        self._entries: dict[int, _Entry] = {}
        self._kernel: set[int] = set()
        self._passes = 0
        self._latest = Snapshot()
        self._full_m = float("-inf")
        self._holders: dict[Path, DeviceHolders] = {}

    def snapshot(self, max_age: float = 2.0) -> Snapshot:
        """Return the latest snapshot of the processes if it is at most `max_age` seconds old.
        Otherwise make a new one and return that.
        """
        with self._lock:
            if time.monotonic() - self._full_m > max_age:
                self._full_pass()
            return self._latest

    def refresh(self) -> Snapshot:
        """Read all processes again, however old the last snapshot is, and return the new one."""
        return self.snapshot(max_age=float("-inf"))

    def holders(self, dev: Path | None = None, urgent: Collection[int] = ()) -> dict[int, set[int]]:
        """Return {pid: minor numbers} for those processes of the latest snapshot that have an
        NVIDIA device node open. The minor numbers are a set with the N of each /dev/nvidiaN (a GPU)
        that the process has open. The set is empty if it has only nvidiactl or nvidia-uvm open.
        `dev` is the directory of the device nodes; None means that of the scope, usually /dev.

        The result is at most 5 s old for processes that hold a GPU and for those in their first
        minute, and 30 s for others. Processes whose pid is in `urgent` are read again after a
        second.
        """
        with self._lock:
            return self._device_holders(dev).scan(self._latest, urgent)

    def monitors(self, dev: Path | None = None) -> set[int]:
        """Return the pids of the processes that have GPUs open only to watch them. These are this
        agent, and every process that does not have nvidia-uvm open while another process has. `dev`
        is the directory of the device nodes; None means the usual one, /dev.

        CUDA cannot work without nvidia-uvm. nvidia-smi, nvtop and similar programs never open it
        and hold no GPU memory.
        """
        with self._lock:
            return self._device_holders(dev).monitors(self._latest)

    def unreadable(self, dev: Path | None = None) -> int:
        """Return how many processes have open files that the agent may not see because they belong
        to other users. Each of these processes may hold a GPU without the agent knowing it. `dev`
        is the directory of the device nodes; None means the usual one, /dev.
        """
        with self._lock:
            return self._device_holders(dev).unreadable(self._latest)

    def inner(self, pids: Iterable[int]) -> dict[int, tuple[int, ...]]:
        """Return {pid: pids inside} for those of `pids` whose process lives in a container. The
        pids inside are those that the process has in the namespaces of its container, outermost
        first. Processes outside a container, and pids that are not in the latest snapshot, are left
        out.
        """
        with self._lock:
            found = {}
            for pid in pids:
                entry = self._entries.get(pid)
                if entry is None or pid not in self._latest:
                    continue
                if entry.inner is None:
                    entry.inner = processes.pids(pid)[1:]
                if entry.inner:
                    found[pid] = entry.inner
            return found

    def _device_holders(self, dev: Path | None) -> DeviceHolders:
        """Return the holders of the device nodes in `dev`, by default the scope's."""
        return self._holders.setdefault(dev or self.scope.dev, DeviceHolders(dev or self.scope.dev))

    def _full_pass(self) -> None:
        """Scan all processes."""
        now = time.monotonic()
        self._passes += 1
        found = Snapshot()
        found.m = now
        alive: set[int] = set()
        for name in os.listdir("/proc"):  # noqa: PTH208  a Path an entry would double the cost
            if not name.isdigit():
                continue
            pid = int(name)
            if pid in self._kernel and (pid + self._passes) % _KERNEL_RECHECK_PASSES:
                alive.add(pid)
                continue
            raw = _read(f"/proc/{pid}/stat", 2048)
            if raw is None:
                continue
            alive.add(pid)
            proc = self._look(pid, raw, now)
            if proc is not None:
                found[pid] = proc
        self._kernel &= alive
        self._latest = self._within_scope(found)
        self._full_m = now
        for pid in self._entries.keys() - alive:
            self._forget(self._entries.pop(pid), now)

    def _look(self, pid: int, raw: bytes, now: float) -> Proc | None:
        """Return the process in a stat line, or None for a kernel thread."""
        close = raw.rindex(b")")  # the command name may itself hold spaces and parentheses
        fields = raw[close + 2 :].split(None, 22)  # index = field number of proc(5) - 3
        if int(fields[6]) & _KERNEL_THREAD:
            self._kernel.add(pid)
            return None
        self._kernel.discard(pid)
        entry = self._entry(pid, int(fields[19]), now)
        entry.read_names(raw[raw.index(b"(") + 1 : close].decode("utf-8", "replace"), now)
        entry.measure_cpu(int(fields[11]) + int(fields[12]), now)
        state, ppid, rss = fields[0].decode(), int(fields[1]), int(fields[21]) * _PAGE
        proc = Proc(
            entry.identity,
            ppid,
            state,
            entry.comm,
            entry.cmdline,
            entry.uid,
            rss,
            entry.cpu,
            entry.started_t,
        )
        if proc.ended and not entry.ended:
            entry.ended = True
            self._note_exit(entry, now)
        return proc

    def _entry(self, pid: int, ticks: int, now: float) -> _Entry:
        """Return what is remembered of the process with this pid and start time."""
        entry = self._entries.get(pid)
        if entry is not None and entry.identity.start_ticks == ticks:
            return entry
        if entry is not None:
            self._forget(entry, now)
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / _HZ
        entry = _Entry(Identity(pid, ticks, boot_id(), self.scope.pidns), age, now)
        self._entries[pid] = entry
        return entry

    def _within_scope(self, found: Snapshot) -> Snapshot:
        """Return only the processes below the scope's root. A process that was once inside stays
        so: a daemon whose parents have ended still belongs to the pod.
        """
        root = self.scope.root
        if root is None:
            return found
        inside = []
        for pid, proc in found.items():
            if self._entries[pid].inside or proc.identity == root:
                inside.append(proc.identity)
        inside += [proc.identity for proc in found.descendants_of(inside)]
        kept = Snapshot()
        kept.m = found.m
        for identity in inside:
            self._entries[identity.pid].inside = True
            kept[identity.pid] = found[identity.pid]
        return kept

    def _forget(self, entry: _Entry, now: float) -> None:
        """Note the exit of a process that is gone."""
        if not entry.ended:
            self._note_exit(entry, now)

    def _note_exit(self, entry: _Entry, now: float) -> None:
        """Remember when a process of the scope ended."""
        if self.scope.root is not None and not entry.inside:
            return
        self.exit_seen[entry.identity] = now
        while len(self.exit_seen) > _EXITS_KEPT:
            del self.exit_seen[next(iter(self.exit_seen))]


def _read(path: str, size: int) -> bytes | None:
    """Return the first `size` bytes of a /proc file, or None if the process is gone or hidden.
    Plain descriptors are used because a file object doubles the cost of a pass.
    """
    try:
        fd = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    try:
        return os.read(fd, size) or None
    except (ProcessLookupError, PermissionError):
        return None
    finally:
        os.close(fd)
