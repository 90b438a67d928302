"""Measure the machine of a run: CPU, memory, /dev/shm, the disks it writes to, network."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from bs4_agent.telemetry.background import Background
from bs4_agent.telemetry.memory import MemoryMeter
from bs4_common.files import disk_usage, unknown_disk

# The kernel's shared memory mount is measured; nothing is written.
_SHM = Path("/dev/shm")  # noqa: S108
_DISKS_S = 2.0
_DISKS_STALE_S = 15.0


class HostSampler:
    """Makes the value of `host` in telemetry records: CPU, memory, disks and network of the
    machine. The function `paths` returns the directories whose disks are measured. In the first
    sample `cpu` and the rates in `net` are null, because they are computed from two samples.
    """

    def __init__(self, paths: Callable[[], Sequence[Path]]) -> None:
        self._cores = psutil.cpu_count() or 1
        self._memory = MemoryMeter()
        self._cpu_before: tuple[float, float] | None = None
        self._net_before: tuple[float, int, int] | None = None
        self._paths = paths
        self._wanted = list(paths())
        # statvfs of a dead network volume never returns, so disks are read in a thread of their
        # own.
        self._disks = Background(
            "disks", lambda: [disk_usage(path) for path in one_per_device(self._wanted)], _DISKS_S
        )

    def sample(self) -> dict[str, Any]:
        """Return the value of `host` in a telemetry record, a dictionary, for this moment. Sizes of
        memory and disks are in bytes, `cpu` is in percent of all cores (0 to 100), and the rates in
        `net` are in bytes per second. A value that is not known is None.
        """
        # Called here, so that only the caller's own thread ever calls it.
        self._wanted = list(self._paths())
        used, total = self._memory.used_and_total()
        shm = disk_usage(_SHM)  # a tmpfs answers from memory
        return {
            "cpu": self._cpu(),
            "cores": self._cores,
            "load1": round(os.getloadavg()[0], 2),
            "mem_used": used,
            "mem_total": total,
            "shm_used": shm["used"],
            "shm_total": shm["total"],
            "disks": self._disks_now(),
            "net": self._net(),
        }

    def wait_first(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until the sizes of the disks were read for the first time,
        so that the first record already has them. Return True if they were read, and False if the
        time is over.
        """
        return self._disks.wait_first(timeout)

    def close(self) -> None:
        """Stop the thread that reads the sizes of the disks."""
        self._disks.stop()

    def _cpu(self) -> float | None:
        """Return the busy share of all cores since the previous sample, in percent. Waiting for a
        disk is not busy. None at the first sample.
        """
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        # User time contains guest time.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        before, self._cpu_before = self._cpu_before, (total, idle)
        if before is None or total <= before[0]:
            return None
        return round(
            min(max(100.0 * (1 - (idle - before[1]) / (total - before[0])), 0.0), 100.0), 1
        )

    def _net(self) -> dict[str, int | None]:
        """Return the bytes per second of all interfaces but loopback. They are null if a counter
        went back, because an interface was removed.
        """
        now = (time.monotonic(), *net_bytes())
        before, self._net_before = self._net_before, now
        if before is None or now[1] < before[1] or now[2] < before[2] or now[0] <= before[0]:
            return {"rx": None, "tx": None}
        elapsed = now[0] - before[0]
        return {
            "rx": int((now[1] - before[1]) / elapsed),
            "tx": int((now[2] - before[2]) / elapsed),
        }

    def _disks_now(self) -> list[dict[str, Any]]:
        """Return the disks of the last reading. If it is too old, a disk keeps its place with null
        numbers instead of old ones.
        """
        disks, age = self._disks.newest()
        if disks is None or age is None:
            return []
        if age > _DISKS_STALE_S:
            return [unknown_disk(disk["path"]) for disk in disks]
        return disks


def net_bytes(path: str = "/proc/net/dev") -> tuple[int, int]:
    """Return two numbers: how many bytes were received and how many were sent since the boot, over
    all network interfaces but loopback. They are read from the file `path`; only tests pass another
    one.
    """
    received = sent = 0
    for line in Path(path).read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        if name.strip() != "lo":
            fields = numbers.split()
            received, sent = received + int(fields[0]), sent + int(fields[8])
    return received, sent


def one_per_device(paths: Sequence[Path]) -> list[Path]:
    """Return those of `paths` that are the first on their filesystem, in their order, so that no
    filesystem is measured twice. A path that does not exist yet counts as being on the filesystem
    of its nearest parent that exists.
    """
    found: dict[int, Path] = {}
    for path in paths:
        for place in (path, *path.parents):
            try:
                found.setdefault(place.stat().st_dev, path)
                break
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:  # a mount that is broken: the look at it says so
                found.setdefault(-len(found) - 1, path)
                break
    return list(found.values())
