"""Measure how much memory the agent's processes may use: the machine's, or the control group's if
that is less. A container's /proc/meminfo is that of its host.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class _Limits:
    """The file names of one control group version."""

    limit: str
    usage: str
    inactive: str


_V1 = _Limits("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Limits("memory.max", "memory.current", "inactive_file")


class MemoryMeter:
    """Measures how much memory the processes of the agent's container or machine use, and how much
    they may use. On creation it finds the control group with the lowest memory limit. `cgroups` and
    `own` are paths that only tests change.
    """

    def __init__(
        self, cgroups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
    ) -> None:
        self._total = int(psutil.virtual_memory().total)
        self._group, self._files, self._limit = self._narrowest(cgroups, own)

    def used_and_total(self) -> tuple[int, int]:
        """Return the used memory and the total memory, both in bytes. They are those of the control
        group with the lowest limit, or of the whole machine if no control group limits memory below
        the machine's. File cache that the kernel would give back does not count as used.
        """
        if self._group is not None and self._files is not None:
            usage = _number(self._group / self._files.usage)
            if usage is not None:
                return max(usage - self._reclaimable(self._group, self._files), 0), self._limit
        available = _available()
        return self._total - (
            int(psutil.virtual_memory().available) if available is None else available
        ), self._total

    def _narrowest(self, cgroups: Path, own: Path) -> tuple[Path | None, _Limits | None, int]:
        """Return the control group with the lowest limit below the machine's memory, its file
        names, and the limit in bytes. The group is None if there is no such limit.
        """
        found: tuple[Path | None, _Limits | None, int] = (None, None, self._total)
        for base, path, files in _memberships(cgroups, own):
            # In a container the path may be the host's while the mount shows only the own group.
            # Then the mount's root is that group.
            for group in (base / path, *(base / path).parents):
                limit = _number(group / files.limit)
                # No limit is the word max in v2, and a number beyond all memory in v1.
                if limit is not None and limit < found[2]:
                    found = (group, files, limit)
                if group == base:
                    break
        return found

    def _reclaimable(self, group: Path, files: _Limits) -> int:
        """Return the bytes of file cache that the kernel would give back."""
        try:
            for line in (group / "memory.stat").read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == files.inactive:
                    return int(value)
        except OSError:
            return 0
        return 0


def _memberships(cgroups: Path, own: Path) -> list[tuple[Path, str, _Limits]]:
    """Return the memory controllers that this process is in: the mount, the path below it, and the
    file names. Lines of /proc/self/cgroup are `id:controllers:/path`.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found.append((cgroups, path.lstrip("/"), _V2))
        elif "memory" in controllers.split(","):
            found.append((cgroups / "memory", path.lstrip("/"), _V1))
    return found


def _available() -> int | None:
    """Return MemAvailable of /proc/meminfo in bytes, or None if it is missing.

    It is among the first lines. psutil parses all sixty of them (0.25 ms a second of the agent's
    5).
    """
    fd = os.open("/proc/meminfo", os.O_RDONLY)
    try:
        for line in os.read(fd, 256).splitlines():
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
        return None
    finally:
        os.close(fd)


def _number(path: Path) -> int | None:
    """Return the number in a file, or None if there is no such file or no number in it."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
