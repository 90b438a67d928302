"""Ray's daemon on the node: starts the actors, tells the driver how they end, and ends them when the driver is gone."""

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
from . import actors

_LEFT = "A worker died or was killed while executing a task by an unexpected system error."


def main(arguments: Sequence[str]) -> int:
    """`raylet LOGS WORKERS WORDS...`: standard input ends with the driver; standard output is the driver's `exit CODE` of the runner."""
    logs, count, words = Path(arguments[0]), int(arguments[1]), list(arguments[2:])
    processes.set_title("/usr/lib/python3/site-packages/ray/core/src/ray/raylet/raylet")
    for agent in ("DashboardAgent", "RuntimeEnvAgent"):
        actors.start("agent", agent, logs=logs, watched=False)  # they outlive us, as the real ones do
    pairs = [socket.socketpair() for _ in range(count)]
    workers = [actors.start("worker", str(rank), str(count), logs=logs, sockets=(theirs,)) for rank, (_, theirs) in enumerate(pairs)]
    runner = actors.start("runner", *words, logs=logs, sockets=tuple(ours for ours, _ in pairs))
    for pair in pairs:
        for end in pair:
            end.close()
    told: set[int] = set()
    while runner.poll() is None:
        if _driver_gone(0.1):
            return _end([runner, *workers])
        for worker in [w for w in workers if w.poll() is not None and w.pid not in told]:
            told.add(worker.pid)
            sys.stderr.write(f"{_LEFT}\n")
    code = runner.returncode
    print(f"exit {code}", flush=True)
    while not _driver_gone(0.1):
        time.sleep(0.05)
    return _end(workers)


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
