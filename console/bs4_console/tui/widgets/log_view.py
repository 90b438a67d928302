"""The log on the screen: a window over a LogStore that draws only the lines it shows.

Not a ScrollView: its virtual_size is a layout reactive, so every tick of a growing log would lay out the whole screen again; here a
tick costs the visible lines and nothing else. Taking lines in and painting them are apart: the store fills at the link's pace, `tick`
paints at the screen's, and only rows that changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.events import Click, MouseScrollDown, MouseScrollLeft, MouseScrollRight, MouseScrollUp
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from bs4_console.core.log_filter import Lens, LogFilter, compile_pattern
from bs4_console.core.log_store import MARK, LogStore, Place
from bs4_console.tui.ink import Ink, Line, text_of
from bs4_console.tui.remote import remote
from bs4_console.tui.widgets import log_lines
from bs4_console.tui.widgets.log_paint import REMOTE_BYTES_S, PaintBudget
from bs4_console.tui.words import count

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp

#: Columns that one press of an arrow moves sideways.
SIDE_STEP = 16
WHEEL_LINES = 3
#: Cells in front of each line.
GUTTER = 1
LEVEL_NAMES = {20: "info", 30: "warning", 40: "error"}


class LogView(Widget, can_focus=True):
    """`names` gives the source column's text; with fewer than two there is no such column."""

    DEFAULT_CSS = "LogView { height: 1fr; }"
    ALLOW_SELECT = False
    # With priority, as all keys of the app: they act in the order in which they were pressed.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll(-1)", "Up", show=False, priority=True, id="log.up"),
        Binding("down,j", "scroll(1)", "Down", show=False, priority=True, id="log.down"),
        Binding("pageup,u", "page(-1)", "Page up", show=False, priority=True, id="log.page-up"),
        Binding("pagedown,d", "page(1)", "Page down", show=False, priority=True, id="log.page-down"),
        Binding("home,g", "first", "Oldest", show=False, priority=True, id="log.first"),
        Binding("end,G", "last", "Newest, follow", show=False, priority=True, id="log.last"),
        Binding("left,h", "side(-1)", "Left", show=False, priority=True, id="log.left"),
        Binding("right", "side(1)", "Right", show=False, priority=True, id="log.right"),
        Binding("shift+left", "side_page(-1)", "A screen left", show=False, priority=True, id="log.page-left"),
        Binding("shift+right", "side_page(1)", "A screen right", show=False, priority=True, id="log.page-right"),
        Binding("0", "side_start", "Line start", show=False, priority=True, id="log.line-start"),
    ]

    class AtTop(Message):
        """Little is held above the screen: older lines may be wanted."""

    class FirstWanted(Message):
        """The oldest line of all is wanted."""

    class Told(Message):
        """Follow, filter or place changed: the title line is out of date."""

    def __init__(self, store: LogStore, names: Callable[[], Sequence[str]] = tuple, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.store = store
        self.lens = Lens(store)
        self.names = names
        self.following = True
        self.filter_text, self.floor, self.fold = "", 0, False
        self.find_text = ""
        self.highlights: list[str] = []
        self.bookmarks: dict[Place, str] = {}
        self.spot: int | None = None
        """The line that is pointed at; commands on a line are about it."""
        self.budget = PaintBudget(REMOTE_BYTES_S if remote() else None)
        self._find: re.Pattern[bytes] | None = None
        self._marks = log_lines.Marks()
        self._anchor = 0
        self._top = 0
        self._side = 0
        self._paused_end = 0
        self._arrived = False
        self._shown: list[tuple[int, bytes | None, int]] = []
        self._cache: LRUCache[int, Strip] = LRUCache(512)
        self._cache_key: object = None
        self._base: Style | None = None
        """What all lines are painted on; None: to be asked again, which takes a tenth of a whole repaint where each line does."""

    @property
    def unseen(self) -> int:
        """Lines that came since the view was paused."""
        return 0 if self.following or self._arrived else max(0, self.store.end - self._paused_end)

    @property
    def position(self) -> int:
        """Of the first line on the screen, among the visible ones."""
        return self._top

    @property
    def current(self) -> int | None:
        """The line that a command is about: the one pointed at, else the last on the screen."""
        if self.spot is not None and self.store.first <= self.spot < self.store.end:
            return self.spot
        held = [number for number, *_ in self._shown if number < self.store.end]
        return held[-1] if held else None

    @property
    def on_screen(self) -> list[int]:
        return [number for number, *_ in self._shown]

    @property
    def wanted(self) -> LogFilter:
        return LogFilter.parse(self.filter_text, self.floor, fold=self.fold)

    # -- what the screen tells it

    def tick(self, *, now: bool = False) -> None:
        """Paint what changed since the last tick. The only place where the log's growth reaches the screen. `now`: whatever it costs."""
        self.lens.step()
        if not now and not self.budget.allows:
            return
        top = self._place()
        shown = self._visible(top)
        if top == self._top and shown == self._shown:
            return
        before, self._top, self._shown = self._shown, top, shown
        changed = [y for y in range(max(len(before), len(shown))) if before[y : y + 1] != shown[y : y + 1]]
        self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))
        if self.budget.limited:
            self.budget.spend([self.render_line(y) for y in changed])

    def set_store(self, store: LogStore) -> None:
        """Another log in the same view; filter, level and find stay."""
        self.store, self.lens = store, Lens(store)
        self.lens.set(self.wanted)
        self.following, self._anchor, self._top, self._side, self.spot, self._arrived = True, 0, 0, 0, None, False
        self.forget()

    def set_filter(self, text: str | None = None, floor: int | None = None, *, fold: bool | None = None) -> None:
        """The line pointed at keeps its row: taking a filter away shows what surrounds the line that was found."""
        self._settle()
        self._hold_anchor()
        self.filter_text = self.filter_text if text is None else text
        self.floor = self.floor if floor is None else floor
        self.fold = self.fold if fold is None else fold
        self.lens.set(self.wanted, None if self.following else (self._anchor if self.spot is None else self.spot))
        self._remark()
        if not self.following and self.spot is not None:
            self.lens.step()
            row = next((y for y, (number, *_) in enumerate(self._shown) if number == self.spot), 0)
            if len(self.lens):
                self._anchor = self.lens.number(max(0, self.lens.position(self.spot) - row))
        self.forget()

    def set_find(self, text: str) -> None:
        self.find_text = text
        self._find = compile_pattern(text) if text else None
        self._remark()
        self.forget()

    def set_highlights(self, words: Sequence[str]) -> None:
        self.highlights = list(words)
        self._marks.words = [log_lines.for_text(word) for word in words]
        self.forget()

    def next_match(self, direction: int) -> bool:
        """Point at the next match below (or above) the line pointed at; False when none is held."""
        if self._find is None:
            return False
        self._settle()
        found = self.lens.find(self._find, self._from(direction), direction)
        if found is None:
            return False
        self.point_at(self.lens.number(found))
        return True

    def find_back(self) -> bool:
        """Point at the newest match at or above the last line on the screen."""
        if self._find is None:
            return False
        self._settle()
        bottom = min(self._top + self.size.height, len(self.lens))
        found = self.lens.find(self._find, bottom, -1)
        if found is None:
            return False
        self.point_at(self.lens.number(found))
        return True

    def toggle_follow(self) -> None:
        if self.following:
            self._settle()
            self._pause()
        else:
            self.action_last()
        self.post_message(self.Told())

    def hold_at(self, number: int, above: int = 4) -> None:
        """Pause at this line and point at it, with some lines above it. It may not have come yet."""
        self._pause()
        self.spot, self._anchor, self._arrived = number, number - above, True
        self.tick(now=True)

    def point_at(self, number: int) -> None:
        """Pause and point at a held line; the screen moves only when it is not on it."""
        self._settle()
        if self.following:
            self._pause()
        self.spot = number
        if number not in self.on_screen:
            self._bring_to(self.lens.position(number) - self.size.height // 2)
        self.forget()
        self.post_message(self.Told())

    def visible_text(self) -> str:
        return "\n".join(text_of(self._line(number))[GUTTER:] for number, *_ in self._shown)

    def title(self, unread: int = 0) -> Line:
        """What is shown of the log, and how: for the line above it. `unread`: lines that were not even fetched."""
        line: Line = []
        if self.floor:
            line += [(" · ", "dim"), (LEVEL_NAMES.get(self.floor, str(self.floor)) + " and worse", "accent")]
        if self.filter_text:
            hits = count(len(self.lens), "line") + ("…" if self.lens.pending else "")
            line += [(" · ", "dim"), (f"/{self.filter_text}", "accent"), (f" {hits}", "dim")]
        if self.fold:
            line += [(" · ", "dim"), ("folded", "accent"), (f" {sum(self.lens.folded.values()):,} alike", "dim")]
        if self._side:
            line += [(f" · from column {self._side}", "dim")]
        if self.following:
            return [*line, (" · ", "dim"), ("following", "good")]
        unseen = self.unseen + unread
        new = f" +{unseen:,} new" if unseen else ""
        return [*line, (" · ", "dim"), ("‖ paused", "warn"), (new, "warn bold"), (" space follows", "dim")]

    # -- keys and mouse

    def action_scroll(self, by: int) -> None:
        """Move the pointer; the screen goes along at its edges. Down from the last line follows again."""
        if not len(self.lens):
            return
        self._settle()
        last = len(self.lens) - 1
        here = self._pointer()
        position = here + by
        if position > last or (position == last and by > 0 and self._last_top() <= self._top):
            self.action_last()
            return
        if self.following:
            self._pause()
        position = max(0, position)
        self.spot = self.lens.number(position)
        if position < self._top or position >= self._top + self.size.height:
            self._bring_to(position if by < 0 else position - self.size.height + 1)
        if position == 0 or self._top <= self.size.height:
            self.post_message(self.AtTop())
        self.forget()
        self.post_message(self.Told())

    def action_page(self, direction: int) -> None:
        self._settle()
        self._go(self._top + direction * max(1, self.size.height - 2))

    def action_first(self) -> None:
        self.post_message(self.FirstWanted())

    def to_first(self) -> None:
        """The oldest held line."""
        self._go(0, pin=True)
        if len(self.lens):
            self.spot = self.lens.number(0)
            self.forget()

    def action_last(self) -> None:
        self.following, self.spot, self._arrived = True, None, False
        self.forget()
        self.post_message(self.Told())

    def action_side(self, direction: int) -> None:
        self._to_column(self._side + direction * SIDE_STEP)

    def action_side_page(self, direction: int) -> None:
        self._to_column(self._side + direction * max(SIDE_STEP, self.size.width - self._fixed_width() - 8))

    def action_side_start(self) -> None:
        self._to_column(0)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self._settle()
        self._go(self._top - WHEEL_LINES)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self._settle()
        self._go(self._top + WHEEL_LINES)

    def on_mouse_scroll_left(self, event: MouseScrollLeft) -> None:
        event.stop()
        self.action_side(-1)

    def on_mouse_scroll_right(self, event: MouseScrollRight) -> None:
        event.stop()
        self.action_side(1)

    def on_click(self, event: Click) -> None:
        if event.y < len(self._shown) and self._shown[event.y][0] < self.store.end:
            event.stop()
            self.point_at(self._shown[event.y][0])

    def on_resize(self) -> None:
        # Lines that are drawn stay drawn: a prompt that opens only pushes them up.
        self._shown = []
        self.tick(now=True)
        self.refresh()

    # -- places

    def _to_column(self, column: int) -> None:
        """Not beyond the longest line on the screen: there is nothing there."""
        longest = max((len(self.store.line(number)[1]) for number in self.on_screen if self._held(number)), default=0)
        self._side = min(max(0, column), max(0, longest - SIDE_STEP))
        self.forget()
        self.post_message(self.Told())

    def _pointer(self) -> int:
        """The position of the line pointed at, on the screen; without one the end that the next step leaves from."""
        bottom = min(self._top + self.size.height, len(self.lens)) - 1
        if self.spot is None:
            return bottom
        return min(max(self.lens.position(self.spot), self._top), bottom)

    def _from(self, direction: int) -> int:
        """Where the next match is looked for from."""
        if self.spot is not None:
            return self.lens.position(self.spot)
        return self._top - 1 if direction > 0 else min(self._top + self.size.height, len(self.lens))

    def _go(self, position: int, pin: bool = False) -> None:
        """Scroll to a position; the end means following again, unless `pin`."""
        was = self.following
        if self._last_top() <= position and not pin:
            self.action_last()
            return
        self._bring_to(position)
        if self.spot is not None and len(self.lens):
            row = self._pointer()
            self.spot = self.lens.number(min(max(row, self._top), self._top + self.size.height - 1))
        if self._top <= self.size.height:
            self.post_message(self.AtTop())
        if was != self.following:
            self.post_message(self.Told())
        self.forget()

    def _bring_to(self, position: int) -> None:
        position = min(max(position, 0), self._last_top())
        if self.following:
            self._pause()
        self._anchor = self.lens.number(position) if len(self.lens) else self.store.first
        self._top = position

    def _pause(self) -> None:
        self.following, self._arrived = False, False
        self._paused_end = self.store.end
        self._hold_anchor()

    def _settle(self) -> None:
        """Positions move when old lines go: `_top` becomes that of the line which is on top of the screen now."""
        if self._shown and len(self.lens):
            self._top = min(self.lens.position(self._shown[0][0]), self._last_top())

    def _hold_anchor(self) -> None:
        if len(self.lens):
            self._anchor = self.lens.number(min(self._top, len(self.lens) - 1))

    def _last_top(self) -> int:
        return max(0, len(self.lens) - self.size.height)

    def _place(self) -> int:
        """The position of the top line now: numbers are absolute, so pruning and filtering move the position and not the line."""
        if self.following:
            return self._last_top()
        return min(self.lens.position(self._anchor), self._last_top())

    def _visible(self, top: int) -> list[tuple[int, bytes | None, int]]:
        """(number, text where it may still change, lines folded into it) of the lines on the screen."""
        rows = min(len(self.lens) - top, self.size.height)
        numbers = [self.lens.number(top + i) for i in range(max(0, rows))]
        folded = self.lens.folded
        return [(n, self.store.line(n)[1] if n >= self.store.end else None, folded.get(n, 0)) for n in numbers]

    def _held(self, number: int) -> bool:
        return self.store.first <= number < self.store.end + len(self.store.open_sources)

    # -- drawing

    def forget(self) -> None:
        """Draw everything anew: something else than the log's growth changed."""
        self._cache.clear()
        self._shown = []
        self.tick(now=True)
        self.refresh()

    def _remark(self) -> None:
        """What to mark in the text: the find, otherwise what the filter wants."""
        wanted = [term.text for term in self.wanted.terms if not term.out]
        text = self.find_text or (wanted[0] if wanted else "")
        self._marks.find = log_lines.for_text(text) if text else None
        self._marks.role = "hit" if self.find_text else "mark"

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._base = None

    @property
    def _ink(self) -> Ink:
        return cast("ConsoleApp", self.app).ink

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self._base = self._base or self.rich_style
        if y >= len(self._shown):
            return Strip.blank(width, base)
        key = (self._ink, width, self._side, len(self.names()), base)
        if key != self._cache_key:
            self._cache.clear()
            self._cache_key = key
        number, changing, folded = self._shown[y]
        strip = self._cache.get(number) if changing is None and not folded else None
        if strip is None:
            strip = self._draw(number, width).apply_style(base)
            if changing is None and not folded:
                self._cache[number] = strip
        return strip

    def _draw(self, number: int, width: int) -> Strip:
        line = self._line(number)
        text = text_of(line)
        cells = len(text) if text.isascii() else cell_len(text)
        if number == self.spot:
            # Under each word's own style, so that a match stays marked on the line pointed at.
            line = [*((part, f"cursor {role}") for part, role in line), (" " * max(0, width - cells), "cursor")]
        strip = self._ink.strip(line, max(width, cells))
        end = Strip([]) if cells - self._side <= width else self._ink.strip([("›", "dim")], 1)
        head = self._fixed_width()
        body = strip.crop(head + self._side, head + self._side + width - head - end.cell_length)
        return Strip.join([strip.crop(0, head), body, end]).adjust_cell_length(width)

    def _fixed_width(self) -> int:
        return GUTTER + log_lines.source_width(self.names())

    def _line(self, number: int) -> Line:
        if not self._held(number):
            return []
        source, raw = self.store.line(number)
        bookmarked = bool(self.bookmarks) and self.store.place(number) in self.bookmarks
        head = log_lines.gutter(pointed=number == self.spot, bookmarked=bookmarked)
        if source != MARK:
            head = head + log_lines.source_span(self.names(), source)
        # One screen beyond what is seen tells whether there is more; a line of any length is never decoded whole.
        reach = self._side + 2 * self.size.width
        return head + log_lines.body(source, raw, self._marks, self.lens.folded.get(number, 0), reach)
