"""A container's own log (`docker logs`: what its entry point printed) as a log of the attempt that runs in it.

Docker keeps that log in a place and a form of its own, so it is asked for what is new since the last time, never followed: a client that
waits for more would be a process that nobody ends. What came is put into a file of the attempt, without the times that Docker writes
before the lines, and that file is followed like every other log.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from bs4_agent.runs.files import read_json, write_json

FILE, STATE = "container.log", "container-log.json"
#: Seconds between two questions: a client is a process of 15 ms of a core.
EVERY_S = 10.0
#: Seconds that one question may take, and bytes that it may bring; the rest is asked for at once.
ASK_S, MOST = 20.0, 8 << 20
_LOOK_S = 0.05
#: `docker logs --timestamps`; podman writes the local time with its offset.
_LINE = re.compile(rb"(\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d)) ?([^\n]*\n?)")


class ContainerLog:
    """`directory`: of the attempt. `since_t`: wall seconds from which on lines are its own. Safe to be called from several threads."""

    def __init__(self, container: str, directory: Path, since_t: float) -> None:
        self.container = container
        self.path = directory / FILE
        self._state_path, self._part = directory / STATE, directory / f"{FILE}.part"
        state = read_json(self._state_path) or {"since": f"{since_t:.9f}", "same": 0, "size": 0, "trainers": False, "problem": ""}
        self._since, self._same, self._size = str(state["since"]), int(state["same"]), int(state["size"])
        self._trainers, self.problem = bool(state["trainers"]), str(state["problem"])
        #: Lines that were written before a death of ours but not noted: they come again.
        self._again = self._lines_behind(self._size)
        self._process: subprocess.Popen[bytes] | None = None
        self._output: BinaryIO | None = None
        self._cut = self._over = self._ended_before = False
        self._asked_m = self._begun_m = float("-inf")
        self._lock = threading.Lock()

    @property
    def trainers(self) -> bool:
        """Whether the trainer prints here: its standard output is that of the container's first process."""
        return self._trainers

    def printed_by(self, pid: int, init: int) -> None:
        """Note that it is, if so; `init` is our pid of the container's first process."""
        with self._lock:
            if not self._trainers and _one_output(pid, init):
                self._trainers = True
                self._save()

    def poll(self, *, ended: bool) -> bool:
        """Ask when it is time, and take what has come; whether something is still to come of an attempt that has `ended`."""
        with self._lock:
            self._step(ended=ended)
            return ended and not self._over

    def finish(self, seconds: float = ASK_S) -> None:
        """Everything up to now, after the attempt's end; a daemon that does not answer in time is told as the problem."""
        deadline = time.monotonic() + seconds
        while self.poll(ended=True) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)

    def _step(self, *, ended: bool) -> None:
        now = time.monotonic()
        if self._process is not None:
            if self._process.poll() is None:
                self._cut = now - self._begun_m > ASK_S or (self._output is not None and os.fstat(self._output.fileno()).st_size > MOST)
                if not self._cut:
                    return
                self._process.kill()
                self._process.wait()
            code, self._process = 0 if self._cut else self._process.returncode, None
            after_end, more = self._ended_before, self._take(code)
            self._over = after_end and not more
            if more:
                self._asked_m = float("-inf")
        if self._process is None and not self._over and (ended or now - self._asked_m >= EVERY_S):
            self._ask(ended=ended)

    def _ask(self, *, ended: bool) -> None:
        self._asked_m = self._begun_m = time.monotonic()
        self._cut, self._ended_before = False, ended
        argv = ["docker", "logs", "--timestamps", "--since", self._since, self.container]
        try:
            # A file without a name: nothing of it is left when we die.
            self._part.unlink(missing_ok=True)
            self._output = output = open(self._part, "x+b")  # noqa: SIM115 (until its writer has ended)
            self._part.unlink()
            # Both of its outputs into one file: the client writes the lines in the order in which they were printed.
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        except OSError as error:
            self._read()
            self._failed(f"docker logs cannot be asked ({error.strerror})")
            self._over = ended

    def _take(self, code: int) -> bool:
        """Append what came; whether the log goes on behind it."""
        data = self._read()
        if code != 0:
            said = data.decode("utf-8", "replace").strip().splitlines()
            self._failed(said[-1][:200] if said else f"docker logs ended with exit code {code}")
            return False
        if self._cut:
            data = data[: data.rfind(b"\n") + 1]
        if self._cut and not data:
            self._failed(f"docker logs gave no answer within {ASK_S:.0f} s")
            return False
        fresh, passing = bytearray(), self._same
        since, same = self._since, self._same
        for match in _LINE.finditer(data):
            moment = match[1].decode("ascii")
            if moment == self._since and passing > 0:
                passing -= 1
                continue
            since, same = (moment, same + 1) if moment == since else (moment, 1)
            if self._again > 0:
                self._again -= 1
                continue
            fresh += match[2] if match[2].endswith(b"\n") else match[2] + b"\n"
        if fresh:
            with open(self.path, "ab") as handle:
                handle.write(fresh)
                handle.flush()
                os.fsync(handle.fileno())
        if (since, same) != (self._since, self._same) or self.problem:
            self._since, self._same, self._size, self.problem = since, same, _size(self.path), ""
            self._save()
        return self._cut

    def _read(self) -> bytes:
        """What was written into the output, which is closed then."""
        output, self._output = self._output, None
        if output is None:
            return b""
        with output:
            output.seek(0)
            return output.read()

    def _failed(self, why: str) -> None:
        if why != self.problem:
            self.problem = why
            self._save()

    def _save(self) -> None:
        state: Mapping[str, Any] = {
            "since": self._since, "same": self._same, "size": self._size, "trainers": self._trainers, "problem": self.problem,
        }  # fmt: skip
        write_json(self._state_path, dict(state))

    def _lines_behind(self, size: int) -> int:
        try:
            with open(self.path, "rb") as handle:
                handle.seek(size)
                return handle.read().count(b"\n")
        except FileNotFoundError:
            return 0


def _one_output(pid: int, init: int) -> bool:
    """Whether both print into the same pipe or terminal."""
    try:
        mine, first = (Path(f"/proc/{one}/fd/1").stat() for one in (pid, init))
    except OSError:
        return False
    return os.path.samestat(mine, first) and (stat.S_ISFIFO(mine.st_mode) or (stat.S_ISCHR(mine.st_mode) and os.major(mine.st_rdev) != 1))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
