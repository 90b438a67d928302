"""The filter of what a terminal acts on: log lines (logs/text.py), their detail, and every other
text on the screen (tui/styled_text.py and printable.py).
"""

from __future__ import annotations

import re

from bs4_console.logs.detail import spell_out
from bs4_console.logs.text import LINE_CELLS, clean, present
from bs4_console.printable import blanked

#: What no line of the screen may hold: controls, C1, characters that hide or reorder text, and
#: halves of surrogate pairs. Tabs are expanded.
_FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
#: A shown line is cut at LINE_CELLS, and then says how long it is.
_LONGEST = LINE_CELLS + 60

SEEDS = [
    b"\x1b[31mred\x1b[0m 12:00:00 INFO x\n",
    b"\x1b]0;title\x07a\x1bP$q\x1b\\b\n",
    b'{"timestamp":"2026-01-01T00:00:00","level":"INFO","message":"a\\u001b[31m\\u009b\\u202e"}\n',
    b'[trainer0]:{"timestamp":"2026-01-01T00:00:00","level":"ERROR","extra":{"a":[1]}}\n',
    b"a\rb\rc\r\n",
    "\u202eabc\u200b\u2066\n".encode(),
]


def feed(data: bytes) -> None:
    """Show the lines as the log view, its detail and the rest of the screen show them."""
    cleaned = clean(data)
    assert cleaned.count(b"\n") == data.count(b"\n"), "the number of lines changed"
    lines = cleaned.split(b"\n")
    for line in lines:
        _check(present(line).text)
        _check(present(line, 200).text)
        _check(blanked(line.decode("utf-8", "replace")))
    for shown in spell_out(lines[:20]):
        assert shown is not None


def _check(text: str) -> None:
    found = _FORBIDDEN.search(text)
    assert found is None, f"a terminal would act on {found.group()!a}"
