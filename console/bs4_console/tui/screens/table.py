"""What screens with one table share: the cursor, the filter, and the way from a row to its run."""

from __future__ import annotations

from collections.abc import Iterable

from textual import on
from textual.widget import Widget

from bs4_console.tui import formatting
from bs4_console.tui.screens.base import ConsoleScreen
from bs4_console.tui.styled_text import Line
from bs4_console.tui.views.fleet import Row, matches
from bs4_console.tui.widgets.table import RowTable


class TableScreen(ConsoleScreen):
    """A screen with one table. A subclass yields a RowTable in `body()` and fills it in `draw()`.
    The key of each row is (pod's name, what the row shows of that pod), for example with the name
    of a run as the second part. `filter_text` is the filter that a person has set, or "".
    """

    filter_text = ""

    @property
    def table(self) -> RowTable:
        """Return the widget with the screen's table."""
        return self.query_one(RowTable)

    def main(self) -> Widget:
        """Return the widget that has the focus, which is the screen's table."""
        return self.table

    def row(self) -> Row | None:
        """Return the row under the cursor, or None if the table has no rows."""
        if self.ready:
            return self.table.selected
        return None

    def sifted(self, rows: Iterable[Row]) -> list[Row]:
        """Return those of `rows` whose text matches the filter that a person has set on this
        screen, or all of them if there is no filter.
        """
        return [row for row in rows if matches(row.text, self.filter_text)]

    def filter_note(self, kept: int, total: int, noun: str) -> list[Line]:
        """Return, as a list with one styled line, the note about the filter that stands above the
        table, like "/h100 3 of 7 rows", with the key that removes the filter. `kept` of `total`
        rows match the filter, and `noun` is what a row is called. Return [] if there is no filter.
        """
        if not self.filter_text:
            return []
        shown: Line = [
            (f" /{self.filter_text} ", "hit"),
            (f" {kept} of {formatting.count(total, noun)}", ""),
        ]
        return [[*shown, (f"   {self.console_app.keys['back']} takes the filter away", "dim")]]

    def moved(self) -> None:
        """Redraw the top bar and the key bar, because another row is under the cursor, for which
        other commands may be possible. The rows, which may be thousands, are not drawn again.
        """
        self.draw_bars()

    @on(RowTable.Moved)
    def _moved(self) -> None:
        self.moved()

    @on(RowTable.Steered)
    def _steered(self) -> None:
        """Take the last message away, because it was about another row."""
        self.console_app.forget_line()

    @on(RowTable.Opened)
    def _opened(self) -> None:
        self.do_open("")

    def acted(self) -> None:
        """Keep the cursor on its row from now on, because a person does something with that row. (A
        cursor that nobody has moved stays on the first row, whichever row that is.)
        """
        self.table.hold()

    def prompted(self, kind: str, text: str, *, final: bool) -> None:
        """Show only the rows that match `text`, a filter as it is typed after `/`. An empty text
        shows all rows. `kind` (the prompt's name) and `final` (True on Enter and Esc) are not used,
        because the table is filtered anew at each letter.
        """
        self.filter_text = text
        self.draw_safely()

    # -- commands

    def do_open(self, args: str) -> None:
        """Open the screen of the run of the row under the cursor, or the pod's page if the row has
        no run. Do nothing without a pod. `args` is ignored.
        """
        subject = self.subject()
        if subject.pod is not None and subject.run is not None:
            self.console_app.open_run(subject.pod, subject.run)
        elif subject.pod is not None:
            self.console_app.open_pod(subject.pod)

    def do_filter(self, args: str) -> None:
        """Show only the rows that match `args`, a regular expression. If `args` is empty, open the
        prompt in which a filter is typed.
        """
        if args:
            self.prompted("/", args, final=True)
        else:
            self.ask("/", self.filter_text)

    def do_back(self, args: str) -> None:
        """Remove the filter if there is one, otherwise close the screen. The fleet, which is below
        all other screens, stays. `args` is ignored.
        """
        if self.filter_text:
            self.prompted("/", "", final=True)
        else:
            self.console_app.do_back("")
