"""Processes below a process: looking at them, and ending them. By descent only, never by name."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One process as /proc shows it. `start_ticks` is when the process was started, in clock ticks
    since boot; two processes that had the same id differ in it. `state` is the letter that ps
    shows. `cmdline` holds the arguments, or the title as one word if the process set a title.
    """

    pid: int
    ppid: int
    start_ticks: int
    state: str
    cmdline: tuple[str, ...]

    @property
    def title(self) -> str:
        """Return the command line of the process, its words joined by blanks, or its title if the
        process has set one.
        """
        return " ".join(self.cmdline)


def look(pid: int) -> Process | None:
    """Return the process `pid` as it is now, or None if it is gone."""
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = raw[raw.rindex(b")") + 2 :].split()
    words = command.decode(errors="replace").rstrip("\0").split("\0")
    return Process(pid, int(fields[1]), int(fields[19]), fields[0].decode(), tuple(words))


def below(root: int) -> list[Process]:
    """Return every live descendant of the process `root`, parents before children. Zombies are not
    alive.
    """
    children: dict[int, list[Process]] = {}
    for entry in Path("/proc").iterdir():
        if (
            entry.name.isdigit()
            and (process := look(int(entry.name))) is not None
            and process.state not in "ZX"
        ):
            children.setdefault(process.ppid, []).append(process)
    found: list[Process] = []
    queue = [root]
    while queue:
        mine = children.get(queue.pop(0), [])
        found += mine
        queue += [process.pid for process in mine]
    return found


def alive(process: Process) -> bool:
    """Return True if exactly this process is still alive. A zombie is not, nor is a later process
    with the same id.
    """
    now = look(process.pid)
    return now is not None and now.start_ticks == process.start_ticks and now.state not in "ZX"


def send(process: Process, number: int) -> bool:
    """Send the signal `number` to exactly this process; a later process of the same id gets none.
    Return True, or False if the process is gone.
    """
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not alive(process):
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def end_below(root: int, patience: float = 2.0) -> None:
    """End every descendant of the process `root`: SIGTERM, `patience` seconds, then SIGKILL until
    none is left. Stopped processes are continued first, or they would never see the SIGTERM. Raises
    TimeoutError if some outlive ten seconds of SIGKILL.
    """
    for process in below(root):
        send(process, signal.SIGCONT)
        send(process, signal.SIGTERM)
    deadline = time.monotonic() + patience
    while below(root) and time.monotonic() < deadline:
        time.sleep(0.02)
    deadline = time.monotonic() + 10
    while left := below(root):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"Processes {', '.join(str(process.pid) for process in left)} of the "
                "practice pod outlive SIGKILL."
            )
        for process in left:
            send(process, signal.SIGKILL)
        time.sleep(0.02)
