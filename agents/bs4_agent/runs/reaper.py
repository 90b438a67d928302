"""The part of the shim that stays resident. It collects every process of an attempt until none is
left.

It lives as long as the run, beside a trainer that needs the memory. The interpreter alone takes 8.5
MB. json would add 1.2, the enums of the signal module 0.5, dataclasses and pathlib 2.5, and
compiling this file instead of loading it 1.0. Hence reap.py, `_signal`, JSON that is written by
hand below, and JSON that is read by a child which imports json and exits.

It writes these files in the attempt's directory:
- `descendants.json`: the living descendants, so that descent stays provable if the shim is killed
- `exits.ndjson`: every process that was reaped
- `launcher_end.json`: the launcher is gone and others live
- `end.json`: nobody is left, and the shim ends too
"""

# ruff: noqa: PTH110, PTH116, PTH208  (pathlib costs 1.3 MB here)

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import time

from bs4_agent.runs.agent_watch import AgentWatch
from bs4_agent.runs.descent import Descendants, Process, read

_SCAN_S = 1.0
#: Seconds between two reads of known descendants. exec and setproctitle change a command line
#: without changing the process.
_REFRESH_S = 10.0
#: Bytes of exits.ndjson. An environment that runs sandboxed code leaves thousands of orphans an
#: hour, and their exits are helpful but not needed.
_MAX_EXITS = 4 << 20
_MAX_NOTES = 50

_SYNCHRONOUS = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGABRT,
    signal.SIGKILL,
    signal.SIGSTOP,
}


