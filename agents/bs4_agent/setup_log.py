"""The one log stream of all commands that set-ups run. It is apart from setup/, so that a daemon
can show old output without loading the rest.
"""

from __future__ import annotations

from pathlib import Path

from bs4_agent.paths import Home
from bs4_common.streams.logs import LogStream

NAME = "setup"
#: Commands whose output can still be read; a set-up runs about ten.
KEPT = 50


def numbers(directory: Path) -> list[int]:
    """Return the numbers of the set-up commands that have a directory in `directory`, oldest first;
    empty if `directory` does not exist.
    """
    try:
        return sorted(int(entry.name) for entry in directory.iterdir() if entry.name.isdigit())
    except FileNotFoundError:
        return []


def output(directory: Path) -> Path:
    """Return the path of the output file in the directory of one set-up command."""
    return directory / "launcher.log"


def open_setup_log(home: Home) -> LogStream:
    """Return the log stream of what the newest set-up commands printed. The output file of each
    command is one generation (file) of the stream.
    """
    stream = LogStream(NAME, None, home.state / "setup.json")
    for number in numbers(home.setup)[-KEPT:]:
        stream.follow(output(home.setup / str(number)), number)
    return stream
