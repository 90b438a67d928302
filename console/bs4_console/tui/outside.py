"""Programs outside the screen: a window of tmux, or the terminal itself while the screen steps
aside.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence

from bs4_console.errors import ConsoleError

#: Seconds in which tmux has to answer; it only opens a window.
TMUX_S = 5.0


def words(argv: Sequence[str]) -> str:
    return shlex.join(argv)


def in_tmux() -> bool:
    return "TMUX" in os.environ and shutil.which("tmux") is not None


def window(name: str, argv: Sequence[str]) -> None:
    """A new window of the tmux that the console runs in, which closes when the program ends well
    and stays readable when not.
    """
    held = (
        f"{words(argv)} || {{ echo; echo 'ended with '$?'; Enter closes this window'; read -r _; }}"
    )
    try:
        done = subprocess.run(
            ["tmux", "new-window", "-n", name, "--", "/bin/sh", "-c", held],
            check=False,
            timeout=TMUX_S,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConsoleError(
            f"tmux opened no window: {error}.", f"Open one yourself: {words(argv)}"
        ) from error
    if done.returncode:
        raise ConsoleError(
            f"tmux opened no window: {done.stderr.strip()}.", f"Open one yourself: {words(argv)}"
        )


def here(argv: Sequence[str]) -> int:
    """The program on this terminal, until it ends; its exit code. The screen must have stepped
    aside.
    """
    try:
        return subprocess.run(argv, check=False).returncode
    except OSError as error:
        raise ConsoleError(
            f"{argv[0]} cannot be started: {error.strerror}.",
            "Install it, or open a shell by hand.",
        ) from error
