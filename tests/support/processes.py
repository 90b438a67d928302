"""Processes of tests: started so that they cannot outlive the run, found by a mark or by descent,
ended one by one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

_forker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="test-pods")


def spawn(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """A process that dies with this one and that Ctrl-C at the terminal does not reach (the fixture
    ends it, in order).

    The kernel sends the death signal when the *thread* that forked ends, so one thread that lives
    as long as we do forks them all. Where there is no setpriv (util-linux) only an orderly end is
    possible.
    """
    dying = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    settings: dict[str, Any] = {"stdin": subprocess.DEVNULL, "start_new_session": True, **options}
    return _forker.submit(lambda: subprocess.Popen([*dying, *argv], **settings)).result()


def marked(mark: str) -> list[int]:
    """Pids of our processes that were started with `mark` ("NAME=value") in their environment."""
    name, _, value = mark.partition("=")
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(name) == value:
                found.append(process.pid)
    return found


def of_directory(directory: Path) -> dict[int, list[str]]:
    """Return the argv, by pid, of every process other than this one that names `directory` in its
    argv or environment or works in it.
    """
    text = str(directory)
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            argv = process.cmdline()
            words = [*argv, *process.environ().values(), process.cwd()]
            if process.pid != os.getpid() and any(text in word for word in words):
                found[process.pid] = argv
    return found


def end_marked(mark: str) -> None:
    for pid in marked(mark):
        end(pid)


def open_files(pid: int) -> set[str]:
    """Return what the process has open now, as /proc names it. What it closes while that is looked
    at is left out.
    """
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(descriptor.readlink()))
    return found


def descendants(pid: int) -> list[int]:
    """Every process below `pid`."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def end(pid: int) -> None:
    """kill -9; psutil compares the start time, so a reused pid is not hit."""
    with contextlib.suppress(psutil.Error):
        psutil.Process(pid).kill()
