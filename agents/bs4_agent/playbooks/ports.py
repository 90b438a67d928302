"""Finds the processes that listen on a TCP port, from /proc/net/tcp and the open descriptors of the
processes that the agent may read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_common.credentials.forms import shown_command
from bs4_common.identity import Identity

_LISTEN = "0A"


@dataclass(frozen=True)
class PortHolder:
    """A process that listens on a TCP port.

    `identity` is None if the port is in use but its process cannot be seen. `run` is the name of
    the run to which the process belongs, if an attempt of that run is alive. `dead_run` is the name
    of the run whose attempt has ended and has left the process behind. Both are None for a process
    that belongs to no known run. `same_user` is True if the process belongs to the agent's user.
    """

    port: int
    identity: Identity | None
    cmdline: Sequence[str] = ()
    run: str | None = None
    dead_run: str | None = None
    same_user: bool = False

    def line(self) -> str:
        """Return a text for people: the pid, command and port of the process, and, if it belongs to
        a living run, the name of that run. If the process cannot be seen, the text says so.
        """
        if self.identity is None:
            return f"a process that cannot be seen (port {self.port})"
        of = f" of the run {self.run}" if self.run is not None else ""
        return f"pid {self.identity.pid} {shown_command(self.cmdline, 80)}{of} (port {self.port})"


def listening(ports: Collection[int]) -> dict[str, int]:
    """Return {socket inode: port} for each socket that listens on one of the TCP ports `ports`.
    Return {} if there is none.
    """
    found: dict[str, int] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue  # a kernel without IPv6 has no second table
        for line in lines:
            fields = line.split()
            port = int(fields[1].rpartition(":")[2], 16)
            if fields[3] == _LISTEN and port in ports:
                found[fields[9]] = port
    return found


def openers(inodes: Collection[str], pids: Iterable[int]) -> dict[str, list[int]]:
    """Return {socket inode: pids}: for each of `inodes` those of `pids` that have the socket open.
    Inodes that none of them has open are left out. If the agent may not read a process, that
    process counts as not having it open.
    """
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[str, list[int]] = {}
    for pid in pids:
        directory = f"/proc/{pid}/fd"
        try:
            # A Path for every descriptor would double the cost.
            descriptors = os.listdir(directory)  # noqa: PTH208
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                target = os.readlink(f"{directory}/{descriptor}")  # noqa: PTH115
            except OSError:
                continue
            inode = wanted.get(target)
            if inode is not None and pid not in found.setdefault(inode, []):
                found[inode].append(pid)
    return found
