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
    """Give this process the title `title`, which /proc and ps then show instead of its command
    line. Its environment variables can no longer be seen there either.
    """
    setproctitle.setproctitle(title)


class Children:
    """The child processes of a launcher, each watched by a thread until it ends. `processes` has
    them in the order of their start. `errors` has a line of text for each that ended with another
    exit code than 0. A child that ends with 0 leaves no error, not even the inference server, as in
    prime-rl.
    """

    def __init__(self) -> None:
        self.processes: list[Popen[bytes]] = []
        self.errors: list[str] = []
        self._threads: list[Thread] = []
        self._ended: dict[str, Event] = {}

    def watch(self, process: Popen[bytes], key: str, name: str) -> None:
        """Watch `process` from now on. `key` is the name by which the method `ended` finds it, and
        `name` is what an error line calls it.
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
        """Return True if all of the launcher's child processes with these keys have ended. The keys
        are those that `watch` was given. Raises KeyError for another key.
        """
        return all(self._ended[key].is_set() for key in keys)

    def join(self) -> None:
        """Wait for the end of each child, one after the other and for up to 5 seconds each, times
        BS4_MINIATURE_PACE. In prime-rl these waits are most of the 23 to 26 seconds that a run
        takes to end after an error.
        """
        for thread in self._threads:
            thread.join(timeout=pace.paced(5))


def free_port() -> int:
    """Return the number of a port on which nothing on this machine listens."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def descendants(pid: int) -> list[int]:
    """Return the process ids of all descendants of the process `pid`, as /proc shows them."""
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
