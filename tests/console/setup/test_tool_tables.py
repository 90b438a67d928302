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
        "eos_token: <|im_end|>",
        "| eos_token | im_end |",
        "grep token | wc -l",
        "KeyError: 'answer_token'  in row 5",
        'a "desc": "answer in one token | number of letters",',
        "│ guess-the-password │ primeintellect │",
        "Next token    Predict what comes",
        "API key      Not set\nUsername     parrots",
        "TOKEN  COUNT\nthe   5",
        "Environment   Secret   Required\nsoup          Yes      No",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_a_table_ends_where_another_begins() -> None:
    text = "NAME   TOKEN\na      violetanchor\n\nNAME   OWNER\na      parrots"
    assert without_secrets(text) == text.replace("violetanchor", "[redacted]  ")


def test_a_name_and_its_value_are_no_headings() -> None:
    text = "HF_TOKEN    violetanchor\nteam        parrots"
    assert without_secrets(text) == text.replace("violetanchor", "[redacted]  ")


def test_the_rest_of_a_secret_in_a_table_without_a_border_is_found() -> None:
    text = (
        " Name | Token | Made\n------+-------+-----\n a | violetanch | 2026\n   | orcopper1 | x\n"
    )
    shown = text.replace("violetanch", "[redacted]").replace("orcopper1 ", "[redacted] ")
    assert without_secrets(text) == shown


def test_a_column_with_bars_is_found_by_its_number() -> None:
    text = " Name | Token | Made\n------+-------+-----\n a | violetanchor | 2026\nb | | 2027\n"
    assert without_secrets(text) == text.replace("violetanchor", "[redacted]  ")
