"""Themes: every colour can be read on its background, the safe ones stay apart for colour-blind
eyes, and one has no colour at all.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from rich.color import Color as RichColor
from rich.color import ColorSystem
from textual.color import Color
from textual.widgets import Input

from bs4_console.tui import themes
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.styled_text import RoleStyles
from tests.console.tui import fixtures
from tests.console.tui.driving import drive
from tests.console.tui.scenes import lead, opened

COLOURED = [theme for theme in themes.OWN if theme is not themes.NO_COLOUR]
#: Linear RGB as seen without one kind of cone (Machado, Oliveira and Fernandes 2009, severity 1).
BLIND = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def linear(channel: int) -> float:
    share = channel / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def luminance(color: str) -> float:
    r, g, b = (linear(channel) for channel in Color.parse(color).rgb)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def lab(rgb: tuple[float, ...]) -> tuple[float, float, float]:
    r, g, b = (min(max(value, 0.0), 1.0) for value in rgb)
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def apart(first: str, second: str, kind: str) -> float:
    """Distance in CIELAB as that eye sees the two; 2 is just visible."""
    seen = []
    for color in (first, second):
        rgb = tuple(linear(channel) for channel in Color.parse(color).rgb)
        seen.append(
            lab(tuple(sum(a * b for a, b in zip(row, rgb, strict=True)) for row in BLIND[kind]))
        )
    return math.dist(*seen)


def colour(ink: RoleStyles, role: str) -> str:
    found = ink.style(role).color
    assert found is not None
    return found.get_truecolor().hex


@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
@pytest.mark.parametrize("role", ["text", "good", "warn", "bad", "accent", "key"])
def test_every_word_can_be_read(theme: Any, role: str) -> None:
    ink = RoleStyles(theme)
    assert contrast(colour(ink, role), theme.background) >= 4.5
    cursor = ink.style("cursor").bgcolor
    assert cursor is not None
    assert contrast(colour(ink, role), cursor.get_truecolor().hex) >= 3.0, "under the cursor"


@pytest.mark.parametrize(
    "theme", [t for t in themes.OWN if not t.dark], ids=lambda theme: theme.name
)
def test_grey_words_can_be_read_on_a_light_background(theme: Any) -> None:
    """Ages, totals and whole rows of stale GPUs are grey, also in the bars above and below."""
    ink = RoleStyles(theme)
    bar = ink.style("bar").bgcolor
    assert bar is not None
    for below in (theme.background, bar.get_truecolor().hex):
        assert contrast(colour(ink, "dim"), below) >= 4.5


@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
def test_on_a_terminal_of_16_colours_each_role_has_its_own(theme: Any) -> None:
    """The nearest of 16 to the colours of a theme are one grey for most of its roles."""
    ink = RoleStyles(theme, sixteen=True)

    def nearest(used: Any) -> int | None:
        assert used is not None
        number: int | None = used.downgrade(ColorSystem.STANDARD).number
        return number

    below = {
        nearest(RichColor.parse(theme.background)),
        nearest(ink.style("cursor").bgcolor),
    }
    assert len(below) == 2, "the cursor is seen"
    seen = [nearest(ink.style(role).color) for role in ("good", "warn", "bad", "accent", "dim")]
    assert len({*seen, nearest(ink.style("text").color)}) == 6
    hues = {nearest(ink.style(f"hue{n}").color) for n in range(6)}
    assert len(hues) == 6
    assert not below & {*seen, *hues}


async def test_the_terminal_says_how_many_colours_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blue = "#0000aa"
    for system, expected in ("truecolor", False), ("standard", True):
        monkeypatch.setattr("textual.constants.COLOR_SYSTEM", system)
        app = ConsoleApp(fixtures.fleet(fixtures.idle()), clock=fixtures.CLOCK)
        cursor = app.ink.style("cursor").bgcolor
        assert cursor is not None
        assert (cursor.name == blue) is expected


@pytest.mark.parametrize("theme", [themes.SAFE, themes.SAFE_LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize("kind", BLIND)
def test_good_warning_and_bad_stay_apart(theme: Any, kind: str) -> None:
    ink = RoleStyles(theme)
    for first, second in itertools.combinations(("good", "warn", "bad"), 2):
        assert apart(colour(ink, first), colour(ink, second), kind) >= 20, (first, second)


async def test_the_theme_without_colour_sends_none_and_goes_away_again() -> None:
    app = ConsoleApp(fixtures.fleet(*fixtures.everything()), clock=fixtures.CLOCK)

    def colours() -> set[str]:
        found = set()
        for strip in app.screen._compositor.render_strips():
            segments = list(strip)
            for line_filter in app.get_line_filters():
                segments = line_filter.apply(segments, Color(0, 0, 0))
            for segment in segments:
                for used in (segment.style.color, segment.style.bgcolor) if segment.style else ():
                    if used is not None and not used.is_default:
                        found.add(used.name)
        return found

    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [], ())
        assert len(colours()) > 5
        await drive(pilot, [], (":theme bs4-no-colour",))
        assert colours() == set()
        await drive(pilot, [], (":theme bs4-light",))
        assert len(colours()) > 5


async def test_theme_without_a_name_goes_round_our_own() -> None:
    app = ConsoleApp(fixtures.fleet(fixtures.idle()), clock=fixtures.CLOCK)
    async with app.run_test() as pilot:
        seen = []
        for _ in range(4):
            await drive(pilot, [], (":theme",))
            seen.append(app.theme)
        assert seen == [theme.name for theme in themes.OWN[1:]]


@pytest.mark.parametrize("how", ["theme", "environment"])
async def test_without_colour_the_chosen_entry_and_the_place_to_type_are_seen(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Textual marks both by a background alone."""
    if how == "environment":
        monkeypatch.setenv("NO_COLOR", "1")
    app, sessions = opened("planned")
    async with app.run_test(size=(80, 24)) as pilot:
        if how == "theme":
            app.theme = "bs4-no-colour"
        await lead(pilot, sessions, ("ctrl+p",))
        entries = app.screen.query_one("CommandList")
        lines = [
            [segment.style for segment in entries.render_line(y) if segment.text.strip()]
            for y in (0, 2)
        ]
        assert [any(style is not None and style.underline for style in line) for line in lines] == [
            True,
            False,
        ]
        await lead(pilot, sessions, ("escape", "i", "r"))
        field = app.screen.query_one(Input)
        cursors = [
            segment
            for segment in field.render_line(0)
            if segment.style is not None and segment.style.reverse
        ]
        assert len(cursors) == 1


def test_without_colour_the_padding_of_a_word_is_not_underlined() -> None:
    ink = RoleStyles(themes.NO_COLOUR, colour=False)
    strip = ink.strip([(" link  ", "head"), ("12ms", ""), ("   ", "key")], 20)
    assert strip.text == " link  12ms         "
    assert "".join(part.text for part in strip if part.style and part.style.underline) == "link"
