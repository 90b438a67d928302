"""A known secret that is not one word is hidden whole, wherever a text that comes early is cut."""

from __future__ import annotations

import pytest

from bs4_common.credentials.known import KnownValues
from bs4_common.credentials.redaction import Redactor
from bs4_console.secret import Secret
from bs4_console.secret import redactor as of_console

VALUES = ["correct horse battery staple", "p@ss! word, 7", "first line of it\nsecond one of it"]


def redactor(*values: str) -> Redactor:
    known = KnownValues("a key of a test")
    for value in values:
        known.add(value)
    return Redactor(known.replace, begun=known.begun)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_no_part_of_it_is_shown_early(value: str, size: int) -> None:
    text = f"epoch 3 of c {value} and on\nlast {value}"
    whole = redactor(value)
    wanted = whole.feed(text) + whole.end()
    assert not any(line in wanted for line in value.splitlines())
    pieces, out = redactor(value), ""
    for at in range(0, len(text), size):
        out += pieces.feed(text[at : at + size], early=True)
        assert wanted.startswith(out)
    assert out + pieces.end() == wanted


def test_what_only_begins_like_it_comes_as_soon_as_that_is_clear() -> None:
    shown = redactor(VALUES[0])
    assert shown.feed("10% correct horse ", early=True) == "10% "
    assert shown.feed("shoe 20% ", early=True) == "correct horse shoe 20% "


def test_the_console_holds_back_what_it_knows() -> None:
    Secret("quite another phrase 4711")
    shown = of_console()
    assert shown.feed("5% quite another ", early=True) == "5% "
    assert shown.feed("phrase 4711 \n", early=True) == "[redacted: a key of this console] \n"