class Reaper:
    """The part of the shim (the small process that starts a run's launcher) that waits for the
    processes of one attempt and writes to the attempt's directory which of them live and how each
    ended.

    `directory` is the attempt's directory and `launcher` the launcher's pid. `agent` is the check
    that the agent lives, which is called between waits, or None for no such check.
    """

    def __init__(self, directory: str, launcher: int, agent: AgentWatch | None) -> None:
        self.directory = directory
        self.launcher = launcher
        self.agent = agent
        self.descendants = Descendants(os.getpid())
        self.launcher_end: dict[str, object] | None = None
        self.boot = (read("/proc/sys/kernel/random/boot_id") or "unknown").strip()
        self.pidns = os.stat("/proc/self/ns/pid").st_ino
        self._unwritten: dict[str, str] = {}
        self._exits: list[str] = []
        self._exits_written = 0
        self._notes = 0

    def run(self) -> None:
        """Wait for the processes of the attempt and record how each of them ends. Return only when
        none is left and everything is written to disk. Signals that this process gets, such as
        SIGTERM and SIGINT, are noted in the shim's log and otherwise ignored.
        """
        signals = signal.valid_signals() - _SYNCHRONOUS
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and os.path.exists(f"/proc/self/fd/{name}"):
                # The lock came through exec. It must end with this process and not with an agent
                # that it revives.
                os.set_inheritable(int(name), False)
        scan_at = refresh_at = 0.0
        while not self._finished():
            now = time.monotonic()
            if now >= scan_at:
                everything = now >= refresh_at
                if everything:
                    refresh_at = now + _REFRESH_S
                scan_at = now + _SCAN_S
                if self.descendants.scan(everything=everything):
                    self._remember()
            wake_at = scan_at
            if self.agent is not None:
                self.agent.poll(now, self.note)
                wake_at = min(scan_at, self.agent.look_at)
            self._write_pending()
            received = signal.sigtimedwait(signals, max(0.0, wake_at - time.monotonic()))
            if received is not None and received.si_signo != signal.SIGCHLD:
                self.note(
                    f"ignored signal {received.si_signo} from pid {received.si_pid}; to end "
                    "the run, stop it through the agent"
                )

    def stamp(self) -> dict[str, float | str]:
        """Return the present moment as a dictionary: `t` is the Unix time in seconds, `m` the
        second of the monotonic clock and `b` the boot id.
        """
        return {"t": round(time.time(), 3), "m": round(time.monotonic(), 3), "b": self.boot}

    def note(self, text: str) -> None:
        """Write the time and `text` as one line to standard error, which is the file shim.log in
        the attempt's directory. Only the first fifty lines are written. An error of the disk is
        ignored, because this process has to go on waiting for the run's processes.
        """
        self._notes += 1
        if self._notes <= _MAX_NOTES:
            try:
                os.write(
                    2,
                    f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n".encode(
                        errors="replace"
                    ),
                )
            except OSError:
                self._notes -= 1

    def _finished(self) -> bool:
        """Collect the ended processes. Return True once nobody is left and everything about them is
        on disk.
        """
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if ended is None:
                return False
            self._collect(ended.si_pid, ended.si_status, ended.si_code == os.CLD_EXITED)
        end = self.launcher_end or {"code": None, "signal": None}
        self._unwritten.pop("launcher_end.json", None)
        self._unwritten["end.json"] = encode({**end, "launcher_t": end.get("t"), **self.stamp()})
        self._write_pending()
        return not self._unwritten

    def _collect(self, pid: int, status: int, exited: bool) -> None:
        """Reap one ended process and queue its record. `exited` says that `status` is an exit code
        and not a signal.
        """
        # WNOWAIT above kept the zombie. Its start ticks can still be read, so the record names
        # exactly one process.
        process = Process.of(pid) or Process("", 0, 0, "", "")
        remembered = self.descendants.known.pop(pid, None)
        os.waitid(os.P_PID, pid, os.WEXITED)
        outcome = {"code": None, "signal": None, "code" if exited else "signal": status}
        record = {
            "identity": self._identity(pid, process),
            **outcome,
            "comm": process.comm,
            "cmdline": remembered.title if remembered else "",
            **self.stamp(),
        }
        if pid == self.launcher:
            self.launcher_end = {**outcome, **self.stamp()}
            self._unwritten["launcher_end.json"] = encode(self.launcher_end)
        if self._exits_written < _MAX_EXITS or pid == self.launcher:
            self._exits.append(encode(record))

    def _identity(self, pid: int, process: Process) -> dict[str, int | str]:
        """Return the identity of a process in the form of `identity.Identity`."""
        ticks = process.ticks
        return {"pid": pid, "start_ticks": ticks, "boot_id": self.boot, "pidns": self.pidns}

    def _remember(self) -> None:
        """Queue descendants.json with the living descendants."""
        members = []
        for pid, process in sorted(self.descendants.known.items()):
            members.append(
                {
                    "identity": self._identity(pid, process),
                    "comm": process.comm,
                    "cmdline": process.title,
                }
            )
        self._unwritten["descendants.json"] = encode({"members": members, **self.stamp()})

    def _write_pending(self) -> None:
        """Write what has changed. What a full disk refuses stays pending and is tried again a
        second later.
        """
        try:
            if self._exits:
                lines = "\n".join([*self._exits, ""]).encode()
                _append(f"{self.directory}/exits.ndjson", lines)
                self._exits_written += len(lines)
                self._exits.clear()
            for name in list(self._unwritten):
                _replace(
                    f"{self.directory}/{name}",
                    self._unwritten[name] + "\n",
                    durable=name != "descendants.json",
                )
                del self._unwritten[name]
        except OSError as error:
            del self._exits[:-1000]
            self.note(f"cannot write {error.filename}: {error.strerror}; trying again")


def _append(path: str, data: bytes) -> None:
    """Append to a file, all or nothing. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(fd).st_size
        if os.write(fd, data) != len(data):
            os.ftruncate(fd, size)  # half a line helps nobody
            raise OSError(28, os.strerror(28), path)
    finally:
        os.close(fd)


def _replace(path: str, text: str, *, durable: bool) -> None:
    """Replace a file by one rename. `durable` syncs it to disk first. Raises OSError."""
    fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        data = text.encode("ascii")
        if os.write(fd, data) != len(data):
            raise OSError(28, os.strerror(28), path)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(path + ".tmp", path)


def encode(value: object) -> str:
    """Return the value as JSON in ASCII. It does so without the module json, which would cost
    memory for as long as the run lasts. None, booleans, numbers, text, lists, tuples and
    dictionaries are supported; any other value is written as the text that str() makes of it.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{encode(str(key))}:{encode(item)}" for key, item in value.items())
            + "}"
        )
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(encode(item) for item in value) + "]"
    if isinstance(value, (int, float)):
        return repr(value)
    return '"' + "".join(_escaped(character) for character in str(value)) + '"'


def _escaped(character: str) -> str:
    """Return one character as it is written inside a JSON string."""
    code = ord(character)
    if 32 <= code < 127 and character not in '"\\':
        return character
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"
