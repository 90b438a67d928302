"""Copying that says what it did: a terminal never acknowledges."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

#: Terminals cut or drop longer OSC 52 sequences (xterm's own limit is about this many bytes of text).
OSC52_BYTES = 70_000
#: The desktop's own tools, tried first: they reach the clipboard for sure.
_TOOLS = (("wl-copy", "WAYLAND_DISPLAY", ()), ("xclip", "DISPLAY", ("-selection", "clipboard")), ("pbcopy", "", ()))


def copy(text: str, osc52: Callable[[str], None]) -> str:
    """Copy by the desktop's tool, else tmux's buffer, else OSC 52; returns in words which it was."""
    for tool, needs, arguments in _TOOLS:
        here = (not needs or needs in os.environ) and "SSH_CONNECTION" not in os.environ
        if here and shutil.which(tool) and _give([tool, *arguments], text):
            return f"({tool})"
    if "TMUX" in os.environ and shutil.which("tmux") and _give(["tmux", "load-buffer", "-w", "-"], text):
        return "(tmux buffer and, if it allows that, the clipboard)"
    if len(text.encode()) > OSC52_BYTES:
        return f"(not copied: {len(text):,} characters are more than terminals take)"
    osc52(text)
    return "(sent to the terminal; not every terminal takes it)"


def _give(argv: list[str], text: str) -> bool:
    try:
        return (
            subprocess.run(
                argv, input=text.encode(), check=False, timeout=2, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
