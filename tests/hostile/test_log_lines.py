"""Log lines of an honest agent that ended the screen, as the log view and the detail of a line take
them apart.
"""

from __future__ import annotations

import pytest

from bs4_console.logs.detail import spell_out
from bs4_console.logs.text import present

DEEP = b"[" * 30_000 + b"]" * 30_000
LINES = {
    "nested 30,000 deep": b'INFO ok {"timestamp":"2026-01-01T00:00:00","level":"INFO","message":'
    + DEEP
    + b"}",
    "JSON nested 30,000 deep": b'{"timestamp":"2026-01-01T00:00:00","level":"INFO","message":'
    + DEEP
    + b"}",
    "a list for a level": b'{"timestamp":[1],"level":"INFO","message":"x"}',
    "an object for a time": b'{"timestamp":{"a":1},"level":"ERROR"}',
    "nulls": b'{"timestamp":null,"level":"INFO","message":null}',
    "no time": b'{"level":"INFO","message":"x"}',
    "a surrogate": (
        b'{"timestamp":"x","level":"INFO","message":"\\ud800 \\u001b]52;c;aGk=\\u0007 \\u009b31m"}'
    ),
    "NaN": b'{"timestamp":"2026-01-01T00:00:00","level":"INFO","message":NaN}',
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_line_is_shown_whatever_it_holds(line: bytes) -> None:
    shown = present(line)
    assert shown.text
    assert "\x1b" not in shown.text
    assert "\x9b" not in shown.text


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_its_detail_is_shown(line: bytes) -> None:
    assert spell_out([line])
