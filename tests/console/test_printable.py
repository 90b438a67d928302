"""What a terminal acts on is never printed, and nothing else is lost."""

from __future__ import annotations

import contextlib
import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bs4_console.printable import blanked, escaped, one_line, only_printable, printable

ATTACKS = {
    "clipboard": ("\x1b]52;c;UFdORUQ=\x07", ""),
    "title": ("\x1b]0;PWNED\x07", ""),
    "link": ("\x1b]8;;http://evil/\x07L\x1b]8;;\x07", "L"),
    "device status": ("\x1b[6n", ""),
    "colour": ("\x1b[31mred\x1b[0m", "red"),
    "colour in C1": ("\x9b31mred", "red"),
    "title in C1": ("\x9d0;PWNED\x9c!", "!"),
    "request for settings": ("\x1bP$qm\x1b\\!", "!"),
    "never closed": ("\x1b]0;PWNED\nnext line", "\nnext line"),
    "backspaces": ("good\x08\x08\x08\x08evil", "goodevil"),
    "return": ("good\revil", "goodevil"),
    "bidi": ("\u202eevil\u2066", "evil"),
    "zero width": ("r\u200b1\ufeff", "r1"),
    "tags": ("r1\U000e0041", "r1"),
    "nul": ("a\0b", "ab"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_terminal_acts_on_is_left_out(attack: str) -> None:
    text, expected = ATTACKS[attack]
    assert printable(text) == expected


def test_a_value_stays_on_its_line() -> None:
    assert one_line("ok\nCRITICAL - invented\r\n\tmore") == "ok CRITICAL - invented more"


def test_a_column_stays_a_column() -> None:
    assert blanked("a\x1b\n\u202eb") == "a   b"


@given(st.text())
def test_nothing_that_a_terminal_acts_on_survives(text: str) -> None:
    for cleaned in (printable(text), one_line(text), blanked(text)):
        rest = cleaned.replace("\n", "").replace("\t", "")
        assert "\x1b" not in cleaned
        assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in rest)
        assert not set(cleaned) & set("\u200b\u200e\u202a\u202e\u2066\u2069\ufeff\u061c")


@given(
    st.recursive(
        st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_holds_the_same_values_and_acts_on_nothing(value: object) -> None:
    text = escaped(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert printable(text) == text


def test_both_streams_of_a_command_pass_and_are_given_back() -> None:
    out, err = io.StringIO(), io.StringIO()
    before = sys.stdout, sys.stderr
    with only_printable(out, err):
        print("\x1b]0;PWNED\x07verdict\u202e")
        print("\x9b2Jsentence", file=sys.stderr)
    assert (out.getvalue(), err.getvalue()) == ("verdict\n", "sentence\n")
    assert (sys.stdout, sys.stderr) == before


def test_a_stream_keeps_its_bytes() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, write_through=True)
    with contextlib.closing(stream), only_printable(stream, stream):
        sys.stdout.buffer.write(b"\x1b[31m")
        assert raw.getvalue() == b"\x1b[31m"
