"""The console's own themes: dark, light, one of each for colour-blind eyes, and one without
colours.

bs4-safe and bs4-safe-light take their colours from Okabe and Ito's palette: sky blue, yellow and
vermillion for good, warning and bad stay apart under protanopia, deuteranopia and tritanopia (a
test computes that). States have a sign and a word in every theme.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual.theme import Theme

from bs4_console.tui.styled_text import DARK

LIGHT = Theme(
    name="bs4-light",
    primary="#00568f",
    secondary="#5b6672",
    accent="#00568f",
    foreground="#1b1f24",
    background="#fbfcfd",
    surface="#f0f3f6",
    panel="#e3e8ed",
    success="#0b6b45",
    warning="#7a4b00",
    error="#a4161a",
    dark=False,
    variables=dict(DARK.variables),
)
SAFE = Theme(
    name="bs4-safe",
    primary="#56b4e9",
    secondary="#8a939c",
    accent="#d9a3c7",
    foreground="#e3e6ea",
    background="#0c0f12",
    surface="#14181d",
    panel="#1d2329",
    success="#56b4e9",
    warning="#f0e442",
    error="#e8702a",
    dark=True,
    variables=dict(DARK.variables),
)
SAFE_LIGHT = Theme(
    name="bs4-safe-light",
    primary="#00507a",
    secondary="#5b6672",
    accent="#7d2b63",
    foreground="#16191d",
    background="#fbfcfd",
    surface="#f0f3f6",
    panel="#e3e8ed",
    success="#00507a",
    warning="#806600",
    error="#6b0024",
    dark=False,
    variables=dict(DARK.variables),
)
#: Only bold, dim, underline and reverse, in the terminal's own two colours.
NO_COLOUR = Theme(
    name="bs4-no-colour",
    primary="#d0d0d0",
    foreground="#d0d0d0",
    background="#000000",
    dark=True,
    variables=dict(DARK.variables),
)

OWN = (DARK, LIGHT, SAFE, SAFE_LIGHT, NO_COLOUR)


def names(available: Iterable[str]) -> list[str]:
    """Return the names of all themes in the order in which they are offered: the console's own,
    then the other names in `available`, sorted.
    """
    own = [theme.name for theme in OWN]
    return [*own, *sorted(set(available) - set(own))]
