"""Keys that come faster than they are handled."""

from __future__ import annotations

import pytest
from textual.events import Key

from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.widgets.prompt import Prompt
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until

BACKSPACE = "\b"
NAMES = {BACKSPACE: "backspace", "<": "left"}


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        (f"h100-abc{BACKSPACE}{BACKSPACE}xyz", "h100-axyz"),
        (f"12{BACKSPACE}{BACKSPACE}400", "400"),
        ("ac<b", "abc"),
    ],
)
async def test_a_burst_of_keys_is_entered_as_it_was_typed(typed: str, text: str) -> None:
    session = fixtures.healthy()
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("/",))
        for letter in typed:
            app.post_message(Key(NAMES.get(letter, letter), None if letter in NAMES else letter))
        field = app.screen.query_one(Prompt).field
        await until(pilot, lambda: field.value == text)
