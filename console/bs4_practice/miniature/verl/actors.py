"""Starting Ray's processes: each is its own process group in the launch's session, and writes into
a file of its own below RAY_TMPDIR.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

#: The first worker's named actor; the prefix is random in the real one.
REGISTER_CENTER = "7Gh2WorkerDict_register_center"
#: Under which name a process is told where its Ray keeps its files.
_SESSION = "BS4_MINIATURE_RAY_SESSION"


def session(driver: int) -> Path:
    """Make the directory for the logs of the imitated Ray that belongs to the driver with process
    id `driver`, and return it.
    """
    root = (
        Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir())
        / "ray"
        / f"session_{driver}"
        / "logs"
    )
    root.mkdir(parents=True, exist_ok=True)
    return root


def start(
    role: str,
    *words: str,
    logs: Path,
    sockets: tuple[socket.socket, ...] = (),
    watched: bool = True,
) -> subprocess.Popen[bytes]:
    """Start one process of the imitated Ray and return it. `role` is what it does, such as "worker"
    or "runner", and `words` are its arguments. Its output goes to a file in the directory `logs`,
    and it inherits `sockets`. If it is `watched`, its standard input is a pipe that closes when
    this process ends, so that it can end then too (see `end_with_parent`).
    """
    name = f"{role}-{words[0] if role in ('worker', 'agent', 'daemon') else 0}"
    with open(logs / f"{name}.log", "ab", buffering=0) as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-u",
                "-m",
                f"{__package__}.main",
                role,
                *words,
                *(str(s.fileno()) for s in sockets),
            ],
            stdin=subprocess.PIPE if watched else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=tuple(s.fileno() for s in sockets),
            process_group=0,
            env={**os.environ, _SESSION: str(logs.parent)},
        )
    (logs / f"{name}.pid").write_text(str(process.pid))
    return process


def own_session() -> Path:
    """Return the directory of the Ray session to which this process belongs. Call this only in a
    process that the function `start` has started.
    """
    return Path(os.environ[_SESSION])


def registers() -> bool:
    """Return True if workers behave as in verl 0.5: the first worker registers itself as a named
    actor, and the task runner waits for that. BS4_MINIATURE_REGISTER_CENTER says so.
    """
    return bool(os.environ.get("BS4_MINIATURE_REGISTER_CENTER"))


def make_named(name: str) -> None:
    """Register a named actor with the name `name`, which all processes of this Ray session then
    find by the function `named`.
    """
    (own_session() / "named").mkdir(exist_ok=True)
    (own_session() / "named" / name).touch()


def named() -> list[str]:
    """Return the names of the named actors in the Ray session of this process, sorted, as Ray's
    list_named_actors does.
    """
    return sorted(path.name for path in (own_session() / "named").glob("*"))


def note_death(logs: Path, role: str, cause: str) -> None:
    """Write down `cause`, the reason for which Ray is about to end the process with the role
    `role`. `cause_of_death` reads it. `logs` is the session's directory of logs.
    """
    (logs / f"{role}.death").write_text(cause)


def cause_of_death(role: str) -> str | None:
    """Return the text that `note_death` has saved for the process with the role `role`, such as
    "worker-0": why Ray itself has ended that process. Return None if there is no such text.
    """
    try:
        return (own_session() / "logs" / f"{role}.death").read_text()
    except FileNotFoundError:
        return None


def end_with_parent() -> None:
    """Watch standard input in a thread, and end this process with exit code 1 when it closes. It
    closes when the parent has ended, if the parent has started this process by `start` with
    `watched`. Other processes must not call this.
    """

    def wait() -> None:
        while os.read(0, 1):
            continue
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
