"""`python -m bs4_agent shim --attempt DIR`: start one attempt so that every process it ever forks
stays provably ours.

The shim is a session leader and a child subreaper *before* the launcher exists. So the kernel hands
every process that the launcher leaves behind to the shim, with its exit code, and never to init.
Three programs share the work, because the one that stays for days must be small (an interpreter
with json, ctypes and dataclasses is 13 MB, the loop below 10):

* this module reads DIR/spec.json, starts the launcher, writes DIR/shim.json, and then execs
* `runs/reap.py` (reaper.py), which keeps the pid, the lock, the subreaper flag and the children,
  reaps until no process is left, and starts
* `runs/revive.py` if the agent died.

DIR/spec.json: `{"argv", "cwd", "env": additions, "run", "attempt", "agent_restart": argv or null,
"home": the agent's directory}`; DIR/shim.json: `{"shim", "launcher": identities, "argv", "cwd",
"env": names only, "run", "attempt", "t", "m", "b"}` and `exec_t`/`exec_m` once the launcher's
program really runs. An argv that cannot be executed leaves DIR/end.json with code 127 and the
reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypedDict

from bs4_common.clock import stamp
from bs4_common.files import write_json
from bs4_common.identity import Identity

_PR_SET_CHILD_SUBREAPER = 36

#: Exit code of a shim that must not start anything: another shim holds the attempt, or has started
#: it before.
ALREADY_STARTED = 3

#: A shell's exit code for "command not found". It is recorded when the launcher's program cannot be
#: executed.
CANNOT_EXECUTE = 127


if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.

    class ShimSpec(TypedDict, total=False):
        """What spec.json of an attempt has for the shim."""

        argv: Sequence[str]
        cwd: str
        env: Mapping[str, str]
        """Additions to the agent's environment."""
        run: str
        attempt: int
        agent_restart: Sequence[str] | None
        home: str
        agent_check_s: float
        """Seconds between two looks if the agent lives."""


def main(arguments: Sequence[str]) -> int:
    """Start the attempt (one start of a run) whose directory in the agent's home follows
    `--attempt` in `arguments`. After the start, this process is replaced by a smaller program (exec
    of runs/reap.py), which stays until the attempt's last process has ended. So this call returns
    only if nothing was started, with an exit code: ALREADY_STARTED (3) or CANNOT_EXECUTE (127).
    """
    import argparse  # the daemon imports this module too, and never parses a command line

    parser = argparse.ArgumentParser(prog="bs4_agent shim")
    parser.add_argument("--attempt", required=True, type=Path, metavar="DIR")
    directory: Path = parser.parse_args(arguments).attempt.resolve()
    ready = _lead_a_session()
    lock = _claim(directory)
    if lock is None or (directory / "shim.json").exists():
        return ALREADY_STARTED
    spec: ShimSpec = json.loads((directory / "spec.json").read_text())
    _become_subreaper()
    _point_own_output_to(directory / "shim.log")
    # Blocked, not ignored: the reaper collects the signals one by one (SIGCHLD must not be lost
    # during the exec). The launcher gets the defaults.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    launcher = _start(directory, spec)
    if launcher is None:
        return CANNOT_EXECUTE
    if ready is not None:
        os.write(ready, b"!")
    return _become_reaper(directory, launcher, lock, spec)


def _lead_a_session() -> int | None:
    """Continue in a child with a session of its own, unless we lead a session already. The original
    process waits until the launcher runs and exits with 0, or with the child's exit code.

    Returns, in the child, the descriptor to which one byte is written when the launcher runs, and
    None without a child.
    """
    if os.getsid(0) == os.getpid():
        return None
    word, ready = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        return ready
    os.close(ready)
    if os.read(word, 1):
        os._exit(0)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _claim(directory: Path) -> int | None:
    """Return a lock that lives exactly as long as the shim (it survives the exec), or None if
    another shim holds it.
    """
    fd = os.open(directory / "shim.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def _become_subreaper() -> None:
    """Make this process the parent of all its orphaned descendants. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(
            code,
            f"cannot become a child subreaper: {os.strerror(code)}; run the agent on Linux "
            "3.4 or newer.",
        )


def _point_own_output_to(path: Path) -> None:
    """Connect the shim's own outputs with a file, and its input with nothing."""
    null = os.open(os.devnull, os.O_RDWR)
    own = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (own, 1), (own, 2)):
        os.dup2(source, target, inheritable=True)
    os.close(null)
    os.close(own)


