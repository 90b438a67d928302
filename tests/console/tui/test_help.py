"""The help: a whole sentence for each command."""

from __future__ import annotations

import pytest

from bs4_console.tui import commands
from bs4_console.tui.screens.help import HelpScreen
from bs4_console.tui.styled_text import text_of
from tests.console.tui.driving import drive, until
from tests.console.tui.scenes import opened


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
@pytest.mark.parametrize("place", [commands.FLEET, commands.RUN, commands.LOG])
async def test_each_command_has_one_line_with_a_whole_sentence(
    place: str, size: tuple[int, int]
) -> None:
    app, sessions = opened("healthy")
    async with app.run_test(size=size) as pilot:
        await drive(pilot, sessions, ())
        app.push_screen(HelpScreen(place))
        await until(pilot, lambda: isinstance(app.screen, HelpScreen) and bool(app.screen.drawn))
        lines = [text_of(line) for line in app.screen.text.lines]
        for command in commands.at(place):
            sentence = f"{command.help.partition('. ')[0].rstrip('.')}."
            assert any(sentence in line for line in lines), sentence
            assert not command.names or any(f":{command.names[0]} " in line for line in lines)
