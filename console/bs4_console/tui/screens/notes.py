"""The screen with the notes that people wrote about one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from bs4_console.pods.state import PodState, RunState
from bs4_console.tui import commands
from bs4_console.tui.screens.base import PageScreen, Subject
from bs4_console.tui.views import notes as view


class NotesScreen(PageScreen):
    """The screen with the notes that people wrote about the run `run` of `pod`. The newest note
    comes first.
    """

    place: ClassVar[str] = commands.NOTES
    DEFAULT_CSS = (
        "NotesScreen VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: "
        "stable; padding: 1 2 0 2; }"
    )

    def __init__(self, pod: PodState, run: RunState) -> None:
        super().__init__()
        self.pod, self._run = pod, run

    def trail(self) -> Sequence[str]:
        """Return the breadcrumb of this screen for the top bar: fleet, pod, run and "notes"."""
        return ("fleet", self.pod.name, self._run.name, "notes")

    def subject(self) -> Subject:
        """Return the pod and the run of the notes. If the run was removed from the pod, the run is
        returned as it was last.
        """
        self._run = self.pod.runs.get(self._run.name, self._run)
        return Subject(self.pod, self._run)

    def draw(self) -> None:
        """Show all notes, or a sentence if there are none."""
        self.subject()  # looks for the run as it is now
        key, width = self.console_app.keys["note"], max(40, self.size.width - 6)
        self.text.show(view.page(self._run.view.notes, key, width))
