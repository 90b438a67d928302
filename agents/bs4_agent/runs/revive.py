"""Start a new agent in place of a dead one, at most three times an hour. The shim runs this file as
a script, outside the run's process tree.

The script becomes the agent through exec. The command is `restart` in HOME/agent.json, which the
newest agent wrote, or else `agent_restart` in the attempt's spec.json. The starts are recorded in
HOME/agent-restarts.json under a lock, so that the shims of several runs share one limit and never
start two agents.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from typing import TypedDict

LIMIT = 3
WINDOW_S = 3600.0
#: Seconds that a new agent has to write its record before it counts as dead.
GRACE_S = 20.0


class ProcessRecord(TypedDict, total=False):
    """The identity of one process: its pid, its start in clock ticks since the boot, and the id of
    that boot.
    """

    pid: int
    start_ticks: int
    boot_id: str


class AgentRecord(ProcessRecord, total=False):
    """The content of the file agent.json in the agent's home directory, about the newest agent. The
    keys of ProcessRecord are at its top level only if an old version of the agent has written it;
    newer versions have them in `identity`.
    """

    event: str
    """ "stopped" if the agent was ended on purpose."""
    identity: ProcessRecord
    restart: list[str]
    """The command that starts it again."""


def main(directory: str) -> int:
    """Replace this process by a new agent, on behalf of the shim (the process that watches over an
    attempt) whose attempt has the directory `directory`. If that succeeds, this function does not
    return.

    Return 1, after printing why, if no agent may be started: the old one was stopped on purpose, an
    agent lives, one was started in the last 20 seconds, or three were started in the last hour.
    Raises OSError if the agent's program cannot be started.
    """
    with open(f"{directory}/spec.json", encoding="utf-8") as handle:
        spec = json.load(handle)
    timing = spec.get("agent_restart_timing") or {}
    home = spec["home"]
    lock = os.open(f"{home}/agent-restarts.json", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        with open(f"{home}/agent.json", encoding="utf-8") as handle:
            record: AgentRecord = json.load(handle)
        refusal = _refusal(
            record, lock, timing.get("window_s", WINDOW_S), timing.get("grace_s", GRACE_S)
        )
        if refusal:
            print(refusal, file=sys.stderr)  # noqa: T201  (standard error is the shim's log)
            return 1
    finally:
        os.close(lock)
    _become(record.get("restart") or spec["agent_restart"], home)
    return 127


def _refusal(record: AgentRecord, lock: int, window_s: float, grace_s: float) -> str:
    """Return why no agent may be started now. Return "" if one may, after the start has been
    recorded.
    """
    if record.get("event") == "stopped":
        return "the agent was stopped on purpose; attach the console to start one"
    if _alive(record.get("identity", record)):
        return "an agent is there already"
    now, boot = time.monotonic(), _boot_id()
    entries = json.loads(os.read(lock, 65536) or b"[]")
    recent = [at for at, where in entries if where == boot and now - at < window_s]
    if recent and now - max(recent) < grace_s:
        return "an agent was started a moment ago"
    if len(recent) >= LIMIT:
        return (
            f"the agent died {LIMIT} times within {window_s:.0f} s; see agent.log, then attach "
            "the console to start one"
        )
    os.lseek(lock, 0, os.SEEK_SET)
    os.ftruncate(lock, 0)
    os.write(lock, json.dumps([[at, boot] for at in [*recent, now]]).encode())
    return ""


def _alive(identity: ProcessRecord) -> bool:
    """Return True if the process with this identity lives and is no zombie."""
    try:
        with open(f"/proc/{int(identity['pid'])}/stat", "rb") as handle:
            raw = handle.read()
    except OSError:
        return False
    fields = raw[raw.rindex(b")") + 2 :].split()
    same = int(fields[19]) == int(identity["start_ticks"]) and identity["boot_id"] == _boot_id()
    return same and fields[0] not in (b"Z", b"X")


def _boot_id() -> str:
    """Return the kernel's id of this boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
        return handle.read().strip()


def _become(argv: list[str], home: str) -> None:
    """Replace this process by the agent, with default signal handling, only standard descriptors
    open, and its output in agent.log.
    """
    os.setsid()
    log = os.open(f"{home}/agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target in (1, 2):
        os.dup2(log, target)
    os.closerange(3, 65536)
    for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    os.chdir(home)
    environment = {**os.environ, "BS4_HOME": home, "BS4_AGENT_RESTARTED": "1"}
    os.execvpe(argv[0], argv, environment)  # noqa: S606


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
