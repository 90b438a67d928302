"""Copies text to the clipboard and says how, because a terminal never acknowledges it."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from bs4_console.locations import state_dir

#: Most bytes of text in an OSC 52 sequence. Terminals cut or drop longer ones; xterm's own limit is
#: about this.
OSC52_BYTES = 70_000
#: The desktop's own tools are tried first, because they surely reach the clipboard.
_TOOLS = (
    ("wl-copy", "WAYLAND_DISPLAY", ()),
    ("xclip", "DISPLAY", ("-selection", "clipboard")),
    ("pbcopy", "", ()),
)
#: Terminals that are known to ignore OSC 52.
_DEAF = ("linux", "dumb", "vt100")
_DEAF_PROGRAMS = ("Apple_Terminal",)


def copy(text: str, write: Callable[[str], None]) -> str:
    """Copy `text` to the clipboard, and return in words which way was used. The desktop's own tool
    is tried first, then tmux's buffer, then OSC 52, an escape sequence that asks the terminal to do
    it. Inside GNU screen that sequence is wrapped so that it reaches the terminal. If the text is
    too long for the sequence, or the terminal is known to ignore it, the text is written to
    copied.txt in the console's state directory instead.

    `write` is called with an escape sequence to send it to the terminal.
    """
    for tool, needs, arguments in _TOOLS:
        here = (not needs or needs in os.environ) and "SSH_CONNECTION" not in os.environ
        if here and shutil.which(tool) and _give([tool, *arguments], text):
            return f"({tool})"
    fits = len(text.encode()) <= OSC52_BYTES
    if "TMUX" in os.environ and shutil.which("tmux"):
        return _through_tmux(text, write, fits=fits)
    if not fits or _deaf():
        why = f"{len(text):,} characters are more than terminals take"
        if fits:
            why = "this terminal takes no clipboard from programs"
        return f"(written to {_into_file(text)}: {why})"
    if os.environ.get("TERM", "").startswith("screen") and "STY" in os.environ:
        write(f"\x1bP{_osc52(text)}\x1b\\")
        return "(sent through screen to the terminal; not every terminal takes it)"
    write(_osc52(text))
    return "(sent to the terminal by OSC 52; not every terminal takes it)"


def _through_tmux(text: str, write: Callable[[str], None], *, fits: bool) -> str:
    """Load the text into tmux's buffer, which takes any size. From there it reaches the clipboard
    through tmux itself, or past it. Return in words what was done.
    """
    outward = _option("set-clipboard") in ("on", "external")
    if not _give(["tmux", "load-buffer", *(["-w"] if outward else []), "-"], text) and not _give(
        ["tmux", "load-buffer", "-"], text
    ):
        return f"(written to {_into_file(text)}: tmux did not take it)"
    paste = "tmux buffer, its prefix and ] paste it"
    if outward and fits:
        return f"({paste}; tmux also sent it to the terminal)"
    if fits and _option("allow-passthrough") in ("on", "all"):
        write(past_tmux(_osc52(text)))
        return f"({paste}; also sent past tmux to the terminal)"
    return (
        f"({paste}; not in the clipboard: "
        f"{'too long' if not fits else 'set-clipboard and allow-passthrough are off'})"
    )


def past_tmux(sequence: str) -> str:
    """Return an escape sequence wrapped so that tmux passes it unchanged to the terminal in which
    tmux runs. For that, every ESC in the sequence is doubled.
    """
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def _osc52(text: str) -> str:
    return f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07"


def _deaf() -> bool:
    """Return True if the terminal is known to ignore OSC 52."""
    return (
        os.environ.get("TERM", "") in _DEAF or os.environ.get("TERM_PROGRAM", "") in _DEAF_PROGRAMS
    )


def _into_file(text: str) -> Path:
    """Write the text to a file that only its owner can read, in place of the last one, and return
    its path.
    """
    path = state_dir() / "copied.txt"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text)
    return path


def _option(name: str) -> str:
    """Return the value of a tmux option, or "" if tmux does not know it."""
    for scope in ("-gv", "-gwv", "-sv"):
        if answer := _ask(["tmux", "show-options", scope, name]):
            return answer
    return ""


def _ask(argv: list[str]) -> str:
    try:
        return subprocess.run(
            argv, check=True, timeout=2, stdin=subprocess.DEVNULL, capture_output=True, text=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _give(argv: list[str], text: str) -> bool:
    try:
        subprocess.run(
            argv,
            input=text.encode(),
            check=True,
            timeout=2,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True
