"""A table of lines with a cursor. Only visible rows are drawn, only changed ones repainted."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import TYPE_CHECKING, ClassVar, cast

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.cache import FIFOCache
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from bs4_console.tui.styled_text import Line, cut, joined, pad
from bs4_console.tui.views.fleet import Column, Row

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp

GAP = 2
#: The least rank of a row that may have a second line: 2 is a warning.
NEEDY = 2
#: Where the second line of a row begins.
_SECOND = ("  └ ", "dim")
#: Cells that the column with the rest of a line keeps.
REST_LEAST = 16
#: Drawn lines that are kept: those of a few screens.
LINES_KEPT = 512


class RowTable(ScrollView, can_focus=True):
    """A table of rows with the given `columns` and a cursor, below a heading that stays. `cursor`
    is the key of the row under the cursor and not its position, so that the cursor moves with its
    row.
    """

    DEFAULT_CSS = """
    RowTable { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """
    ALLOW_SELECT = False
    # With priority, like all keys of the app, so that they act in the order in which they were
    # pressed.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, priority=True, id="table.up"),
        Binding("down,j", "move(1)", "Down", show=False, priority=True, id="table.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, priority=True, id="table.page-up"),
        Binding(
            "pagedown", "page(1)", "Page down", show=False, priority=True, id="table.page-down"
        ),
        Binding("home,g", "move(-1000000)", "First", show=False, priority=True, id="table.first"),
        Binding("end,G", "move(1000000)", "Last", show=False, priority=True, id="table.last"),
    ]
    cursor: reactive[tuple[str, str] | None] = reactive(None, init=False)

    class Moved(Message):
        """Posted when the cursor was put on another row, by a person or by the program."""

    class Steered(Message):
        """Posted when a person has put the cursor on another row."""

    class Opened(Message):
        """Posted when the row under the cursor was double-clicked."""

    # `id` is Textual's own name.
    def __init__(self, columns: Sequence[Column], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._columns = columns
        self.rows: list[Row] = []
        self._at: dict[tuple[str, str], int] = {}
        self._widths: list[tuple[Column, int]] = []
        self._fitted: tuple[int, int, str] | None = None
        self._lines: list[tuple[int, Line | None]] = []
        """What stands below the heading if rows have a second line: for each line the position of
        its row and the text of the second line, or None for the first. Empty if no row has one.
        """
        self._placed = False
        """True once the cursor was put on a row, or something was done with its row. Until then it
        stays on the first row, which is the one that needs a person most.
        """
        self._moved: set[int] = set()
        """The positions of the rows that have a second line."""
        self._drawn: FIFOCache[tuple[object, ...], tuple[Row, object, Line, Strip]] = FIFOCache(
            LINES_KEPT
        )
        """Lines that were drawn, each with its row and the widths of the columns. A prompt that
        opens, a filter and the cursor show hundreds of rows again that are the same as before.
        (Textual's LRUCache would keep the first line of a place, and not take another.)
        """
        self._drawn_for: object = None
        """The colours and the width for which all of `_drawn` were drawn."""
        self._base: Style | None = None
        """The base style of all lines, or None if it has to be computed again."""
        self.mark = ""
        """The column that the rows are sorted by, with `-` in front if reversed, or "" for the
        default order.
        """

    @property
    def index(self) -> int:
        """Return the position of the row under the cursor, counted from 0. Return 0 if that row is
        not in the table any more.
        """
        if self.cursor:
            return self._at.get(self.cursor, 0)
        return 0

    @property
    def selected(self) -> Row | None:
        """Return the row under the cursor, or None if the table has no rows."""
        if self.rows:
            return self.rows[self.index]
        return None

    def has(self, key: tuple[str, str]) -> bool:
        """Return True if the table has a row with this key."""
        return key in self._at

    def show(self, rows: Sequence[Row]) -> None:
        """Show `rows` instead of the present ones. Only rows that differ are painted. If the row
        under the cursor is gone, the cursor stays at its position. As long as nobody has put the
        cursor on a row, it stays on the first row that is not a group's heading.
        """
        before, widths, fitted = self.rows, self._widths, (*self.size, self.mark)
        if fitted == self._fitted and len(rows) == len(before) and all(map(is_, rows, before)):
            return  # of thousands of rows mostly none is another
        self._fitted = fitted
        index = self.index
        self.rows = list(rows)
        self._at = {row.key: i for i, row in enumerate(self.rows)}
        # A scrollbar takes a cell of each row.
        scrolled = len(self.rows) + 1 > self.size.height
        self._widths = self._fit(self.size.width - 1 - scrolled)
        if not self._placed:
            index = next((i for i, row in enumerate(self.rows) if row.banner is None), 0)
        if not self._placed or self.cursor not in self._at:
            self.set_reactive(
                RowTable.cursor,
                self.rows[min(index, len(self.rows) - 1)].key if self.rows else None,
            )
        lines, self._lines = self._lines, self._laid_out()
        self.virtual_size = Size(self.size.width, (len(self._lines) or len(self.rows)) + 1)
        if len(before) != len(self.rows) or lines != self._lines or widths != self._widths:
            self.refresh()
        else:
            for i, (old, new) in enumerate(zip(before, self.rows, strict=True)):
                if old is not new and old != new and not self._looks_the_same(i):
                    self.refresh_lines(i + 1)
        if index != self.index:
            self.refresh()
            self._reveal()

    def hold(self) -> None:
        """Keep the cursor on its row from now on, wherever the row goes. Before, a cursor that
        nobody has moved stays on the first row, whichever row that is.
        """
        self._placed = True

    def steer(self, key: tuple[str, str]) -> None:
        """Put the cursor on the row with the key `key`, because a person wants it there, and post
        Steered.
        """
        self.hold()
        self.cursor = key
        self.post_message(self.Steered())

    def watch_cursor(self) -> None:
        """Scroll to the row under the cursor, and post Moved. Textual calls this when `cursor` has
        changed.
        """
        self.hold()
        self.refresh()
        self._reveal()
        self.post_message(self.Moved())

    def notify_style_update(self) -> None:
        """Forget the style that was computed for all lines, because the theme has changed. Textual
        calls this.
        """
        super().notify_style_update()
        self._base = None

    def on_resize(self) -> None:
        """Choose the columns and their widths again for the new width of the table."""
        self.show(self.rows)
        self.refresh()

    def action_move(self, by: int) -> None:
        """Move the cursor down by `by` rows, or up if it is negative. It stops at the first and the
        last row.
        """
        if self.rows:
            self.steer(self.rows[min(max(self.index + by, 0), len(self.rows) - 1)].key)

    def action_page(self, direction: int) -> None:
        """Move the cursor by about the height of the table, down if `direction` is 1 and up if it
        is -1.
        """
        self.action_move(direction * max(1, self.size.height - 2))

    def on_click(self, event: Click) -> None:
        """Put the cursor on the row that was clicked. On a double click, post Opened too."""
        line = event.y - 1 + round(self.scroll_y)
        row, _ = self._row_at(line)
        if event.y < 1 or not 0 <= row < len(self.rows):
            return
        self.steer(self.rows[row].key)
        if event.chain == 2:
            self.post_message(self.Opened())

    def _reveal(self) -> None:
        top, height = round(self.scroll_y), self.size.height - 1
        if self.index < top:
            self.scroll_to(y=self.index, animate=False)
        elif height > 0 and self.index >= top + height:
            self.scroll_to(y=self.index - height + 1, animate=False)

    def _fit(self, width: int) -> list[tuple[Column, int]]:
        """Return the columns that fit, with their widths. Which columns these are depends on the
        width alone: the important ones first, each with its least width. Each is then as wide as
        its content, up to its most. What that is too much is taken from the column with the rest,
        down to REST_LEAST cells, and then from the others, the unimportant ones first.
        """
        kept: list[Column] = []
        room = width + GAP
        for column in sorted(self._columns, key=lambda c: -c.importance):
            if not kept or self._least(column) + GAP <= room:
                kept.append(column)
                room -= self._least(column) + GAP
        sizes = {c.id: self._natural(c) for c in kept if c.most}
        rest = sum(min(REST_LEAST, c.least) for c in kept if not c.most)
        over = sum(sizes.values()) + rest + GAP * (len(kept) - 1) - width
        for column in sorted(kept, key=lambda c: c.importance):
            if column.most and over > 0:
                less = min(over, sizes[column.id] - self._least(column))
                sizes[column.id] -= less
                over -= less
        taken = sum(sizes.values()) + GAP * (len(kept) - 1)
        return [
            (c, sizes[c.id] if c.most else max(0, width - taken))
            for c in self._columns
            if c in kept
        ]

    def _least(self, column: Column) -> int:
        """Return the least width of a column, in which its heading fits."""
        return max(column.least, len(column.title) if column.most else 0)

    def _natural(self, column: Column) -> int:
        content = max((row.widths.get(column.id, 0) for row in self.rows), default=0)
        title = len(column.title) + (column.id == self.mark.removeprefix("-"))
        return max(column.least if column.most else 0, title, min(content, column.most or content))

    def render_line(self, y: int) -> Strip:
        """Return row `y` of the widget as a strip. Row 0 is the heading, and rows below the last
        one are blank.
        """
        ink = cast("ConsoleApp", self.app).ink
        width = self.size.width
        base = self._base = self._base or self.rich_style
        if y == 0:
            titles = [pad([(self._title(c), "head")], w, c.align) for c, w in self._widths]
            return ink.strip(_join(titles), width).apply_style(base)
        index, second = self._row_at(y - 1 + round(self.scroll_y))
        if index >= len(self.rows):
            return Strip.blank(width, base)
        drawn_for = (ink, base, width)
        if drawn_for != self._drawn_for:
            self._drawn.clear()
            self._drawn_for = drawn_for
        row, place = self.rows[index], self._place(index, first=second is None)
        kept = self._drawn.get(place)
        if kept is not None and kept[0] is row and kept[1] == self._widths:
            return kept[3]
        line = second or self._line(index)
        if kept is None or kept[2] != line:
            strip = ink.strip(line, width, "cursor" if index == self.index else "")
            kept = (row, self._widths, line, strip.apply_style(base))
        self._drawn[place] = row, self._widths, line, kept[3]
        return kept[3]

    def _place(self, index: int, *, first: bool) -> tuple[object, ...]:
        """Return under which name a line of the row at `index` is kept when it was drawn."""
        return self.rows[index].key, first, index in self._moved, index == self.index

    def _line(self, index: int) -> Line:
        """Return the first line of the row at `index`."""
        row = self.rows[index]
        return row.banner or _join(self._cells(row, moved=index in self._moved))

    def _looks_the_same(self, index: int) -> bool:
        """Return True if the row at `index` was drawn with the same first line that it has now. A
        change in what its last column cuts off is not seen.
        """
        kept = self._drawn.get(self._place(index, first=True))
        return kept is not None and kept[2] == self._line(index)

    def _cells(self, row: Row, *, moved: bool) -> list[Line]:
        found = []
        for column, width in self._widths:
            cell = row.cells.get(column.id, [])
            if moved and not column.most:
                cell = [("↓", "dim")]
            found.append(pad(cell, width, column.align))
        return found

    def _laid_out(self) -> list[tuple[int, Line | None]]:
        """Return what `_lines` holds: a row that needs a person has a second line with what its
        last column would cut off, as long as all lines fit on the screen.
        """
        self._moved = set()
        room = self.size.height - 1 - len(self.rows)
        rest = next(((c.id, width) for c, width in self._widths if not c.most), None)
        if rest is None or room <= 0:
            return []
        lines: list[tuple[int, Line | None]] = []
        for i, row in enumerate(self.rows):
            lines.append((i, None))
            if row.rank >= NEEDY and row.widths.get(rest[0], 0) > rest[1] and room:
                lines.append((i, cut([_SECOND, *row.cells[rest[0]]], self.size.width - 1)))
                self._moved.add(i)
                room -= 1
        return lines if self._moved else []

    def _row_at(self, line: int) -> tuple[int, Line | None]:
        """Return the position of the row at a line below the heading, which is beyond the last row
        if the line is blank, and the text of the line if it is the second of its row.
        """
        if not self._lines:
            return line, None
        return self._lines[line] if line < len(self._lines) else (len(self.rows), None)

    def _title(self, column: Column) -> str:
        """Return the column's title, with a sign if the rows are sorted by it."""
        if column.id != self.mark.removeprefix("-"):
            return column.title
        return column.title + ("▴" if self.mark.startswith("-") else "▾")


def _join(cells: list[Line]) -> Line:
    return [(" ", ""), *joined(cells, (" " * GAP, ""))]
