"""`watch` as a person with a screen reader has it: a real process on a real terminal, whose output
is lines of text and nothing else.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import time

import pytest

from tests.console.cli.conftest import Console


def read_until(terminal: int, wanted: bytes) -> bytes:
    """Return what the process writes, up to a match of the regular expression `wanted`."""
    text, deadline = b"", time.monotonic() + 60
    while re.search(wanted, text) is None:
        assert time.monotonic() < deadline, text
        text += os.read(terminal, 65536)
    return text


def test_it_writes_plain_lines_on_a_terminal_until_ctrl_c(console: Console) -> None:
    console.add("gone", "127.0.0.1", 1, "root", console.root / "key")
    outer, inner = pty.openpty()
    console.extra["TERM"] = "xterm-256color"
    process = console.start("watch", stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    try:
        text = read_until(outer, rb"gone: [^\n]*\n")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait()
        os.close(outer)
    # It may have said more by the time that we read.
    first, line = text.decode().splitlines()[:2]
    assert first.endswith("Ctrl-C ends.")
    assert re.fullmatch(r"\d\d:\d\d:\d\d gone: \S.* Next: \S.*\.", line), line
    assert (first + line).isprintable()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("watch",), "No pod is in the inventory, so there is nothing to watch."),
        (("watch", "--pod", "nope"), "nope"),
    ],
)
def test_without_a_pod_it_says_so(console: Console, words: tuple[str, ...], sentence: str) -> None:
    result = console(*words)
    assert result.code == 2
    assert sentence in result.sentence


def test_a_time_between_steps_is_no_negative_number(console: Console) -> None:
    console.add("gone", "127.0.0.1", 1, "root", console.root / "key")
    result = console("watch", "--steps", "-1")
    assert result.code == 2
    assert "--steps is a number of seconds" in result.sentence
