"""The list of everything that the console has said since it started. A toast is soon gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bs4_console.tui import commands, formatting
from bs4_console.tui.screens.base import PageScreen
from bs4_console.tui.styled_text import Line, fold, hanging

#: Most messages that are kept. A link that flaps all night repeats its message thousands of times.
KEPT = 500
#: Severity -> (sign, role).
_SIGNS = {"error": ("✖", "bad"), "warning": ("▲", "warn")}
_NOTHING = "Nothing yet. What the console says, and what went wrong inside it, is kept here."


@dataclass(frozen=True)
class Said:
    """One message that the console has shown to the person. `t` is when it was shown, as a Unix
    time in seconds. `severity` is "information", "warning" or "error". `text` is what happened, and
    `more` a detail or what to do next, or "".
    """

    t: float
    severity: str
    text: str
    more: str = ""


class MessagesScreen(PageScreen):
    """The screen with all messages that the console has shown since it started, the newest first.
    Of very many only the last KEPT (500) are there.
    """

    place: ClassVar[str] = commands.MESSAGES
    DEFAULT_CSS = (
        "MessagesScreen VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; padding: 1 2 0 "
        "2; }"
    )

    def draw(self) -> None:
        """Show the messages with their times, or a sentence if there are none."""
        width = max(40, self.size.width - 16)
        lines: list[Line] = []
        for said in reversed(self.console_app.messages):
            sign, role = _SIGNS.get(said.severity, ("·", ""))
            folded = fold(said.text.removeprefix(f"{sign} "), width, role)
            if said.more:
                folded += fold(said.more, width, "dim")
            at = formatting.of_day(said.t, seconds=True)
            lines += hanging([(f"{at} ", "dim"), (f"{sign} ", role)], folded)
        self.text.show(lines or [[(_NOTHING, "dim")]])
