"""The shim's check that the agent lives. If the agent has died, the shim starts a new one outside
the run's process tree.

This is part of the process that stays resident (see reaper.py), so it imports nothing that costs
memory.
"""

# ruff: noqa: PTH100, PTH116  (pathlib costs 1.3 MB here)

from __future__ import annotations

import os
import sys
from _collections_abc import Callable  # already loaded; collections.abc is not

from bs4_agent.runs.descent import Process

Note = Callable[[str], None]

#: While the agent is dead, the helper is called again after this many checks. revive.py decides how
#: often it may really start an agent.
_ASK_AGAIN = 6

_CLONE_PARENT = 0x8000
_SIGCHLD = 17
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}


class AgentWatch:
    """The check by which a run's shim sees that the agent lives. The shim is the small process that
    starts a run's launcher and records how it ends. The check reads the pid of the agent from the
    file `agent.json` in the agent's home, and starts a new agent if the process with that pid has
    ended.

    `directory` is the directory of the shim's attempt, `home` the agent's home, and `every_s` the
    number of seconds between two checks.
    """

    def __init__(self, directory: str, home: str, every_s: float) -> None:
        self.directory = directory
        self.record = f"{home}/agent.json"
        self.every_s = every_s
        self.look_at = 0.0
        """The monotonic second of the next check."""
        self._version: tuple[int, int] | None = None
        self._pid = self._ticks = 0
        self._stopped = False
        self._ask_at = 0.0

    def poll(self, now: float, note: Note) -> None:
        """Check the agent if a check is due at second `now` of the monotonic clock. If the agent's
        process has ended, start the helper script that starts a new agent.

        Do nothing if no check is due, if the agent was stopped on purpose, or if no agent was ever
        started with this home directory. `note` is called with a sentence for the shim's log if the
        agent's process has ended.
        """
        if now < self.look_at:
            return
        self.look_at = now + self.every_s
        try:
            found = os.stat(self.record)
        except OSError:
            # No agent was ever started here, or its home is gone, so there is nothing to revive.
            return
        if self._version != (found.st_ino, found.st_mtime_ns):
            self._read()
            self._version = (found.st_ino, found.st_mtime_ns)
            self._ask_at = 0.0
        if self._stopped or self._alive() or now < self._ask_at:
            return
        self._ask_at = now + _ASK_AGAIN * self.every_s
        note(f"the agent (pid {self._pid}) is gone; asking for a new one")
        revive(self.directory, note)

    def _alive(self) -> bool:
        """Return True if the agent's process lives and is no zombie."""
        process = Process.of(self._pid)
        return process is not None and process.ticks == self._ticks and process.state not in "ZX"

    def _read(self) -> None:
        """Read the agent's record in a child process. Importing json here would keep its memory for
        the days that the run lasts.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                import json

                with open(self.record, encoding="utf-8") as handle:
                    record = json.load(handle)
                identity = record.get("identity", record)
                line = (
                    f"{identity['pid']} {identity['start_ticks']} "
                    f"{int(record.get('event') == 'stopped')}"
                )
                os.write(writer, line.encode())
            finally:
                os._exit(0)
        os.close(writer)
        words = os.read(reader, 100).split()
        os.close(reader)
        os.waitpid(child, 0)
        if len(words) == 3:
            self._pid, self._ticks, stopped = (int(word) for word in words)
        else:
            self._pid, self._ticks, stopped = (0, 0, 1)
        self._stopped = bool(stopped)


def revive(directory: str, note: Note) -> None:
    """Start the script runs/revive.py as a sibling of this process. The script then replaces itself
    by a new agent.

    A child of this process would count as part of the run and would be stopped with the run.
    `directory` is the directory of the shim's attempt. `note` is called with a sentence for the
    shim's log if the script cannot be started; nothing is raised.
    """
    import ctypes

    number = _SYS_CLONE.get(os.uname().machine)
    if number is None:
        note(f"cannot start an agent on {os.uname().machine}; start it by attaching the console")
        return
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "revive.py")
    arguments = [sys.executable, "-IS", script, directory]
    # PyDLL: the child continues inside this very call and must still hold the interpreter's lock.
    syscall = ctypes.PyDLL(None, use_errno=True).syscall
    pid = syscall(
        ctypes.c_long(number), ctypes.c_ulong(_CLONE_PARENT | _SIGCHLD), None, None, None, None
    )
    if pid == 0:
        try:
            os.execv(sys.executable, arguments)  # noqa: S606
        finally:
            os._exit(127)
    if pid < 0:
        note(f"cannot start an agent: {os.strerror(ctypes.get_errno())}")
