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
    """Make the log directory of the Ray that belongs to the driver with process id `driver`, and
    return it.
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
    """Start a process of `role` with the arguments `words` and return it. Its output goes to a file
    in `logs`, and the `sockets` stay open in it. A `watched` process can end with this one: its
    standard input is a pipe from here that nobody ever writes to (see `end_with_parent`).
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
    """Return the session's directory for a process that `start` has started."""
    return Path(os.environ[_SESSION])


def registers() -> bool:
    """Return True if the worker groups are those of verl 0.5 and its forks: the first worker
    registers itself, and the runner waits for that.
    """
    return bool(os.environ.get("BS4_MINIATURE_REGISTER_CENTER"))


def make_named(name: str) -> None:
    """Make a named actor, which everybody in the session can find from now on."""
    (own_session() / "named").mkdir(exist_ok=True)
    (own_session() / "named" / name).touch()


def named() -> list[str]:
    """Return the names of the named actors of the session, as Ray's list_named_actors does."""
    return sorted(path.name for path in (own_session() / "named").glob("*"))


def note_death(logs: Path, role: str, cause: str) -> None:
    """Save why Ray itself ends the actor `role`, before Ray does so. Whoever waits for that actor
    can read it with `cause_of_death`.
    """
    (logs / f"{role}.death").write_text(cause)


def cause_of_death(role: str) -> str | None:
    """Return why Ray ended the actor `role`, or None if Ray did not end it."""
    try:
        return (own_session() / "logs" / f"{role}.death").read_text()
    except FileNotFoundError:
        return None


def end_with_parent() -> None:
    """End this process from now on when its parent ends, however that ended: Ray's actors do not
    outlive their raylet.
    """

    def wait() -> None:
        while os.read(0, 1):
            continue
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
