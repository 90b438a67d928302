"""Copying says which way it went; tmux and the file are real."""

from __future__ import annotations

import base64
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_console.tui import clipboard


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A terminal over SSH, without desktop, tmux or screen."""
    for name in ("TMUX", "STY", "WAYLAND_DISPLAY", "DISPLAY", "TERM_PROGRAM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("BS4_STATE_DIR", str(tmp_path / "state"))


def test_over_ssh_the_terminal_gets_it() -> None:
    sent: list[str] = []
    said = clipboard.copy("zwei Wörter", sent.append)
    assert sent == [f"\x1b]52;c;{base64.b64encode('zwei Wörter'.encode()).decode()}\x07"]
    assert "OSC 52" in said
    assert "not every terminal" in said


@pytest.mark.parametrize(
    ("variable", "value"), [("TERM", "linux"), ("TERM_PROGRAM", "Apple_Terminal")]
)
def test_a_terminal_that_takes_none_gets_a_file(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, value)
    sent: list[str] = []
    said = clipboard.copy("text", sent.append)
    path = tmp_path / "state" / "copied.txt"
    assert sent == []
    assert str(path) in said
    assert path.read_text(encoding="utf-8") == "text"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_too_long_for_a_terminal_gets_a_file(tmp_path: Path) -> None:
    sent: list[str] = []
    said = clipboard.copy("x" * 100_000, sent.append)
    assert sent == []
    assert "100,000 characters" in said
    assert (tmp_path / "state" / "copied.txt").stat().st_size == 100_000


def test_screen_hands_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STY", "1.pts")
    monkeypatch.setenv("TERM", "screen-256color")
    sent: list[str] = []
    assert "screen" in clipboard.copy("text", sent.append)
    assert sent[0].startswith("\x1bP\x1b]52;c;")
    assert sent[0].endswith("\x07\x1b\\")


@pytest.fixture
def tmux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The socket of a server of our own, in which we take ourselves to be."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    socket = str(tmp_path / "tmux")
    subprocess.run(
        [
            "tmux",
            "-S",
            socket,
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            "cat",
        ],
        check=True,
    )
    monkeypatch.setenv("TMUX", f"{socket},{os.getpid()},0")
    yield socket
    subprocess.run(["tmux", "-S", socket, "kill-server"], check=False)


@pytest.mark.parametrize(
    ("options", "sequence", "words"),
    [
        ({"set-clipboard": "external"}, False, "also sent it to the terminal"),
        ({"set-clipboard": "off", "allow-passthrough": "on"}, True, "past tmux"),
        ({"set-clipboard": "off", "allow-passthrough": "off"}, False, "not in the clipboard"),
    ],
)
def test_in_tmux_the_buffer_has_it_and_the_way_out_is_said(
    tmux: str, options: dict[str, str], sequence: bool, words: str
) -> None:
    for name, value in options.items():
        scope = "-s" if name == "set-clipboard" else "-gw"
        subprocess.run(["tmux", "-S", tmux, "set-option", scope, name, value], check=True)
    sent: list[str] = []
    said = clipboard.copy("from the log", sent.append)
    buffer = subprocess.run(
        ["tmux", "-S", tmux, "show-buffer"], check=True, capture_output=True, text=True
    ).stdout
    assert buffer == "from the log"
    assert words in said
    assert bool(sent) == sequence
    if sequence:
        assert sent[0].startswith("\x1bPtmux;\x1b\x1b]52;c;")
