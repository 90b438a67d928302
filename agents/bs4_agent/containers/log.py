"""A container's own log (`docker logs`: what its entry point printed) as a log of the attempt that
runs in it.

Docker keeps that log in a place and a form of its own. So it is polled for new lines and never
followed: a client that waits for more would be a process that nothing ends. New lines are written
to a file of the attempt, without the times that Docker puts before them. That file is followed and
rotated like every other log.

An attempt that has ended gets everything printed up to its end. A container that was started again
since (by a restart policy or `docker start`) prints into the same log, and those lines belong to
the next attempt. Docker reports when the container's earlier life ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

from bs4_common.files import read_json, write_json

FILE, STATE = "container.log", "container-log.json"
#: Seconds between two questions, because a client costs 15 ms of a core. Docker reads its log from
#: the start to find a time in it, so after a slow answer there is a pause of that many times as
#: long.
EVERY_S, _PAUSES = 10.0, 10
#: Seconds that one question may take. Doubled after each that brought nothing, up to `_LONGEST_S`.
ASK_S, _LONGEST_S = 20.0, 160.0
#: Bytes of an answer on the disk at most, bytes in memory at once, and how many such pieces are
#: taken in one poll.
_ANSWER, _AT_ONCE, _PIECES = 64 << 20, 1 << 20, 8
#: Bytes. From this size on the file becomes `container.log.1`, and a new one begins. Docker keeps
#: the whole log.
FULL = 64 << 20
#: Seconds. Docker stamps a line when it has read it, a moment after it was printed. It restarts
#: nothing sooner than this after an end.
_LATE_S = 0.1
#: Seconds by which the start of a process, which the kernel counts in ticks since the boot, may
#: differ from Docker's clock.
_CLOCKS_S = 1.0
_LOOK_S = 0.05
#: `docker logs --timestamps`; podman writes the local time with its offset.
_LINE = re.compile(rb"(\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d)) ?([^\n]*\n?)")
#: A time as `docker inspect` prints it, and as podman does, which uses Go's format.
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d{1,6})?\d*\s?(Z|[+-]\d\d:?\d\d)")
_ENDED = ["docker", "inspect", "--type", "container", "--format", "{{.State.FinishedAt}}"]


class ContainerLog:
    """A copy of what a container prints (the output of `docker logs`) during one attempt, in a file
    of the attempt's `directory`. Only lines that were printed from `since_t` on, a Unix time in
    seconds, belong to the attempt. All methods may be called from any thread.
    """

    def __init__(self, container: str, directory: Path, since_t: float) -> None:
        self.container = container
        self.path = directory / FILE
        self._state_path, self._part = directory / STATE, directory / f"{FILE}.part"
        self._since_t = since_t
        state = read_json(self._state_path) or {
            "since": f"{since_t:.9f}",
            "same": 0,
            "until": "",
            "size": 0,
            "trainers": False,
            "problem": "",
            "over": False,
        }
        self._since, self._until = str(state["since"]), str(state["until"])
        self._same = int(state["same"])
        self._size, self._trainers = int(state["size"]), bool(state["trainers"])
        self.problem, self._over = str(state["problem"]), bool(state["over"])
        #: Lines that were written before this agent died and were not recorded. They come again.
        self._again = self._lines_behind(self._size)
        self._process: subprocess.Popen[bytes] | None = None
        self._output: BinaryIO | None = None
        self._cut = self._bounding = self._ended_before = False
        self._passing, self._patience = 0, ASK_S
        self._begun_m, self._due_m = 0.0, float("-inf")
        self._ended_m: float | None = None
        self._lock = threading.Lock()

    @property
    def trainers(self) -> bool:
        """Return True if it is known that the trainer's own lines are in this log too. That is so
        if the trainer's process has the same standard output as the container's first process,
        whose output `docker logs` shows (see `printed_by`).
        """
        return self._trainers

    def printed_by(self, pid: int, init: int) -> None:
        """Find out if the trainer's process `pid` prints to this log, which is so if it has the
        same standard output as the container's first process, whose pid on the host is `init`. If
        it does, the property `trainers` is True from then on.
        """
        with self._lock:
            if not self._trainers and _one_output(pid, init):
                self._trainers = True
                self._save()

    def poll(self, *, ended: bool) -> bool:
        """Append the lines that have arrived from `docker logs` to the attempt's file. If `docker
        logs` has ended, start it again once a pause (10 seconds or more) is over. `ended` is True
        if the attempt is over. Return True if it is over and its last lines are still expected,
        else False. If the disk or Docker fails, nothing is raised; `problem` is then a sentence
        about it until it works again.
        """
        with self._lock:
            if not self._over:
                try:
                    self._step(ended=ended)
                except OSError as error:
                    self._drop()
                    self.problem = f"what the container prints cannot be kept ({error.strerror})"
            return ended and not self._over

    def finish(self, seconds: float = ASK_S) -> bool:
        """Call `poll` again and again, for at most `seconds`, until every line that was printed
        before the attempt's end is in the file. Return True if no more lines are expected, because
        all are in the file or because Docker does not return the rest any more. Return False if the
        time was over first.
        """
        deadline = time.monotonic() + seconds
        while (more := self.poll(ended=True)) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        return not more

    def _step(self, *, ended: bool) -> None:
        """Process the answer of the running client, and start the next one if it is due."""
        now = time.monotonic()
        if ended and self._ended_m is None:
            self._ended_m = now
        late = self._ended_m is not None and now - self._ended_m > ASK_S
        if (
            self._process is not None
            and self._output is not None
            and not self._answered(self._process, self._output, now, late=late)
        ):
            return
        for _ in range(_PIECES):
            if self._output is not None:
                self._take(self._output)
        if self._output is None and not self._over and late:
            self._failed(
                f"docker logs gave no whole answer within {ASK_S:.0f} s of the end", over=True
            )
        elif self._output is None and not self._over and (ended or now >= self._due_m):
            self._ask(ended=ended)

    def _ask(self, *, ended: bool) -> None:
        """Start one client: for the time at which an ended attempt ended, or for the lines up to
        that time or up to now.
        """
        self._bounding = ended and not self._until
        argv = [*_ENDED, self.container]
        if not self._bounding:
            argv = [
                "docker",
                "logs",
                "--timestamps",
                "--since",
                self._since,
                *(["--until", self._until] * ended),
                self.container,
            ]
        self._begun_m, self._cut = time.monotonic(), False
        self._ended_before, self._passing = ended, self._same
        # A file without a name, so that nothing of it is left when this agent dies.
        self._part.unlink(missing_ok=True)
        self._output = open(self._part, "x+b")  # noqa: SIM115 (until it has been read)
        self._part.unlink()
        try:
            # Both outputs go to one file, because the client writes the lines in the order in which
            # they were printed.
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output
            )
        except OSError as error:
            self._drop()
            self._due_m = self._begun_m + EVERY_S
            self._failed(f"docker logs cannot be asked ({error.strerror})", over=ended)

    def _answered(
        self, process: subprocess.Popen[bytes], output: BinaryIO, now: float, *, late: bool
    ) -> bool:
        """Return True if the client has ended, or was killed because it took too long or brought
        too much.
        """
        code = process.poll()
        if code is None:
            size = os.fstat(output.fileno()).st_size
            self._cut = late or size > _ANSWER or now - self._begun_m > self._patience
            if not self._cut:
                return False
            process.kill()
            process.wait()
            self._patience = ASK_S if size else min(2 * self._patience, _LONGEST_S)
        self._process = None
        self._due_m = now + max(EVERY_S, _PAUSES * (now - self._begun_m))
        output.seek(0)
        if code:
            self._refused(output, code)
        elif self._bounding:
            self._bound(output)
        elif self._cut and not os.fstat(output.fileno()).st_size:
            self._drop()
            self._failed(
                f"docker logs gave no answer within {now - self._begun_m:.0f} s", over=late
            )
        return True

    def _refused(self, output: BinaryIO, code: int) -> None:
        """Record the error message of a client that failed."""
        output.seek(max(0, os.fstat(output.fileno()).st_size - _AT_ONCE))
        said = output.read().decode("utf-8", "replace").strip().splitlines()
        self._drop()
        self._failed(
            said[-1][:200] if said else f"docker ended with exit code {code}",
            over=self._ended_before,
        )

    def _bound(self, output: BinaryIO) -> None:
        """Set the time up to which lines belong to the attempt: the end of the container's life in
        which it began, or else now.
        """
        said = _moment(output.read(200).decode("utf-8", "replace"))
        self._drop()
        ended_t = time.time()
        if said is not None and said > self._since_t + _CLOCKS_S:
            ended_t = said + _LATE_S
        self._until = f"{ended_t:.9f}"
        self._save()

    def _take(self, output: BinaryIO) -> None:
        """Append the next piece of the answer to the file. At its end the answer is closed; the
        next question is due at once if the answer was cut off.
        """
        data = output.read(_AT_ONCE)
        last = len(data) < _AT_ONCE
        # a longer line comes in pieces
        if (not last or self._cut) and (whole := data.rfind(b"\n") + 1):
            output.seek(whole - len(data), os.SEEK_CUR)
            data = data[:whole]
        fresh = bytearray()
        since, same = self._since, self._same
        for match in _LINE.finditer(data):
            moment = match[1].decode("ascii")
            if self._passing > 0 and moment == self._since:
                self._passing -= 1
                continue
            self._passing = 0
            since, same = moment, same + 1 if moment == since else 1
            if self._again > 0:
                self._again -= 1
                continue
            fresh += match[2] if match[2].endswith(b"\n") else match[2] + b"\n"
        if fresh:
            self._append(fresh)
        changed = (since, same) != (self._since, self._same)
        self._since, self._same = since, same
        if last:
            self._drop()
            self._over = self._ended_before and not self._cut
            if self._cut:
                self._due_m = float("-inf")
        if changed or self.problem or self._over:
            self.problem = ""
            self._save()

    def _append(self, fresh: bytes | bytearray) -> None:
        """Append the lines completely, or not at all. Lines that a full disk took in part would
        come twice.
        """
        before = _size(self.path)
        try:
            with open(self.path, "ab") as handle:
                handle.write(fresh)
                handle.flush()
                os.fsync(handle.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(self.path, before)
            raise
        self._size = before + len(fresh)
        if self._size >= FULL:
            os.replace(self.path, self._older)
            self._size = 0

    @property
    def _older(self) -> Path:
        """Return the path of the file that was full and put aside."""
        return self.path.with_name(f"{FILE}.1")

    def _drop(self) -> None:
        """Close the file of the answer."""
        output, self._output = self._output, None
        if output is not None:
            output.close()

    def _failed(self, why: str, *, over: bool) -> None:
        """Record why the log is incomplete. With `over`, nothing more is tried."""
        if why != self.problem or over:
            self.problem, self._over = why, over
            self._save()

    def _save(self) -> None:
        """Write the state file."""
        state: dict[str, Any] = {
            "since": self._since,
            "same": self._same,
            "until": self._until,
            "size": self._size,
            "trainers": self._trainers,
            "problem": self.problem,
            "over": self._over,
        }
        write_json(self._state_path, state)

    def _lines_behind(self, size: int) -> int:
        """Return how many lines were written after the recorded size."""
        # The file was put aside, and that was not recorded.
        path = self.path if _size(self.path) >= size else self._older
        try:
            with open(path, "rb") as handle:
                handle.seek(size)
                return sum(block.count(b"\n") for block in iter(lambda: handle.read(_AT_ONCE), b""))
        except FileNotFoundError:
            return 0


def _moment(text: str) -> float | None:
    """Return a time that Docker printed as a Unix time, or None if it is no time or is `0001-01-01`
    (the container has not ended yet).
    """
    found = _MOMENT.match(text.strip())
    if found is None or found[1].startswith("0001"):
        return None
    zone = found[4].replace(":", "") if found[4] != "Z" else "+0000"
    made = datetime.strptime(
        f"{found[1]} {found[2]}{found[3] or '.0'} {zone}", "%Y-%m-%d %H:%M:%S.%f %z"
    )
    return made.astimezone(timezone.utc).timestamp()


def _one_output(pid: int, init: int) -> bool:
    """Return True if both processes print to the same pipe or terminal."""
    try:
        mine, first = (Path(f"/proc/{one}/fd/1").stat() for one in (pid, init))
    except OSError:
        return False
    return os.path.samestat(mine, first) and (
        stat.S_ISFIFO(mine.st_mode) or (stat.S_ISCHR(mine.st_mode) and os.major(mine.st_rdev) != 1)
    )


def _size(path: Path) -> int:
    """Return the size of a file in bytes, or 0 if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
