"""The words of a set of literals: whoever holds a literal is found, whatever else stands there."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from bs4_common.failures.literals import Literals, beginnings

ALPHABET = "aeE RxX(]^-.|"
LITERALS = st.lists(st.text(ALPHABET, min_size=4, max_size=14), min_size=1, max_size=12)


@given(LITERALS, st.booleans(), st.lists(st.text(ALPHABET, max_size=8), max_size=4), st.data())
def test_exactly_those_whose_literal_is_there(literals, folded, around, data):
    """As text and as bytes, and whether one literal lies inside another one."""
    words = Literals([(literal, [f"(?i){literal}" if folded else literal]) for literal in literals])
    text = "".join(
        [
            *around,
            data.draw(st.sampled_from(literals)),
            *around,
            *data.draw(st.lists(st.sampled_from(literals), max_size=3)),
        ]
    )
    inside = {
        literal
        for literal in literals
        if (literal.lower() in text.lower() if folded else literal in text)
    }
    assert words.keys(text) == inside
    starts = re.compile(words.expression().encode())
    assert bool(starts.search(text.encode())) is bool(inside)


def test_who_has_no_literal_is_always_meant():
    words = Literals([("a", ["needle"]), ("b", []), ("c", ["größe"])])
    assert words.always == ("b", "c"), "JSON writes other letters than ASCII in its own way"
    assert words.keys("hay") == {"b", "c"}


def test_words_begin_with_few_rare_characters():
    assert beginnings(
        [("Xid of the", False), ("an error: Xid here", False), ("some Xids are", False)]
    ) == {"X"}
