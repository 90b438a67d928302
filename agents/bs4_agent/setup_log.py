"""The one log stream of all commands that set-ups run. It is apart from setup/, so that a daemon
can show old output without loading the rest.
"""

from __future__ import annotations

from pathlib import Path

from bs4_agent.paths import Home
from bs4_agent.streams.logs import LogStream

NAME = "setup"
#: Commands whose output can still be read; a set-up runs about ten.
KEPT = 50


def numbers(directory: Path) -> list[int]:
    """Return the numbers of the commands that set-ups ran, oldest first."""
    try:
        return sorted(int(entry.name) for entry in directory.iterdir() if entry.name.isdigit())
    except FileNotFoundError:
        return []


def output(directory: Path) -> Path:
    """Return the path of one command's output file."""
    return directory / "launcher.log"


def open_setup_log(home: Home) -> LogStream:
    """Return the stream of everything that set-ups printed; each command is a generation."""
    stream = LogStream(NAME, None, home.state / "setup.json")
    for number in numbers(home.setup)[-KEPT:]:
        stream.follow(output(home.setup / str(number)), number)
    return stream
