"""The help: keys and commands of a screen, from the table of commands, and what the signs mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import ClassVar

from bs4_console.tui import commands
from bs4_console.tui.screens.base import PageScreen
from bs4_console.tui.styled_text import Line, fold, hanging, pad, width_of
from bs4_console.tui.views.fleet import matches

#: Cells of a column of commands on the dense page.
COLUMN = 74
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
    ("✖ critical", "bad bold", "training stands still or will: act now"),
    (
        "? unreachable",
        "warn bold",
        "the link is down: nothing is known of the run, and nothing is done",
    ),
    (
        "✖ reclaimed  ✖ pod gone",
        "bad bold",
        "lost, says its provider: go on elsewhere",
    ),
    (
        "? hung  ▲ link only  ▲ rebooted",
        "warn",
        "a pod's fate by two signs: see its page",
    ),
    ("▲ warning", "warn", "training goes on, look when you can"),
    ("↻ fixing", "accent bold", "a plan is being carried out by the agent"),
    ("● running  ◌ starting", "good", "all is well"),
    (
        "✔ finished  ■ stopped  ✖ failed",
        "",
        "how the last attempt ended; finished means both final lines were seen",
    ),
    ("▂▄▆█ ▂▄▆· ▂▄·· ▂···", "good", "link: at most 60, 150, 400 ms, or more"),
    (
        "ro",
        "warn",
        "a read-only pod: every action is refused",
    ),
    ("×", "bad bold", "in a curve: NaN or infinite there"),
    (
        "┃  high  low",
        "good",
        "where other runs usually are; a value above or below that",
    ),
)


#: Ends the first sentence of a command's help, which the dense page shows.
SENTENCE_END = re.compile(r"(?<=\.) ")


class HelpScreen(PageScreen):
    """The help about the screen with the name `about`, for example "fleet": what the signs mean,
    the keys that move the cursor, and the screen's commands with a sentence for each. Commands can
    also be shown with their whole texts, and a filter leaves only those that match.
    """

    place: ClassVar[str] = commands.HELP
    DEFAULT_CSS = (
        "HelpScreen VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: "
        "stable; padding: 0 2 0 2; }"
    )

    def __init__(self, about: str) -> None:
        super().__init__()
        self.about = about
        self.whole = False
        """True while every command is shown with the whole of its help."""
        self.wanted = ""
        """The filter, "" for none."""

    def trail(self) -> Sequence[str]:
        """Return the breadcrumb of this screen for the top bar: "help" and the name of the screen
        that the help is about.
        """
        return ("help", self.about)

    def draw(self) -> None:
        """Show the help, wrapped to the width of the screen."""
        self.text.show([*self._lines(max(40, self.size.width - 6))])

    def prompted(self, kind: str, text: str, *, final: bool) -> None:
        """Leave only the commands that match `text`, which was typed after `/`. `kind` and `final`
        are ignored, because the page is filtered anew with each letter.
        """
        self.wanted = text
        self.draw_safely()

    def do_filter(self, args: str) -> None:
        """Show only the commands that match `args`. If `args` is empty, open the prompt in which a
        filter is typed.
        """
        if args:
            self.prompted("/", args, final=True)
        else:
            self.ask("/", self.wanted)

    def do_expand(self, args: str) -> None:
        """Show the whole help text of each command in the list, or, if that is shown already, only
        the first sentence of each. `args` is ignored.
        """
        self.whole = not self.whole
        self.draw_safely()

    def do_back(self, args: str) -> None:
        """Remove the filter if there is one, otherwise close the help. `args` is ignored."""
        if self.wanted:
            self.prompted("/", "", final=True)
        else:
            self.console_app.do_back("")

    def _lines(self, width: int) -> Iterator[Line]:
        here: list[commands.Command] = []
        everywhere: list[commands.Command] = []
        for command in commands.at(self.about):
            if not matches(f"{command.title} {command.synonyms} {command.help}", self.wanted):
                continue
            (everywhere if command.where == commands.EVERYWHERE else here).append(command)
        if not self.wanted:
            yield from self._signs(width)
            yield []
        if here:
            yield [("ON THIS SCREEN", "head")]
            yield from self._commands(here, width)
            yield []
        if everywhere:
            yield [("EVERYWHERE", "head")]
            yield from self._commands(everywhere, width)
            yield []
        if not (here or everywhere):
            yield [(f"Nothing here matches {self.wanted}.", "warn")]
        if not self.wanted:
            yield [("MOVING", "head")]
            for keys, text in _MOVES:
                yield from hanging(pad([(keys, "key")], 16), fold(text, width - 16))

    def _signs(self, width: int) -> Iterator[Line]:
        yield [("SIGNS", "head")]
        room = 34
        for sign, role, text in _SIGNS:
            yield from hanging(pad([(sign, role)], room), fold(text, width - room))

    def _commands(self, found: Sequence[commands.Command], width: int) -> Iterator[Line]:
        """Yield the commands in whole texts, or in a sentence each, in as many columns as fit."""
        if self.whole:
            for command in found:
                yield from self._command(command, width)
            return
        columns = max(1, width // COLUMN)
        each = width // columns
        for at in range(0, len(found), columns):
            beside = [self._short(command, each - 1) for command in found[at : at + columns]]
            for parts in zip_longest(*beside, fillvalue=[]):
                line: Line = []
                for part in parts:
                    line += pad(part, each)
                yield line

    def _short(self, command: commands.Command, width: int) -> list[Line]:
        """Return a command's key, its name and the first sentence about it, in lines of at most
        `width` cells.
        """
        typed = ""
        if command.names:
            typed = f":{command.names[0]}"
        about = SENTENCE_END.split(command.help, maxsplit=1)[0]
        key = self.console_app.keys.get(command.id, "")
        head: Line = [*pad([(key, "key")], 6), *pad([(typed, "accent")], 19)]
        return [*hanging(head, fold(about, width - width_of(head)))]

    def _command(self, command: commands.Command, width: int) -> Iterator[Line]:
        typed = ""
        if command.names:
            typed = f":{command.names[0]} {command.args}".rstrip()
        key = self.console_app.keys.get(command.id, "")
        room = 25 if width >= 100 else 23
        head = pad([(key, "key")], 6) + pad([(typed, "accent")], room)
        return hanging(head, fold(command.help, width - 6 - room))
