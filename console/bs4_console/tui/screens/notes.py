"""What people wrote about one run, and the place to write more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.containers import VerticalScroll
from textual.widget import Widget

from bs4_console.pods.state import PodState, RunState
from bs4_console.tui import commands
from bs4_console.tui.screens.base import ConsoleScreen, Subject
from bs4_console.tui.views import notes as view
from bs4_console.tui.widgets.panel import Panel


class NotesScreen(ConsoleScreen):
    place: ClassVar[str] = commands.NOTES
    DEFAULT_CSS = (
        "NotesScreen VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: "
        "stable; padding: 1 2 0 2; }"
    )

    def __init__(self, pod: PodState, run: RunState) -> None:
        super().__init__()
        self.pod, self._run = pod, run

    def body(self) -> Iterable[Widget]:
        with VerticalScroll():
            yield Panel(id="text")

    def main(self) -> Widget:
        return self.query_one(VerticalScroll)

    def trail(self) -> Sequence[str]:
        return ("fleet", self.pod.name, self._run.name, "notes")

    def subject(self) -> Subject:
        self._run = self.pod.runs.get(self._run.name, self._run)
        return Subject(self.pod, self._run)

    def draw(self) -> None:
        run = self.subject().run
        lines = view.page(
            run.view.notes if run else (),
            self.console_app.keys["note"],
            max(40, self.size.width - 6),
        )
        self.query_one("#text", Panel).show(lines)
