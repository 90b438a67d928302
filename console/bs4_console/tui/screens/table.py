"""What the screens around one table share: the cursor, the filter, and the way from a row to its
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual import on
from textual.widget import Widget

from bs4_console.tui import words
from bs4_console.tui.ink import Line
from bs4_console.tui.screens.base import ConsoleScreen
from bs4_console.tui.views.fleet import Row, matches
from bs4_console.tui.widgets.table import RowTable


class TableScreen(ConsoleScreen):
    """A subclass yields one RowTable in `body()` and fills it in `draw()`. In a row's key, (pod,
    what), the pod comes first.
    """

    filter_text = ""

    @property
    def table(self) -> RowTable:
        return self.query_one(RowTable)

    def main(self) -> Widget:
        return self.table

    def trail(self) -> Sequence[str]:
        return (self.place,)

    def row(self) -> Row | None:
        """The one under the cursor."""
        if self.ready:
            return self.table.selected
        return None

    def sifted(self, rows: Iterable[Row]) -> list[Row]:
        """Those that the filter leaves."""
        found = []
        for row in rows:
            if matches(row.text, self.filter_text):
                found.append(row)
        return found

    def filter_note(self, kept: int, total: int, noun: str) -> list[Line]:
        """/h100 3 of 7 rows, and how to see the others; nothing without a filter."""
        if not self.filter_text:
            return []
        shown: Line = [
            (f" /{self.filter_text} ", "hit"),
            (f" {kept} of {words.count(total, noun)}", ""),
        ]
        return [[*shown, (f"   {self.console_app.keys['back']} takes the filter away", "dim")]]

    def moved(self) -> None:
        """The cursor stands on another row: other commands may be given now. Rows are as they were,
        and may be thousands.
        """
        self.draw_bars()

    @on(RowTable.Moved)
    def _moved(self) -> None:
        self.moved()

    @on(RowTable.Opened)
    def _opened(self) -> None:
        self.do_open("")

    def prompted(self, kind: str, text: str, *, final: bool) -> None:
        self.filter_text = text
        self.draw_safely()

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
        """The filter first, then the screen; the fleet is below all others and stays."""
        if self.filter_text:
            self.prompted("/", "", final=True)
        else:
            self.console_app.do_back("")
