"""Which cells of a tool's table are taken for secrets, and which stay."""

from __future__ import annotations

import pytest

from bs4_console.setup.tool_tables import without_secrets


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "  --token TEXT     the token to use",
        "  --api-key        the key to use",
        "│ --api-key │ TEXT │ the key to use │",
        "│ API key │ Not set │",
        "HF_TOKEN    YOUR_TOKEN",
        "a sentence about a token and its value",
        "Tokens    violetanchor",
        "│ Key │ Value │\n├─────┼───────┤\n│ team │ parrots │",
        "NAME    SCORE\nsoup    good",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_a_table_ends_where_another_begins() -> None:
    text = "NAME   TOKEN\na      violetanchor\n\nNAME   OWNER\na      parrots"
    assert without_secrets(text) == text.replace("violetanchor", "[redacted]  ")


def test_a_column_with_bars_is_found_by_its_number() -> None:
    text = " Name | Token | Made\n------+-------+-----\n a | violetanchor | 2026\n  | b | 2027\n"
    assert without_secrets(text) == text.replace("violetanchor", "[redacted]  ")
