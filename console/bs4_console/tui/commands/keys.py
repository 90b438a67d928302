"""How keys are written on the screen."""

from __future__ import annotations

_KEY_TEXT = {
    "enter": "⏎",
    "escape": "esc",
    "slash": "/",
    "colon": ":",
    "question_mark": "?",
    "dollar_sign": "$",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "ctrl+p": "^p",
    "ctrl+c": "^c",
    "at": "@",
    "comma": ",",
    "full_stop": ".",
    "exclamation_mark": "!",
    "apostrophe": "'",
    "quotation_mark": '"',
    "plus": "+",
    "minus": "-",
    "less_than_sign": "<",
    "greater_than_sign": ">",
}


def key_text(key: str) -> str:
    """Return a Textual key name as the screen shows it, for example "?" for "question_mark"."""
    return _KEY_TEXT.get(key, key)
