"""Words after `:` for what is done in a shell: each line is one that the program understands."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from bs4_console.cli.main import build
from bs4_console.tui import commands
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.commands.in_a_shell import WORDS, command_line
from tests.console.tui import fixtures
from tests.console.tui.driving import drive


@pytest.mark.parametrize("word", WORDS)
def test_each_line_is_a_command_line_of_the_program(word: str) -> None:
    assert commands.parse(word)[0] is None, "a word of a screen's command is none of these"
    program, *words = shlex.split(command_line(word, "alpha", "a run"))
    assert program == "bs4-console"
    options = build([words[0]]).parse_args(words)
    assert options.command == words[0]
    assert "{" not in command_line(word, "", "")
    if "{run}" in WORDS[word]:
        assert "a run" in words
        assert "RUN" in command_line(word, "alpha", "")


async def test_a_word_for_the_shell_is_answered_with_its_line() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], ("enter", ":report"))
        line = "bs4-console runs report code-14b --output code-14b.html"
        assert app.messages[-1].text == f"In a shell: {line}"
        assert app.clipboard == line
        assert not app.screen.prompt.is_open
        await drive(pilot, [session], (":reprot",))
        assert app.screen.prompt.is_open, "what is no word of either is still refused"
