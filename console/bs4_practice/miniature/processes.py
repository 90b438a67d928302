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
    """Give this process the title `title` in place of its whole command line, and remove its
    environment from /proc, as the real library does.
    """
    setproctitle.setproctitle(title)


class Children:
    """The launcher's children in the order of their start, each watched by a thread that notes the
    child's end.

    A child that ends with another code than 0 puts its error into `errors`; a child that ends with
    0 does not. That holds for the inference server too, in both generations (prime-rl.md 1.2).
    """

    def __init__(self) -> None:
        self.processes: list[Popen[bytes]] = []
        self.errors: list[str] = []
        self._threads: list[Thread] = []
        self._ended: dict[str, Event] = {}

    def watch(self, process: Popen[bytes], key: str, name: str) -> None:
        """Watch `process` from now on. `key` is its name for `ended`, and `name` is what an error
        line calls it.
        """
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
        """Return True if every child of `keys` has ended."""
        return all(self._ended[key].is_set() for key in keys)

    def join(self) -> None:
        """Wait for each child's thread for up to 5 s, one after the other. This is most of the 23
        to 26 s that an end by error takes.
        """
        for thread in self._threads:
            thread.join(timeout=pace.paced(5))


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def descendants(pid: int) -> list[int]:
    """Return the process ids of everything below `pid`, from the parents in /proc."""
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
