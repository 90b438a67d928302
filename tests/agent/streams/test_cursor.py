from __future__ import annotations

import pytest

from bs4_common.errors import BadCursor
from bs4_common.streams.cursor import Chunk, Cursor


@pytest.mark.parametrize(
    "text", ["1:0", "0:0", "12:345678901234567", "999999999999:999999999999999999"]
)
def test_a_cursor_is_its_text(text: str) -> None:
    assert str(Cursor.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "1",
        "1:",
        ":1",
        "-1:0",
        "1:-1",
        "1:0 ",
        " 1:0",
        "1_0:0",
        "1:0x",
        "\u0661:\u0660",
        "1:0\n",
        "start",
        "end",
        "9" * 99 + ":0",
    ],
)
def test_anything_else_is_a_bad_cursor(text: str) -> None:
    with pytest.raises(BadCursor, match="is no cursor; use"):
        Cursor.parse(text)


def test_cursors_of_a_stream_are_in_order() -> None:
    assert Cursor(1, 900) < Cursor(2, 0) < Cursor(2, 5) < Cursor(10, 0)


def test_only_an_unfinished_line_repeats() -> None:
    assert Chunk("1:5", "1:5", b"abc", partial=True).repeats
    assert not Chunk("1:5", "1:8", b"abc", partial=True).repeats
    assert not Chunk("1:5", "1:5").repeats