def _start(directory: Path, spec: ShimSpec) -> Identity | None:
    """Fork the launcher, record its identity, and only then let it run, so that no launcher ever
    runs that is not recorded.

    Return None, and leaves an end.json that says why, if its program cannot be executed.
    """
    gate, opener = os.pipe()
    failed, failure = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(opener)
        os.close(failed)
        _launch(directory, spec, gate, failure)
    os.close(gate)
    os.close(failure)
    launcher, shim = Identity.of(pid), Identity.of(os.getpid())
    if launcher is None or shim is None:
        raise OSError(
            "The /proc of this machine does not show our own processes; mount it without "
            "hidepid for this user."
        )
    record = {
        "shim": shim.as_dict(),
        "launcher": launcher.as_dict(),
        "argv": list(spec["argv"]),
        "cwd": spec["cwd"],
        "env": sorted({*os.environ, *spec["env"]}),
        "run": spec["run"],
        "attempt": spec["attempt"],
        **stamp(),
    }
    # a power cut would end the launcher too
    write_json(directory / "shim.json", record, durable=False)
    with contextlib.suppress(BrokenPipeError):  # it was killed: its end is recorded as well
        os.write(opener, b"!")
    os.close(opener)
    with os.fdopen(failed, encoding="utf-8") as reader:
        reason = reader.read()
    now = stamp()
    if reason:
        os.waitpid(pid, 0)
        write_json(
            directory / "end.json",
            {"code": CANNOT_EXECUTE, "signal": None, "detail": reason, **now},
        )
        return None
    write_json(directory / "shim.json", {**record, "exec_t": now["t"], "exec_m": now["m"]})
    return launcher


def _launch(directory: Path, spec: ShimSpec, gate: int, failure: int) -> NoReturn:
    """Become the launcher, in the child. The gate closes without a byte if the shim died; then
    nothing is started.
    """
    argv = [str(argument) for argument in spec["argv"]]
    if os.read(gate, 1) != b"!":
        os._exit(CANNOT_EXECUTE)
    doing = f"cannot enter {spec['cwd']}"
    try:
        # A session of its own: `kill(0, ...)` or an orphaned process group inside the run must not
        # reach the shim, and the shim's must not reach the run.
        os.setsid()
        os.chdir(spec["cwd"])
        doing = f"cannot start {argv[0]}"
        log = os.open(directory / "launcher.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, failure)
        os.closerange(failure + 1, 65536)
        _default_signals()
        os.execvpe(argv[0], argv, {**os.environ, **spec["env"]})  # noqa: S606
    except OSError as error:
        os.write(failure, f"{doing}: {error.strerror}".encode())
    except (
        ValueError,
        TypeError,
    ) as error:  # a NUL byte in an argument, or a value that is no text
        os.write(failure, f"{doing}: {error}".encode())
    finally:
        os._exit(CANNOT_EXECUTE)


def _default_signals() -> None:
    """Reset all signals to their defaults. A launcher that inherits ignored signals, as from
    `nohup` or a script's `&`, cannot be stopped by them (measured on prime-rl's).
    """
    for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def _become_reaper(directory: Path, launcher: Identity, lock: int, spec: ShimSpec) -> NoReturn:
    """Replace this program with the reaper. Exec keeps the pid, the children, the pending signals
    and the subreaper flag (prctl(2)), and releases this program's memory.
    """
    os.set_inheritable(lock, True)
    home = str(spec.get("home") or "") if spec.get("agent_restart") else ""
    reaper = Path(__file__).with_name("runs") / "reap.py"
    check = str(spec.get("agent_check_s", 5.0))
    argv = [sys.executable, "-IS", str(reaper), str(directory), str(launcher.pid), home, check]
    os.execv(sys.executable, argv)  # noqa: S606


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
