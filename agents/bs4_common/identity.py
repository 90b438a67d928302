"""Naming a process so that it cannot be mistaken for another. A pid alone is reused; a pid with
start ticks, boot and pid namespace is not.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from bs4_common.clock import boot_id


class IdentityFields(TypedDict):
    """The fields of an `Identity` (which process it is) as a dictionary, as records have it."""

    pid: int
    start_ticks: int
    boot_id: str
    pidns: int


@dataclass(frozen=True)
class Identity:
    """What identifies one process, also after its pid was given to another process. `start_ticks`
    is its start time, field 22 of /proc/PID/stat (clock ticks since boot). `pidns` is the inode of
    its pid namespace.
    """

    pid: int
    start_ticks: int
    boot_id: str
    pidns: int

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """Return the identity of the process `pid`, or None if there is no such process. A zombie
        (ended, but not yet reaped) still has an identity.
        """
        ticks = start_ticks(pid)
        if ticks is None:
            return None
        return cls(pid, ticks, boot_id(), own_pidns())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Identity:
        """Return the identity in a dictionary that `as_dict` has made. Raises KeyError, TypeError
        or ValueError if it is none.
        """
        return cls(
            int(data["pid"]), int(data["start_ticks"]), str(data["boot_id"]), int(data["pidns"])
        )

    def as_dict(self) -> IdentityFields:
        """Return the identity as a dictionary for the journal (the agent's log of actions and
        incidents).
        """
        return {
            "pid": self.pid,
            "start_ticks": self.start_ticks,
            "boot_id": self.boot_id,
            "pidns": self.pidns,
        }

    def alive(self) -> bool:
        """Return True if exactly this process still runs. A zombie counts as ended, because it has
        no memory, no open files and no GPU.
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
        """Send the signal `signum` to exactly this process and return True. Return False if it has
        ended.

        A pidfd is opened first, and the identity is compared after that. So the signal cannot reach
        another process to which the kernel has given the same pid in between.
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
    """Return the fields of /proc/PID/stat from field 3 (the state) on, so field N is at index N -
    3. Return None if the process has ended or may not be read.
    """
    # A plain descriptor, because a file object doubles the cost, and every scan reads this for
    # every process of every run.
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
    # The command name (field 2) is in parentheses and may itself hold spaces and parentheses, so
    # split after the last one.
    return raw[raw.rindex(b")") + 2 :].decode("ascii", "replace").split()


def start_ticks(pid: int) -> int | None:
    """Return the time at which the process `pid` started, in clock ticks since the boot, or None if
    it has ended or may not be read.
    """
    fields = stat_fields(pid)
    if fields is None:
        return None
    return int(fields[19])


def own_pidns() -> int:
    """Return the inode of the agent's own pid namespace, or 0 if it cannot be read. A pid that was
    recorded in another pid namespace does not mean the same process in this one.
    """
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
