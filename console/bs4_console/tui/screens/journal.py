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
from bs4_console.tui.overview import PodRows
from bs4_console.tui.screens.base import Subject
from bs4_console.tui.screens.table import TableScreen
from bs4_console.tui.views import journal as view
from bs4_console.tui.views.fleet import Row
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.widgets.table import RowTable

_NOTHING = (
    "  Nothing was done yet. Plans, fixes, launches, stops and notes stand here with who did them."
)


class JournalScreen(TableScreen):
    """The table of all actions (launch, stop, repair and so on) in the journals (the agents' logs
    of actions and incidents) of all pods. Below it the action under the cursor is shown in full.
    """

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
        """Yield the line of notes above the table, the table, and the action in full."""
        yield Panel(id="note")
        yield RowTable(view.COLUMNS)
        with VerticalScroll():
            yield Panel(id="deed")

    def deed(self) -> tuple[PodState, ActionView] | None:
        """Return (pod, action) of the row under the cursor, or None if the table has no rows."""
        row = self.row()
        pod = self.console_app.fleet.pod(row.key[0]) if row else None
        if row is None or pod is None or row.key[1] not in pod.ledger.actions:
            return None
        return pod, pod.ledger.actions[row.key[1]]

    def subject(self) -> Subject:
        """Return the pod and the run of the action under the cursor. Both are None without an
        action; the run is None if the action has none or the pod does not know it.
        """
        if (deed := self.deed()) is None:
            return Subject()
        pod, action = deed
        return Subject(pod, pod.runs.get(action.run))

    def draw(self) -> None:
        """Redraw the table, the line of notes above it, and the action in full."""
        app = self.console_app
        rows = self._all(app.fleet.pods, app.clock)
        kept = self.sifted(rows)
        self.table.show(kept)
        note = self.filter_note(len(kept), len(rows), "entry")
        self.query_one("#note", Panel).show(note if rows else [[], [(_NOTHING, "dim")]])
        self._show_deed()

    def _all(self, pods: Sequence[PodState], clock: Clock) -> list[Row]:
        """Return the rows of all pods. They are sorted again only if a journal has grown."""
        tokens = [(pod.name, view.token(pod, clock)) for pod in pods]
        if tokens != self._tokens:
            rows: list[Row] = []
            for pod, (_, token) in zip(pods, tokens, strict=True):
                rows += self._rows.of(pod, token, partial(view.pod_rows, pod, clock))
            self._tokens, self._sorted = tokens, view.newest_first(rows)
        return self._sorted

    def moved(self) -> None:
        """Show the action that is under the cursor now in full."""
        self.draw_bars()
        self._show_deed()

    def _show_deed(self) -> None:
        deed = self.deed()
        self.query_one(VerticalScroll).display = deed is not None
        self.query_one("#deed", Panel).show(view.lines(*deed, self.size.width) if deed else [])

    # -- commands

    def do_copy(self, args: str) -> None:
        """Copy the action under the cursor, as it is shown in full, to the clipboard as text.
        `args` is ignored.
        """
        if self.deed() is not None:
            self.console_app.copy(self.query_one("#deed", Panel).text, "Copied the entry.")
