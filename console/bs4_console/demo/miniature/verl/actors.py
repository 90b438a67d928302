"""Starting Ray's processes: each is its own process group in the launch's session, and writes into a file of its own below RAY_TMPDIR."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path


def session(driver: int) -> Path:
    """Where this Ray keeps its logs."""
    root = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / f"session_{driver}" / "logs"
    root.mkdir(parents=True, exist_ok=True)
    return root


def start(role: str, *words: str, logs: Path, sockets: tuple[socket.socket, ...] = (), watched: bool = True) -> subprocess.Popen[bytes]:
    """A process of `role`. `watched`: it ends when we end (its standard input is ours, and nobody ever writes to it)."""
    name = f"{role}-{words[0] if role in ('worker', 'agent', 'daemon') else 0}"
    with open(logs / f"{name}.log", "ab", buffering=0) as output:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", f"{__package__}.main", role, *words, *(str(s.fileno()) for s in sockets)],
            stdin=subprocess.PIPE if watched else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=tuple(s.fileno() for s in sockets),
            process_group=0,
        )
    (logs / f"{name}.pid").write_text(str(process.pid))
    return process


def end_with_parent() -> None:
    """From now on this process ends when whoever started it does, however that ended: Ray's actors do not outlive their raylet."""

    def wait() -> None:
        while os.read(0, 1):
            continue
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
