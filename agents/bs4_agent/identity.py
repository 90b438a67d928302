"""A process, named so that it cannot be mistaken: pid alone is reused, pid with start ticks, boot
and pid namespace is not.
"""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bs4_agent.clock import boot_id


@dataclass(frozen=True)
class Identity:
    """One process life. `start_ticks` is field 22 of /proc/PID/stat (clock ticks since boot),
    `pidns` the inode of its pid namespace.
    """

    pid: int
    start_ticks: int
    boot_id: str
    pidns: int

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """The identity of a live pid, or None when there is none (zombies still have one)."""
        ticks = start_ticks(pid)
        if ticks is None:
            return None
        return cls(pid, ticks, boot_id(), own_pidns())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Identity:
        return cls(
            int(data["pid"]), int(data["start_ticks"]), str(data["boot_id"]), int(data["pidns"])
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "start_ticks": self.start_ticks,
            "boot_id": self.boot_id,
            "pidns": self.pidns,
        }

    def alive(self) -> bool:
        """Whether this very process still runs. A zombie has ended: it holds no memory, no files
        and no GPU.
        """
        if self.boot_id != boot_id() or self.pidns != own_pidns():
            return False
        fields = stat_fields(self.pid)
        return (
            fields is not None
            and int(fields[19]) == self.start_ticks
            and fields[0] not in ("Z", "X")
        )

    def send(self, signum: int) -> bool:
        """Signal this process and no other; False when it is gone.

        The pidfd is opened first and the identity compared afterwards: a pid that is reused in
        between is another process, and the descriptor then still points to the one that was
        compared (or to nothing).
        """
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.alive():
                return False
            signal.pidfd_send_signal(fd, signum)
        except ProcessLookupError:
            return False
        finally:
            os.close(fd)
        return True

    def __str__(self) -> str:
        return f"pid {self.pid} (start {self.start_ticks})"


def stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state (field 3) on, or None when the process is gone.
    Index = field number - 3.
    """
    # A plain descriptor: a file object doubles the cost, and every look asks this of every member
    # of every run.
    fd = -1
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        raw = os.read(fd, 4096)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM):
            return None
        raise
    finally:
        if fd >= 0:
            os.close(fd)
    # The command name (field 2) is in parentheses and may hold spaces and parentheses itself: split
    # after the last one.
    return raw[raw.rindex(b")") + 2 :].decode("ascii", "replace").split()


def start_ticks(pid: int) -> int | None:
    fields = stat_fields(pid)
    if fields is None:
        return None
    return int(fields[19])


def own_pidns() -> int:
    """Inode of our pid namespace: pids of another one mean nothing here."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
