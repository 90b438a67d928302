"""A real terminal: the first paint, help, and a way out that leaves the terminal as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys
from bs4_console.tui import app
from tests.console.tui import fixtures
sys.exit(app.run(fixtures.fleet(*fixtures.everything())))
"""

pytestmark = pytest.mark.skipif(
    shutil.which("tmux") is None,
    reason="tmux is not installed; the screen was not tried in a real terminal",
)


class Terminal:
    """One tmux session on a socket of its own."""

    def __init__(self, directory: Path) -> None:
        self._socket = str(directory / "tmux")
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-s", "t", "-x", "100", "-y", "30", "/bin/sh"
        )

    def _tmux(self, *words: str) -> str:
        # The environment is given explicitly: readline, which pytest loads, puts COLUMNS=80 into
        # C's, past os.environ.
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env=dict(os.environ),
        )
        return done.stdout

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-t", "t", "-l", text)

    def press(self, key: str) -> None:
        self._tmux("send-keys", "-t", "t", key)

    def shown(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "t")

    def until(self, condition: Callable[[str], object], seconds: float = 90) -> str:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition(text := self.shown()):
                return text
            time.sleep(0.2)
        raise AssertionError(f"not within {seconds} s; the terminal shows:\n{self.shown()}")

    def flag(self, name: str) -> str:
        return self._tmux("display-message", "-p", "-t", "t", f"#{{{name}}}").strip()

    def close(self) -> None:
        subprocess.run(
            ["tmux", "-S", self._socket, "kill-server"],
            check=False,
            capture_output=True,
            timeout=60,
        )


@pytest.fixture
def terminal(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Terminal]:
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "console"), str(ROOT / "agents")])
    )
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("BS4_STATE_DIR", str(tmp_path / "state"))
    for name in ("TMUX_PANE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    made = Terminal(tmp_path_factory.mktemp("t"))
    yield made
    made.close()


@pytest.mark.parametrize("errors", ["", "2>/dev/null"])
def test_first_paint_help_and_quit(terminal: Terminal, tmp_path: Path, errors: str) -> None:
    """Also with standard error in a file: keys must never act on an empty screen."""
    (tmp_path / "program.py").write_text(PROGRAM)
    terminal.type(
        f"cd {ROOT} && {sys.executable} {tmp_path / 'program.py'} {errors}; echo left with $?"
    )
    terminal.press("Enter")
    # The terminal may have painted a part of it when it is looked at.
    shown = terminal.until(lambda text: "WHAT'S WRONG" in text and "unreachable since" in text)
    assert "Trainer and orchestrator" in shown
    assert len(shown.splitlines()[0]) > 80, "it does not use the width of the terminal"
    assert terminal.flag("alternate_on") == "1"
    terminal.type("?")
    terminal.until(lambda text: "ON THIS SCREEN" in text)
    terminal.press("Escape")
    terminal.until(lambda text: "ON THIS SCREEN" not in text)
    # In one go, as a quick hand or a paste does it: no letter may get lost before the line has the
    # focus.
    terminal.type(":q\r")
    shown = terminal.until(lambda text: "left with 0" in text)
    assert "Traceback" not in shown
    assert terminal.flag("alternate_on") == "0", "the alternate screen was not left"
    assert terminal.flag("cursor_flag") == "1", "the cursor is still hidden"
    assert terminal.flag("mouse_any_flag") == "0", "the mouse is still captured"
    terminal.type("stty -a | tr ' ' '\\n' | grep -x -e echo -e icanon | tr '\\n' +; echo done")
    terminal.press("Enter")
    terminal.until(lambda text: "icanon+echo+done" in text or "echo+icanon+done" in text)
