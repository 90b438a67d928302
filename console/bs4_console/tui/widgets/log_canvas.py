"""The lines of a log on the screen: which lines of a LogStore are shown, and how they are drawn.

This is not a ScrollView: its virtual_size is a layout reactive, so that every tick of a growing log
would lay out the whole screen again. Here a tick costs the visible lines and nothing else. Storing
lines and painting them are separate: the store fills at the link's pace, and `tick` paints at the
screen's, only rows that changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, cast

from rich.cells import cell_len
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from bs4_console.logs.filter import Lens
from bs4_console.logs.private_keys import shown_line
from bs4_console.logs.store import MARK, LogStore, Place
from bs4_console.logs.text import LINE_CELLS, of_many, size_of
from bs4_console.tui.remote import remote
from bs4_console.tui.styled_text import Line, RoleStyles, text_of
from bs4_console.tui.widgets import log_lines
from bs4_console.tui.widgets.log_paint import REMOTE_BYTES_S, PaintBudget

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp

_PROGRESS = re.compile(rb"\d%")
#: Cells in front of each line.
GUTTER = 1


class LogCanvas(Widget):
    """Draws the lines of a log that `store` has in memory. `names` returns the names of the log's
    sources; with fewer than two of them there is no column for the source.

    While `following` is True, the newest line is in the last row of the screen. While it is False,
    the log is paused: the same line stays in the top row.
    """

    def __init__(
        self,
        store: LogStore,
        names: Callable[[], Sequence[str]] = tuple,
        *,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self.store = store
        self.lens = Lens(store)
        self.names = names
        self.following = True
        self.bookmarks: dict[Place, str] = {}
        self.spot: int | None = None
        """The number of the line that is pointed at, which commands are about, or None."""
        self.budget = PaintBudget(REMOTE_BYTES_S if remote() else None)
        self._marks = log_lines.Marks()
        self._anchor = 0
        self._top = 0
        self._side = 0
        self._lean = (-1, 0)
        """The number of a line, and the column from which it alone is shown while it is the one
        pointed at: a match beyond the edge is to be seen, and the other lines keep their clocks.
        """
        self._shown: list[tuple[int, bytes | None, int, int | None]] = []
        self._cache: LRUCache[tuple[int, int | None], Strip] = LRUCache(512)
        self._cache_key: object = None
        self._base: Style | None = None
        """The base style of all lines, or None if it has to be computed again. Computing it for
        every line would take a tenth of a whole repaint.
        """

    @property
    def position(self) -> int:
        """Return the position of the line in the top row of the screen, counted from 0 among the
        lines that pass the filter. It is also how many such lines are above the screen.
        """
        return self._top

    @property
    def marks(self) -> log_lines.Marks:
        """Return the regular expressions whose matches are marked within the lines now: that of a
        person's search, or else of the filter, and those that a person wants highlighted.
        """
        return self._marks

    @property
    def on_screen(self) -> list[int]:
        """Return the numbers of the lines on the screen, from top to bottom. They are the numbers
        that the LogStore gives its lines.
        """
        return [number for number, *_ in self._shown]

    def tick(self, *, now: bool = False) -> None:
        """Paint the rows that have changed since the last call. New lines of the log reach the
        screen only by this method. Over SSH only so many bytes a second may be painted (see
        PaintBudget); while these are used up nothing is painted, unless `now` is True.
        """
        self.lens.step()
        if not now and not self.budget.allows:
            return
        top = self._place()
        shown = self._visible(top)
        if top == self._top and shown == self._shown:
            return
        before, self._top, self._shown = self._shown, top, shown
        rows = zip_longest(before, shown)
        changed = [y for y, (old, new) in enumerate(rows) if old != new]
        self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))
        if self.budget.limited:
            self.budget.spend([self.render_line(y) for y in changed])

    def forget(self) -> None:
        """Drop the cached drawings of all lines, and draw them again now. Call this for changes
        that concern lines that are drawn already, such as another filter. For new lines of the log,
        `tick` is enough.
        """
        self._cache.clear()
        self._shown = []
        self.tick(now=True)
        self.refresh()

    def visible_text(self) -> str:
        """Return the lines on the screen as one text. If the log is scrolled sideways, the text
        still begins at the start of each line, and it may reach somewhat beyond the right edge.
        """
        return "\n".join(text_of(self._line(number))[GUTTER:] for number in self.on_screen)

    # -- which lines

    def _last_top(self) -> int:
        return max(0, len(self.lens) - self.size.height)

    def _place(self) -> int:
        """Return the position of the top line now. Line numbers are absolute, so that pruning and
        filtering change the position and not the line.
        """
        if self.following:
            return self._last_top()
        return min(self.lens.position(self._anchor), self._last_top())

    def _visible(self, top: int) -> list[tuple[int, bytes | None, int, int | None]]:
        """Return (number, text if it may still change, lines folded into it, the source that it
        belongs to if that is another than the one it came from) for each line on the screen.
        """
        found = []
        for position in range(top, min(len(self.lens), top + self.size.height)):
            n = self.lens.number(position)
            changing = self.store.line(n)[1] if n >= self.store.end else None
            found.append((n, changing, self.lens.folded.get(n, 0), self._owner(n)))
        return found

    def _owner(self, number: int) -> int | None:
        """Return the source that a line belongs to although the copy of a launcher came first, or
        None if it belongs to the source that it came from.
        """
        repeats = self.store.repeats
        if repeats is None or not repeats.owners:
            return None
        return repeats.owners.get(self.store.line(number)[1] + b"\n")

    @property
    def _pointed(self) -> int | None:
        """Return the number of the line at which the cursor is drawn, or None. It is another one
        than `spot` if that line is folded into it.
        """
        return None if self.spot is None else self.lens.stands_for(self.spot)

    def to_copy(self) -> list[str]:
        """Return the text of each line that is on the screen. It is the whole line, also the parts
        that do not fit on the screen. A very long line is cut, and its text says so.
        """
        found = []
        for number in self.on_screen:
            found.append(text_of(self._line(number, 0))[GUTTER:])
        return found

    def held(self, number: int) -> bool:
        """Return True if the line with this number (as the LogStore counts them) is in memory. A
        line whose end was not written yet counts too.
        """
        return self.store.first <= number < self.store.end + len(self.store.open_sources)

    # -- drawing

    def notify_style_update(self) -> None:
        """Forget the style that was computed for all lines, because the theme has changed. Textual
        calls this.
        """
        super().notify_style_update()
        self._base = None

    @property
    def _ink(self) -> RoleStyles:
        return cast("ConsoleApp", self.app).ink

    def render_line(self, y: int) -> Strip:
        """Return row `y` of the screen as a strip. Rows below the last line are blank."""
        width = self.size.width
        base = self._base = self._base or self.rich_style
        if y >= len(self._shown):
            return Strip.blank(width, base)
        key = (self._ink, width, self._side, len(self.names()), base)
        if key != self._cache_key:
            self._cache.clear()
            self._cache_key = key
        number, changing, folded, owner = self._shown[y]
        if changing is not None or folded:
            return self._draw(number, width).apply_style(base)
        strip = self._cache.get((number, owner))
        if strip is None:
            strip = self._cache[number, owner] = self._draw(number, width).apply_style(base)
        return strip

    def _side_of(self, number: int | None) -> int:
        """Return the column from which a line is shown."""
        if number is not None and self._lean[0] == number == self.spot:
            return self._lean[1]
        return self._side

    def _draw(self, number: int, width: int) -> Strip:
        line, side = self._line(number), self._side_of(number)
        text = text_of(line)
        narrow = text[GUTTER:].isascii()  # what may stand in the gutter takes one cell too
        cells = len(text) if narrow else cell_len(text)
        if number == self._pointed:
            # The cursor's style is below that of each word, so that a match stays marked.
            line = [
                *((part, f"cursor {role}") for part, role in line),
                (" " * max(0, width - cells), "cursor"),
            ]
        more = self._more(number) if cells - side > width else ""
        head = self._fixed_width()
        less: Line = [("‹", "dim")] if side and cells > head else []
        left, right = head + side + len(less), side + width - len(more)
        end = self._ink.strip([(more, "dim")], len(more))
        if narrow:
            line = log_lines.clip(line, 0, head) + less + log_lines.clip(line, left, right)
            return Strip.join([self._ink.strip(line, width - len(more)), end])
        strip = self._ink.strip(line, max(width, cells))
        begin = [strip.crop(0, head), self._ink.strip(less, len(less))]
        return Strip.join([*begin, strip.crop(left, right), end]).adjust_cell_length(width)

    def _more(self, number: int) -> str:
        """Return the sign at the end of a line that goes on beyond the edge. For a very long line
        it includes the length in bytes.
        """
        size = size_of(self.store.line(number)[1])
        if size > LINE_CELLS:
            return f" {size:,} bytes ›"
        return "›"

    def _fixed_width(self) -> int:
        return GUTTER + log_lines.source_width(self.names())

    def _line(self, number: int, reach: int | None = None) -> Line:
        """Return the line with its gutter and source. `reach` is as for log_lines.body; None takes
        what the screen shows.
        """
        if not self.held(number):
            return []
        source, raw = shown_line(self.store, number)
        folded = self.lens.folded.get(number, 0)
        if folded and self.lens.filter.fold == "requests":
            raw = of_many(raw, self.lens.requests.get(number, {}))
        elif folded and not self.lens.filter.sifts and _PROGRESS.search(raw):
            # Of a progress bar that is written line by line, show the newest line.
            raw = shown_line(self.store, min(number + folded, self.store.end - 1))[1]
        bookmarked = bool(self.bookmarks) and self.store.place(number) in self.bookmarks
        head = log_lines.gutter(pointed=number == self._pointed, bookmarked=bookmarked)
        if source != MARK:
            owner = self._owner(number)
            head = head + log_lines.source_span(self.names(), source if owner is None else owner)
        if reach is None:
            # One screen more than is shown tells if there is more. A very long line is never
            # decoded completely.
            reach = self._side_of(number) + 2 * self.size.width
        # What is copied keeps its own form.
        columns = reach > 0 and len(self.names()) > 1
        return head + log_lines.body(source, raw, self._marks, folded, reach, columns=columns)
