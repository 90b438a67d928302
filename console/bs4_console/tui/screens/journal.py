"""All that was done on every pod, by whom: the pods' own journals in one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import on
from textual.containers import VerticalScroll
from textual.widget import Widget

from bs4_console.core.state import ActionView, PodState
from bs4_console.tui import commands, words
from bs4_console.tui.ink import Line, text_of
from bs4_console.tui.screens.base import ConsoleScreen, Subject
from bs4_console.tui.views import journal as view
from bs4_console.tui.views.fleet import matches
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.widgets.table import RowTable


class JournalScreen(ConsoleScreen):
    place: ClassVar[str] = commands.JOURNAL
    DEFAULT_CSS = """
    JournalScreen #note { height: auto; }
    JournalScreen VerticalScroll { height: auto; max-height: 70%; border-top: solid $panel; scrollbar-size-vertical: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.filter_text = ""

    def body(self) -> Iterable[Widget]:
        yield Panel(id="note")
        yield RowTable(view.COLUMNS)
        with VerticalScroll():
            yield Panel(id="deed")

    @property
    def table(self) -> RowTable:
        return self.query_one(RowTable)

    def main(self) -> Widget:
        return self.table

    def trail(self) -> Sequence[str]:
        return ("journal",)

    def deed(self) -> tuple[PodState, ActionView] | None:
        """The pod and the action under the cursor."""
        row = self.table.selected if self.ready else None
        pod = next((p for p in self.console_app.fleet.pods if row and p.name == row.key[0]), None)
        action = pod.ledger.actions.get(row.key[1]) if pod and row else None
        return (pod, action) if pod and action else None

    def subject(self) -> Subject:
        deed = self.deed()
        return Subject(deed[0], deed[0].runs.get(deed[1].run)) if deed else Subject()

    def draw(self) -> None:
        app = self.console_app
        rows = view.rows(app.fleet.pods, app.clock)
        kept = [row for row in rows if matches(row.text, self.filter_text)]
        self.table.show(kept)
        note: list[Line] = []
        if self.filter_text:
            note = [[(f" /{self.filter_text} ", "hit"), (f" {len(kept)} of {words.count(len(rows), 'deed')}", "")]]
        elif not rows:
            note = [[], [("  Nothing was done yet. Plans, fixes, launches, stops and notes stand here with who did them.", "dim")]]
        self.query_one("#note", Panel).show(note)
        self._show_deed()

    def _show_deed(self) -> None:
        deed = self.deed()
        self.query_one(VerticalScroll).display = deed is not None
        self.query_one("#deed", Panel).show(view.lines(*deed, self.size.width) if deed else [])

    @on(RowTable.Moved)
    def _moved(self) -> None:
        self.draw_safely()

    @on(RowTable.Opened)
    def _opened(self) -> None:
        self.do_open("")

    def prompted(self, kind: str, text: str, *, final: bool) -> None:
        self.filter_text = text
        self.draw_safely()

    def hints(self, command: commands.Command) -> bool:
        return command.id != "journal"

    # -- commands

    def do_open(self, args: str) -> None:
        subject = self.subject()
        if subject.pod is not None and subject.run is not None:
            self.console_app.open_run(subject.pod, subject.run)
        elif subject.pod is not None:
            self.console_app.open_pod(subject.pod)

    def do_filter(self, args: str) -> None:
        if args:
            self.prompted("/", args, final=True)
        else:
            self.ask("/", self.filter_text)

    def do_back(self, args: str) -> None:
        if self.filter_text:
            self.prompted("/", "", final=True)
        else:
            self.console_app.do_back("")

    def do_copy(self, args: str) -> None:
        if self.deed() is not None:
            self.console_app.copy("\n".join(text_of(line).rstrip() for line in self.query_one("#deed", Panel).lines), "Copied the entry.")
