"""What the launchers of both generations do with processes: titles, waiting for a child's end,
joining, free ports.
"""

from __future__ import annotations

import socket
from pathlib import Path
from subprocess import Popen
from threading import Event, Thread

import setproctitle

from . import pace

PREFIX = "PRIME-RL"


def set_title(title: str) -> None:
    """The whole command line becomes `title`, and the environment is gone from /proc, as with the
    real library.
    """
    setproctitle.setproctitle(title)


class Children:
    """The launcher's children in start order, each watched by a thread that notes its end.

    A child that ends with another code than 0 puts its error into `errors`; one that ends with 0
    does not. That holds for the inference server too, in both generations (prime-rl.md 1.2).
    """

    def __init__(self) -> None:
        self.processes: list[Popen[bytes]] = []
        self.errors: list[str] = []
        self._threads: list[Thread] = []
        self._ended: dict[str, Event] = {}

    def watch(self, process: Popen[bytes], key: str, name: str) -> None:
        """`key` is asked for with `ended`; `name` is what the error line says."""
        self.processes.append(process)
        self._ended[key] = Event()
        thread = Thread(target=self._wait, args=(process, key, name), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _wait(self, process: Popen[bytes], key: str, name: str) -> None:
        code = process.wait()
        if code != 0:
            self.errors.append(f"{name.capitalize()} failed with exit code {code}")
        self._ended[key].set()

    def ended(self, *keys: str) -> bool:
        return all(self._ended[key].is_set() for key in keys)

    def join(self) -> None:
        """Each thread for up to 5 s, one after the other: this is most of the 23 to 26 s that an
        end by error takes.
        """
        for thread in self._threads:
            thread.join(timeout=pace.paced(5))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def descendants(pid: int) -> list[int]:
    """Everything below `pid`, from the parents in /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                raw = (entry / "stat").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(int(raw[raw.rindex(b")") + 2 :].split()[1]), []).append(
                int(entry.name)
            )
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found
