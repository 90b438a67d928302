"""Ray's daemon on the node: starts the actors, tells the driver how they end, and ends them when
the driver is gone.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .. import processes
from . import actors, memory

#: As Ray's file system monitor: from this share on nothing is spilled any more, told every ten
#: seconds.
_FULL, _TOLD_EVERY_S = 0.95, 10.0
_LEFT = "A worker died or was killed while executing a task by an unexpected system error."


def main(arguments: Sequence[str]) -> int:
    """Imitate Ray's daemon: start the imitations of Ray's processes, one of which is the task
    runner, and print the exit code of the task runner when it ends. When the program that started
    this one (the driver) is gone, end all of them. `arguments` are the directory of logs, the
    number of workers, and the command line that the task runner trains with. Returns 0.
    """
    logs, count, words = Path(arguments[0]), int(arguments[1]), list(arguments[2:])
    processes.set_title("/usr/lib/python3/site-packages/ray/core/src/ray/raylet/raylet")
    for agent in ("DashboardAgent", "RuntimeEnvAgent"):
        # they outlive us, as the real ones do
        actors.start("agent", agent, logs=logs, watched=False)
    pairs = [socket.socketpair() for _ in range(count)]
    workers = [
        actors.start("worker", str(rank), str(count), logs=logs, sockets=(theirs,))
        for rank, (_, theirs) in enumerate(pairs)
    ]
    runner = actors.start("runner", *words, logs=logs, sockets=tuple(ours for ours, _ in pairs))
    for pair in pairs:
        for end in pair:
            end.close()
    told: set[int] = set()
    disk, node = _Disk(logs.parent), memory.Monitor()
    while runner.poll() is None:
        if _driver_gone(0.1):
            return _end([runner, *workers])
        if (full := node.look()) is not None:
            told |= _relieve(workers, logs, *full)
        for worker in [w for w in workers if w.poll() is not None and w.pid not in told]:
            told.add(worker.pid)
            sys.stderr.write(f"{_LEFT}\n")
        disk.look()
    code = runner.returncode
    print(f"exit {code}", flush=True)
    while not _driver_gone(0.1):
        time.sleep(0.05)
    return _end(workers)


def _relieve(
    workers: Sequence[subprocess.Popen[bytes]], logs: Path, used: int, whole: int
) -> set[int]:
    """End the youngest worker, whose death is then no unexpected error of the system. Its pid,
    nobody's where none is left.
    """
    for rank, worker in reversed(list(enumerate(workers))):
        if worker.poll() is None:
            actors.note_death(
                logs, f"worker-{rank}", memory.cause(worker.pid, "WorkerDict", used, whole)
            )
            worker.kill()
            worker.wait()
            return {worker.pid}
    return set()


class _Disk:
    """The file system that the session lies on."""

    def __init__(self, session: Path) -> None:
        self._session = session
        self._told = -_TOLD_EVERY_S

    def look(self) -> None:
        status = os.statvfs(self._session)
        free = status.f_bavail / max(status.f_blocks, 1)
        if free > 1 - _FULL or time.monotonic() - self._told < _TOLD_EVERY_S:
            return
        self._told = time.monotonic()
        left, whole = (
            blocks * status.f_frsize / 2**30 for blocks in (status.f_bavail, status.f_blocks)
        )
        stamp = f"{time.strftime('%Y-%m-%d %H:%M:%S')},000 E {os.getpid()} {os.getpid()}"
        sys.stderr.write(
            f"[{stamp}] (raylet) file_system_monitor.cc:116: {self._session} is "
            f"over 95% full, available space: {left:.4g} GB; capacity: {whole:.4g} GB. Object "
            "creation will fail if spilling is required.\n"
        )


def _driver_gone(seconds: float) -> bool:
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and not os.read(0, 1)


def _end(children: Sequence[subprocess.Popen[bytes]]) -> int:
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
    for child in children:
        child.wait()
    return 0
