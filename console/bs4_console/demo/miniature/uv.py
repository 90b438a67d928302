"""`uv run X ...`: starts X from the project's environment as a child, waits for it and hands on signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType


def main(arguments: Sequence[str]) -> int:
    """Exit code of the child; 128 + n when signal n ended it, 2 for what is not there."""
    if len(arguments) < 2 or arguments[0] != "run":
        sys.stderr.write("error: this uv knows only `uv run COMMAND ...`\n")
        return 2
    command = [word for word in arguments[1:] if word not in ("--no-sync", "--frozen", "--locked")]
    environment = dict(os.environ)
    if (venv := _find_environment()) is not None:
        environment |= {"PATH": f"{venv / 'bin'}:{environment.get('PATH', '')}", "VIRTUAL_ENV": str(venv)}
        os.environ["PATH"] = environment["PATH"]  # Popen looks the command up in our own PATH
    try:
        child = subprocess.Popen(command, env=environment)
    except FileNotFoundError:
        sys.stderr.write(f"error: Failed to spawn: `{command[0]}`\n  Caused by: No such file or directory (os error 2)\n")
        return 2
    _forward_signals(child)
    code = child.wait()
    return code if code >= 0 else 128 - code


def _find_environment() -> Path | None:
    """`.venv` of the working directory or of the nearest directory above it."""
    here = Path.cwd()
    return next((found for place in (here, *here.parents) if (found := place / ".venv").is_dir()), None)


def _forward_signals(child: subprocess.Popen[bytes]) -> None:
    def forward(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, forward)
    # An interrupt reaches the child by itself: it is in the same process group.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, frame: None)
