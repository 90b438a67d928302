"""torchrun: ranks in sessions of their own, their output redirected to files and teed with a `[role
N]:` prefix.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Protocol

from . import pace, processes

_TAIL_SECONDS = 0.05  # torch's tail of the redirected files sleeps 0.1 s


def main(arguments: Sequence[str]) -> int:
    """Start the trainer's ranks as torchrun does, and wait for their end. `arguments` are the words
    of torchrun's command line. Returns 0 if every rank ended with 0. Otherwise writes torch's
    report to standard error and returns 1.
    """
    options = dict(
        word.removeprefix("--").partition("=")[::2] for word in arguments if word.startswith("--")
    )
    module = arguments[arguments.index("-m") + 1 :]
    role = options.get("role", "default")
    shown = {int(rank) for rank in options.get("local-ranks-filter", "0").split(",")}
    logs = Path(options["log-dir"]) / f"{options['rdzv-id']}_{uuid.uuid4().hex[:8]}" / "attempt_0"
    world = int(options["nproc-per-node"])
    ranks = [_Rank(rank, world, logs / str(rank), module) for rank in range(world)]
    agent = Agent(ranks, module[0])
    tails = [_Tail(rank, role) for rank in ranks if rank.number in shown]
    code = agent.wait()
    for tail in tails:
        tail.finish()
    return code


class _Rank:
    def __init__(self, number: int, world: int, logs: Path, module: Sequence[str]) -> None:
        self.number = number
        logs.mkdir(parents=True)
        self.outputs = [logs / "stdout.log", logs / "stderr.log"]
        # Not through this process's own output: what a rank wrote is in its file even if torchrun
        # dies.
        with self.outputs[0].open("wb") as out, self.outputs[1].open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-m", *module],
                env=environment_of(number, world),
                stdout=out,
                stderr=err,
                start_new_session=True,
            )


def environment_of(rank: int, world: int) -> dict[str, str]:
    """Return the environment variables for the rank with the number `rank` of `world` ranks: those
    of this process, and those by which torch finds its place.
    """
    told = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": world,
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": _master_port(),
    }
    return {**os.environ, **{key: str(value) for key, value in told.items()}}


_PORT: list[int] = []


def _master_port() -> int:
    if not _PORT:
        _PORT.append(processes.free_port())
    return _PORT[0]


class _Tail:
    """Copies a rank's files to our own output, each line behind `[role rank]:`."""

    def __init__(self, rank: _Rank, role: str) -> None:
        self._prefix = f"[{role}{rank.number}]:".encode()
        self._done = threading.Event()
        followed = zip(rank.outputs, (1, 2), strict=True)
        self._threads = [
            threading.Thread(target=self._follow, args=pair, daemon=True) for pair in followed
        ]
        for thread in self._threads:
            thread.start()

    def _follow(self, path: Path, output: int) -> None:
        with path.open("rb") as source:
            line = b""
            while True:
                last_look = self._done.is_set()
                while part := source.readline():
                    line += part
                    if line.endswith(b"\n"):
                        os.write(output, self._prefix + line)
                        line = b""
                if last_look:
                    return
                time.sleep(_TAIL_SECONDS)

    def finish(self) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()


class Ran(Protocol):
    """A trainer rank that was started: its number and its process."""

    number: int
    process: subprocess.Popen[bytes]


class Agent:
    """Waits for the ranks of the trainer as torchrun does. If a rank fails, or torchrun gets a
    signal, it ends all other ranks. `module` is the name of the Python module that the ranks run.
    """

    def __init__(self, ranks: Sequence[Ran], module: str) -> None:
        self.ranks, self._module = ranks, module
        self._signal: int | None = None
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self._note)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signal = number

    def wait(self) -> int:
        """Wait for the end of the ranks. Return 0 if all ended with 0, else 1 after the other ranks
        were ended and torch's report was written to standard error.
        """
        while True:
            codes = [rank.process.poll() for rank in self.ranks]
            if self._signal is not None:
                return self._interrupted(self._signal)
            failed = [rank for rank in self.ranks if rank.process.returncode not in (None, 0)]
            if failed:
                return self._failed(failed)
            if all(code == 0 for code in codes):
                return 0
            time.sleep(_TAIL_SECONDS)

    def _interrupted(self, number: int) -> int:
        self._warn(
            "W",
            f"torch/distributed/elastic/agent/server/api.py:739] Received {number} death "
            "signal, shutting down workers",
        )
        self._end_ranks(signal.SIGTERM if number not in (signal.SIGINT, signal.SIGTERM) else number)
        sys.stderr.write(
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process "
            f"{os.getpid()} got signal: {number}\n",
        )
        return 1

    def _failed(self, failed: Sequence[Ran]) -> int:
        """End the other ranks and report those that had failed before. Ranks that fail between two
        looks fail in the same second for torch, and of these it calls the lowest the root cause,
        also if that one only lost its connection to another.
        """
        moment = time.strftime("%Y-%m-%d_%H:%M:%S")
        self._end_ranks(signal.SIGTERM)
        first = failed[0]
        self._warn(
            "E",
            f"torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: "
            f"{first.process.returncode}) local_rank: {first.number} (pid: {first.process.pid}) of "
            f"binary: {sys.executable}",
        )
        reports = [_report(place, rank, moment) for place, rank in enumerate(failed)]
        others = "\n".join(reports[1:]) or "  <NO_OTHER_FAILURES>"
        sys.stderr.write(
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
            f"{'=' * 60}\n{self._module} FAILED\n{'-' * 60}\nFailures:\n{others}\n{'-' * 60}\n"
            f"Root Cause (first observed failure):\n{reports[0]}\n{'=' * 60}\n"
        )
        return 1

    def _end_ranks(self, number: int) -> None:
        """The signal, 30 s, then SIGKILL: torch's own patience."""
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.process.send_signal(number)
        deadline = time.monotonic() + pace.paced(30)
        for rank in self.ranks:
            try:
                rank.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                rank.process.kill()
                rank.process.wait()

    @staticmethod
    def _warn(letter: str, text: str) -> None:
        now = time.time()
        stamp = time.strftime("%m%d %H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1e6):06d}"
        sys.stderr.write(f"{letter}{stamp} {os.getpid()} {text}\n")


def _report(place: int, rank: Ran, moment: str) -> str:
    """Return torch's lines about one failed rank. `place` is its place among the failed ones."""
    code, pid = rank.process.returncode, rank.process.pid
    message = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    if code < 0:
        message = f"Signal {-code} ({signal.Signals(-code).name}) received by PID {pid}"
    return (
        f"[{place}]:\n  time      : {moment}\n  host      : {socket.gethostname()}\n"
        f"  rank      : {rank.number} (local_rank: {rank.number})\n"
        f"  exitcode  : {code} (pid: {pid})\n  error_file: <N/A>\n  traceback : {message}"
    )
