"""Starts programs outside the screen: in a window of tmux, or on this terminal while the screen is
suspended.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence

from bs4_console.errors import ConsoleError

#: Seconds that tmux has to answer. It only opens a window.
TMUX_S = 5.0


def command_text(argv: Sequence[str]) -> str:
    """Return `argv`, a program with its arguments, as one line that a shell can run."""
    return shlex.join(argv)


def in_tmux() -> bool:
    """Return True if the console runs inside tmux and the tmux command exists."""
    return "TMUX" in os.environ and shutil.which("tmux") is not None


def window(name: str, argv: Sequence[str]) -> None:
    """Run `argv`, a program with its arguments, in a new tmux window with the title `name`. The
    window closes if the program succeeds; if it fails the window stays until Enter is pressed.
    Raises ConsoleError if tmux does not open the window.
    """
    wait = 'code=$?; echo; echo "ended with $code; Enter closes this window"; read -r _;'
    held = f"{command_text(argv)} || {{ {wait} }}"
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
            f"tmux opened no window: {error}.", f"Open one yourself: {command_text(argv)}"
        ) from error
    if done.returncode:
        raise ConsoleError(
            f"tmux opened no window: {done.stderr.strip()}.",
            f"Open one yourself: {command_text(argv)}",
        )


def here(argv: Sequence[str]) -> int:
    """Run `argv`, a program with its arguments, on this terminal until it ends, and return its exit
    code. The caller must have suspended the console's screen. Raises ConsoleError if the program
    cannot be started.
    """
    try:
        return subprocess.run(argv, check=False).returncode
    except OSError as error:
        raise ConsoleError(
            f"{argv[0]} cannot be started: {error.strerror}.",
            "Install it, or open a shell by hand.",
        ) from error
