"""The journal screen: all actions on every pod, and by whom, in one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar

from textual.containers import VerticalScroll
from textual.widget import Widget

from bs4_console.pods.state import ActionView, PodState
from bs4_console.tui import commands
from bs4_console.tui.clock import Clock
from bs4_console.tui.ink import text_of
from bs4_console.tui.overview import PodRows
from bs4_console.tui.screens.base import Subject
from bs4_console.tui.screens.table import TableScreen
from bs4_console.tui.views import journal as view
from bs4_console.tui.views.fleet import Row
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.widgets.table import RowTable


class JournalScreen(TableScreen):
    """The table of the pods' journals, with the action under the cursor in full."""

    place: ClassVar[str] = commands.JOURNAL
    DEFAULT_CSS = """
    JournalScreen #note { height: auto; }
    JournalScreen VerticalScroll {
        height: auto; max-height: 70%; border-top: solid $panel; scrollbar-size-vertical: 1;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._rows: PodRows[Row] = PodRows()
        self._tokens: list[tuple[str, tuple[int, str]]] = []
        self._sorted: list[Row] = []

    def body(self) -> Iterable[Widget]:
        """Yield the note, the table and the action in full."""
        yield Panel(id="note")
        yield RowTable(view.COLUMNS)
        with VerticalScroll():
            yield Panel(id="deed")

    def deed(self) -> tuple[PodState, ActionView] | None:
        """Return the pod and the action under the cursor, or None."""
        row = self.row()
        pod = None
        for p in self.console_app.fleet.pods:
            if row and p.name == row.key[0]:
                pod = p
                break
        action = None
        if pod and row:
            action = pod.ledger.actions.get(row.key[1])
        if pod and action:
            return (pod, action)
        return None

    def subject(self) -> Subject:
        """Return the pod and the run of the action under the cursor."""
        deed = self.deed()
        if deed:
            return Subject(deed[0], deed[0].runs.get(deed[1].run))
        return Subject()

    def draw(self) -> None:
        """Bring table, note and the shown action up to date."""
        app = self.console_app
        rows = self._all(app.fleet.pods, app.clock)
        kept = self.sifted(rows)
        self.table.show(kept)
        note = self.filter_note(len(kept), len(rows), "deed")
        if not rows:
            note = [
                [],
                [
                    (
                        (
                            "  Nothing was done yet. Plans, fixes, launches, stops and notes "
                            "stand here with who did them."
                        ),
                        "dim",
                    )
                ],
            ]
        self.query_one("#note", Panel).show(note)
        self._show_deed()

    def _all(self, pods: Sequence[PodState], clock: Clock) -> list[Row]:
        """Return the rows of all pods. They are sorted again only if a journal has grown."""
        tokens = []
        for pod in pods:
            tokens.append((pod.name, view.token(pod, clock)))
        if tokens != self._tokens:
            of_pods = []
            for pod, (_, token) in zip(pods, tokens, strict=True):
                of_pods.append(self._rows.of(pod, token, partial(view.pod_rows, pod, clock)))
            self._tokens, self._sorted = (
                tokens,
                view.newest_first(row for rows in of_pods for row in rows),
            )
        return self._sorted

    def moved(self) -> None:
        """Show the action under the cursor."""
        self.draw_bars()
        self._show_deed()

    def _show_deed(self) -> None:
        deed = self.deed()
        self.query_one(VerticalScroll).display = deed is not None
        self.query_one("#deed", Panel).show(view.lines(*deed, self.size.width) if deed else [])

    def hints(self, command: commands.Command) -> bool:
        """Return True if the key bar may show the command now."""
        return command.id != "journal"

    # -- commands

    def do_copy(self, args: str) -> None:
        """Copy the action under the cursor as text."""
        if self.deed() is not None:
            self.console_app.copy(
                "\n".join(text_of(line).rstrip() for line in self.query_one("#deed", Panel).lines),
                "Copied the entry.",
            )
