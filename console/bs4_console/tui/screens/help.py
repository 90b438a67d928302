"""The help: keys and commands of a screen, from the table of commands, and what the signs mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from bs4_console.tui import commands
from bs4_console.tui.screens.base import PageScreen
from bs4_console.tui.styled_text import Line, fold, hanging, pad

_MOVES = (
    ("↑ ↓  k j", "one line or row"),
    ("PgUp PgDn", "one page"),
    ("Home End  g G", "first, last; in a log the last line follows again"),
    ("← →  0", "in a log: sideways, back to the line's start"),
    ("1 … 9", "the places that you pinned"),
    (
        "mouse",
        "shift with the mouse selects text as in any terminal; wheel scrolls, click selects, "
        "double click opens, keys at the bottom can be clicked",
    ),
)
_SIGNS: tuple[tuple[str, str, str], ...] = (
    ("✖ critical", "bad bold", "training stands still or will; something must be done"),
    (
        "? unreachable",
        "warn bold",
        "the link is down; nothing is known of the run, and nothing is done because of it",
    ),
    (
        "✖ reclaimed  ✖ pod gone",
        "bad bold",
        "its provider says so in two looks and nothing answers there: go on elsewhere",
    ),
    (
        "? hung  ▲ link only  ▲ rebooted",
        "warn",
        "what became of a pod by two signs; on the pod's page they stand with their times",
    ),
    ("▲ warning", "warn", "training goes on, look when you can"),
    ("↻ fixing", "accent bold", "a plan is being carried out by the agent"),
    ("● running  ◌ starting", "good", "all is well"),
    (
        "✔ finished  ■ stopped  ✖ failed",
        "",
        "how the last attempt ended; finished means both final lines were seen",
    ),
    ("▂▄▆█ ▂▄▆· ▂▄·· ▂···", "good", "link: round trip up to 60, 150, 400 ms, above"),
    (
        "ro",
        "warn",
        "beside a pod: it is read-only, every action on it is refused before anything is sent",
    ),
    ("×", "bad bold", "in a curve: NaN or infinite there"),
    (
        "┃  ▲ ▼",
        "good",
        "left of a curve: where it is healthy; beside a value: it is above or below that",
    ),
)


class HelpScreen(PageScreen):
    """The help about the screen with the name `about`, for example "fleet": its commands and keys,
    the commands that work everywhere, and what the signs on the screen mean.
    """

    place: ClassVar[str] = commands.HELP
    DEFAULT_CSS = (
        "HelpScreen VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: "
        "stable; padding: 1 2 0 2; }"
    )

    def __init__(self, about: str) -> None:
        super().__init__()
        self.about = about

    def trail(self) -> Sequence[str]:
        """Return the names on the way to this screen, which the top bar shows: "help" and the
        screen that it is about.
        """
        return ("help", self.about)

    def draw(self) -> None:
        """Show the help, wrapped to the width of the screen."""
        self.text.show([*self._lines(max(40, self.size.width - 6))])

    def _lines(self, width: int) -> Iterator[Line]:
        here: list[Line] = []
        everywhere: list[Line] = []
        for command in commands.at(self.about):
            lines = everywhere if command.where == commands.EVERYWHERE else here
            lines += self._command(command, width)
        if here:
            yield [("ON THIS SCREEN", "head")]
        yield from (*here, [], [("EVERYWHERE", "head")], *everywhere, [], [("MOVING", "head")])
        for keys, text in _MOVES:
            yield [*pad([(keys, "key")], 16), (text, "")]
        yield from ([], [("SIGNS", "head")])
        for sign, role, text in _SIGNS:
            yield from hanging(pad([(sign, role)], 34), fold(text, width - 34))

    def _command(self, command: commands.Command, width: int) -> Iterator[Line]:
        typed = ""
        if command.names:
            typed = f":{command.names[0]} {command.args}".rstrip()
        key = self.console_app.keys.get(command.id, "")
        room = 25 if width >= 100 else 23
        head = pad([(key, "key")], 6) + pad([(typed, "accent")], room)
        return hanging(head, fold(command.help, width - 6 - room))
