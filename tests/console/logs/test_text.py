"""Cleaning of raw log bytes, and what a line says of itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bs4_console.logs.text import LINE_CELLS, clean, level_of, plain, present


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (
            b"\x1b[2m21:36:59\x1b[0m \x1b[32m\x1b[1mSUCCESS\x1b[0m Step 3\n",
            b"21:36:59 SUCCESS Step 3\n",
        ),
        (b"a\x1b]0;title\x07b\n", b"ab\n"),
        (b"a\x1b]52;c;cm0gLXJm\x1b\\b\n", b"ab\n"),
        (b"a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b\n", b"alinkb\n"),
        (b"a\x1bP1$r0m\x1b\\b\n", b"ab\n"),
        (b"a\x1b[?1049h\x1b[2J\x1b[H\x1b[31mb\n", b"ab\n"),
        (b"a\x1b(0b\x1bcc\n", b"abc\n"),
        (b"never closed \x1b]0;evil\nnext line\n", b"never closed \nnext line\n"),
        (b"bell\x07 back\x08 null\x00 shift\x0e del\x7f\n", b"bell back null shift del\n"),
        (b"tab\tstays\n", b"tab\tstays\n"),
    ],
)
def test_control_sequences_do_not_survive(raw: bytes, kept: bytes) -> None:
    assert clean(raw) == kept


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (b"dos\r\nlines\r\n", b"dos\nlines\n"),
        (b" 10%|#\r 50%|#####\r100%|##########\n", b"100%|##########\n"),
        (b"done\r\r\r\n", b"done\n"),
        (b"\rfirst\nsecond\n", b"first\nsecond\n"),
        (b"\r\n\r\n", b"\n\n"),
    ],
)
def test_carriage_returns_overwrite(raw: bytes, kept: bytes) -> None:
    assert clean(raw) == kept


def test_a_long_line_without_carriage_returns_costs_linear_time() -> None:
    """A pattern that backtracks would need minutes for this."""
    assert len(clean(b"x" * 4_000_000 + b"\r" + b"y" * 10 + b"\n")) == 11


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_whatever_comes_no_escape_and_no_line_is_lost(raw: bytes) -> None:
    cleaned = clean(raw)
    assert b"\x1b" not in cleaned
    assert b"\r" not in cleaned
    assert cleaned.count(b"\n") == raw.count(b"\n")
    shown = plain(cleaned.replace(b"\n", b""))
    assert not [c for c in shown if ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F]


def test_what_hides_or_reorders_text_is_left_out() -> None:
    assert plain("a\u202eb\u2066c\u200bd\ufeffe\u009b31mf".encode()) == "abcde31mf"


def test_a_long_line_is_cut_and_says_so() -> None:
    shown = plain(b"x" * 5000)
    assert shown.startswith("x" * LINE_CELLS + " … ")
    assert "5,000 bytes" in shown


@pytest.mark.parametrize(
    ("line", "level"),
    [
        (b"21:36:59    INFO Starting", 20),
        (b"21:36:59 SUCCESS Step 3", 25),
        (b"(APIServer pid=1) WARNING 11-20 21:06:24 [x.py:1] y", 30),
        (b'{"timestamp": "2026-11-20T21:37:07+00:00", "level": "ERROR", "message": "x"}', 40),
        (b"W1130 06:49:10.577306 25428 torch/distributed/elastic/x.py:12] ERROR is named", 30),
        (b"[rank0]:E1130 06:49:10.577306 25428 torch/x.cpp:12] y", 40),
        (b"[rank5]:[E1105 08:22:33.123456999 ProcessGroupNCCL.cpp:1383] y", 40),
        (b"[W821 08:22:33.123456999 ProcessGroupNCCL.cpp:1383] ERROR is named", 30),
        (b"E1130 is a ticket", None),
        (b'  File "x.py", line 3', None),
        (b"a long line of prose " * 6 + b"ERROR", None),
    ],
)
def test_levels(line: bytes, level: int | None) -> None:
    assert level_of(line) == level


def test_a_json_line_reads_like_a_line() -> None:
    line = (
        b'{"timestamp": "2026-11-20T21:37:07.695476+00:00", "level": "SUCCESS", "message": "Step '
        b'3 |\\n more", "line": 1}'
    )
    shown = present(line)
    assert shown.text == "21:37:07 SUCCESS Step 3 | ⏎  more"
    assert shown.level == 25
    assert present(b"[trainer0]:" + line).text == "[trainer0]:21:37:07 SUCCESS Step 3 | ⏎  more"


@pytest.mark.parametrize(
    "line", [b'{"timestamp": "2026', b'{"timestamp": 5}', b'{"timestamp": "x", "level": 3}']
)
def test_json_that_is_none_is_shown_as_it_is(line: bytes) -> None:
    assert present(line).text == line.decode()


def test_escapes_inside_json_do_not_come_back() -> None:
    line = (
        b'{"timestamp": "2026-11-20T21:37:07+00:00", "level": "INFO", "message": '
        b'"a\\u001b[31mb\\u009b2Jc"}'
    )
    assert present(line).text == "21:37:07    INFO ab2Jc"
