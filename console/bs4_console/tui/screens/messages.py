"""The list of everything that the console has said since it started. A toast is soon gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.containers import VerticalScroll
from textual.widget import Widget

from bs4_console.tui import commands, words
from bs4_console.tui.ink import Line, fold
from bs4_console.tui.screens.base import ConsoleScreen
from bs4_console.tui.widgets.panel import Panel

#: Most messages that are kept. A link that flaps all night repeats its message thousands of times.
KEPT = 500


@dataclass(frozen=True)
class Said:
    """One message. `t` is in seconds since the epoch. `severity` is "information", "warning" or
    "error". `more` is the next step or a detail.
    """

    t: float
    severity: str
    text: str
    more: str = ""


class MessagesScreen(ConsoleScreen):
    """The screen with all messages, the newest first."""

    place: ClassVar[str] = commands.MESSAGES
    DEFAULT_CSS = (
        "MessagesScreen VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; padding: 1 2 0 "
        "2; }"
    )

    def body(self) -> Iterable[Widget]:
        """Yield the scrolled text."""
        with VerticalScroll():
            yield Panel(id="text")

    def main(self) -> Widget:
        """Return the scrolled text, which has the focus."""
        return self.query_one(VerticalScroll)

    def trail(self) -> Sequence[str]:
        """Return the path to this screen, which the top bar shows."""
        return ("messages",)

    def hints(self, command: commands.Command) -> bool:
        """Return True if the key bar may show the command now."""
        return command.id != "messages"

    def draw(self) -> None:
        """Show all messages."""
        width = max(40, self.size.width - 16)
        lines: list[Line] = []
        for said in reversed(self.console_app.messages):
            role = {"error": "bad", "warning": "warn"}.get(said.severity, "")
            sign = {"error": "✖", "warning": "▲"}.get(said.severity, "·")
            folded = fold(said.text, width, role)
            if said.more:
                folded += fold(said.more, width, "dim")
            else:
                folded += []
            lines.append(
                [(f"{words.of_day(said.t, seconds=True)} ", "dim"), (f"{sign} ", role), *folded[0]]
            )
            for line in folded[1:]:
                lines.append([(" " * 11, ""), *line])
        self.query_one("#text", Panel).show(
            lines
            or [
                [
                    (
                        (
                            "Nothing yet. What the console says, and what went wrong inside it, "
                            "is kept here."
                        ),
                        "dim",
                    )
                ]
            ]
        )
