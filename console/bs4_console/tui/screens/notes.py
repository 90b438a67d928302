"""The screen with the notes that people wrote about one run."""

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
    """The notes about a run, the newest first."""

    place: ClassVar[str] = commands.NOTES
    DEFAULT_CSS = (
        "NotesScreen VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: "
        "stable; padding: 1 2 0 2; }"
    )

    def __init__(self, pod: PodState, run: RunState) -> None:
        super().__init__()
        self.pod, self._run = pod, run

    def body(self) -> Iterable[Widget]:
        """Yield the scrolled text."""
        with VerticalScroll():
            yield Panel(id="text")

    def main(self) -> Widget:
        """Return the scrolled text, which has the focus."""
        return self.query_one(VerticalScroll)

    def trail(self) -> Sequence[str]:
        """Return the path to this screen, which the top bar shows."""
        return ("fleet", self.pod.name, self._run.name, "notes")

    def subject(self) -> Subject:
        """Return the pod and the run. A run that was removed stays as it was last."""
        self._run = self.pod.runs.get(self._run.name, self._run)
        return Subject(self.pod, self._run)

    def draw(self) -> None:
        """Show all notes."""
        run = self.subject().run
        lines = view.page(
            run.view.notes if run else (),
            self.console_app.keys["note"],
            max(40, self.size.width - 6),
        )
        self.query_one("#text", Panel).show(lines)
