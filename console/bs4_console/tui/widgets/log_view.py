"""The log on the screen: a window over a LogStore that draws only the lines it shows.

Not a ScrollView: its virtual_size is a layout reactive, so every tick of a growing log would lay out the whole screen again; here a
tick costs the visible lines and nothing else. Taking lines in and painting them are apart: the store fills at the link's pace, `tick`
paints at the screen's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.events import MouseScrollDown, MouseScrollLeft, MouseScrollRight, MouseScrollUp
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from bs4_console.core.log_filter import REACH, Lens, LogFilter, compile_pattern
from bs4_console.core.log_store import MARK, LogStore
from bs4_console.core.log_text import DEBUG, ERROR, SUCCESS, WARNING, present
from bs4_console.tui.ink import Ink, Line, text_of
from bs4_console.tui.words import count

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp

#: Columns that one press of an arrow moves sideways.
SIDE_STEP = 16
WHEEL_LINES = 3
#: torchrun's prefix and the clock, then the level word.
_HEAD = re.compile(
    r"^((?:\[[^\]\s]{1,20}\]:?)?\s*(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)?\s+)?"
    r"(\s*(?:TRACE|DEBUG|INFO|SUCCESS|WARNING|WARN|ERROR|CRITICAL|FATAL)\b)?"
)


def level_role(level: int | None) -> str:
    if level is None:
        return ""
    if level >= ERROR:
        return "bad"
    if level >= WARNING:
        return "warn"
    return "good" if level == SUCCESS else ("dim" if level <= DEBUG else "accent")


class LogView(Widget, can_focus=True):
    """`names` gives the source column's text; with fewer than two there is no such column."""

    DEFAULT_CSS = "LogView { height: 1fr; padding: 0 0 0 1; }"
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
        Binding("0", "side(-1000)", "Line start", show=False, priority=True, id="log.line-start"),
    ]

    class AtTop(Message):
        """The oldest held line is on the screen: older ones may be wanted."""

    class Told(Message):
        """Follow, filter or place changed: the title line is out of date."""

    def __init__(self, store: LogStore, names: Callable[[], Sequence[str]] = tuple, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.store = store
        self.lens = Lens(store)
        self.names = names
        self.following = True
        self.filter_text = ""
        self.floor = 0
        self.find_text = ""
        self._find: re.Pattern[bytes] | None = None
        self._marked: re.Pattern[str] | None = None
        self._anchor = 0
        self._top = 0
        self._side = 0
        self._paused_end = 0
        self.spot: int | None = None
        """A line to point at: the evidence one came for."""
        self._shown: list[tuple[int, bytes | None]] = []
        self._cache: LRUCache[int, Strip] = LRUCache(512)
        self._cache_key: object = None

    @property
    def unseen(self) -> int:
        """Lines that came since the view was paused."""
        return 0 if self.following or self.spot is not None else max(0, self.store.end - self._paused_end)

    @property
    def position(self) -> int:
        """Of the first line on the screen, among the visible ones."""
        return self._top

    # -- what the screen tells it

    def tick(self) -> None:
        """Paint what changed since the last tick. The only place where the log's growth reaches the screen."""
        self.lens.step()
        top = self._place()
        shown = self._visible(top)
        if top != self._top or shown != self._shown:
            self._top, self._shown = top, shown
            self.refresh()

    def set_store(self, store: LogStore) -> None:
        """Another log in the same view; filter, level and find stay."""
        self.store, self.lens = store, Lens(store)
        self.lens.set(LogFilter.parse(self.filter_text, self.floor))
        self.following, self._anchor, self._top, self._side, self.spot = True, 0, 0, 0, None
        self._forget()

    def set_filter(self, text: str | None = None, floor: int | None = None) -> None:
        """The line at the top stays the anchor: taking a filter away shows what surrounds the line that was found."""
        self._hold_anchor()
        self.filter_text = self.filter_text if text is None else text
        self.floor = self.floor if floor is None else floor
        self.lens.set(LogFilter.parse(self.filter_text, self.floor))
        self._remark()
        self._forget()

    def set_find(self, text: str) -> None:
        self.find_text = text
        self._find = compile_pattern(text) if text else None
        self._remark()
        self._forget()

    def next_match(self, direction: int) -> bool:
        """Put the next match below (or above) the first line at the top; False when there is none."""
        if self._find is None:
            return False
        found = self.lens.find(self._find, self._top, direction)
        if found is None:
            return False
        self._go(found, pin=True)
        return True

    def find_back(self) -> bool:
        """The newest match at or above the last line on the screen."""
        if self._find is None:
            return False
        bottom = min(self._top + self.size.height, len(self.lens))
        found = self.lens.find(self._find, bottom, -1)
        if found is None:
            return False
        self._go(max(0, found - self.size.height // 2), pin=True)
        return True

    def toggle_follow(self) -> None:
        if self.following:
            self._pause()
        else:
            self.action_last()
        self.post_message(self.Told())

    def hold_at(self, number: int, above: int = 4) -> None:
        """Pause at this line and point at it, with some lines above it."""
        self._pause()
        self.spot, self._anchor = number, number - above
        self.tick()

    def visible_text(self) -> str:
        return "\n".join(text_of(self._line(number)) for number, _ in self._shown)

    def title(self) -> Line:
        """What is shown of the log, and how: for the line above it."""
        line: Line = []
        if self.floor:
            line += [(" · ", "dim"), ({20: "info", 30: "warning", 40: "error"}.get(self.floor, str(self.floor)) + " and worse", "accent")]
        if self.filter_text:
            hits = count(len(self.lens), "line") + ("…" if self.lens.pending else "")
            line += [(" · ", "dim"), (f"/{self.filter_text}", "accent"), (f" {hits}", "dim")]
        if self.find_text:
            line += [(" · ", "dim"), (f"find {self.find_text}", "accent")]
        if self._side:
            line += [(f" · from column {self._side}", "dim")]
        if self.following:
            return [*line, (" · ", "dim"), ("following", "good")]
        new = f" +{self.unseen:,} new" if self.unseen else ""
        return [*line, (" · ", "dim"), ("‖ paused", "warn"), (new, "warn bold"), (" space follows", "dim")]

    # -- keys and mouse

    def action_scroll(self, by: int) -> None:
        self._go(self._top + by)

    def action_page(self, direction: int) -> None:
        self._go(self._top + direction * max(1, self.size.height - 2))

    def action_first(self) -> None:
        self._go(0, pin=True)

    def action_last(self) -> None:
        self.following = True
        self.tick()
        self.post_message(self.Told())

    def action_side(self, direction: int) -> None:
        self._side = max(0, self._side + direction * SIDE_STEP)
        self._forget()
        self.post_message(self.Told())

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self._go(self._top - WHEEL_LINES)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self._go(self._top + WHEEL_LINES)

    def on_mouse_scroll_left(self, event: MouseScrollLeft) -> None:
        event.stop()
        self.action_side(-1)

    def on_mouse_scroll_right(self, event: MouseScrollRight) -> None:
        event.stop()
        self.action_side(1)

    def on_resize(self) -> None:
        self._forget()

    # -- places

    def _go(self, position: int, pin: bool = False) -> None:
        """Scroll to a position; the end means following again, unless `pin`."""
        last = self._last_top()
        position = min(max(position, 0), last)
        was = self.following
        if position >= last and not pin:
            self.following = True
        else:
            if self.following:
                self._pause()
            self._anchor = self.lens.number(position) if len(self.lens) else self.store.first
        if position == 0:
            self.post_message(self.AtTop())
        if was != self.following:
            self.post_message(self.Told())
        self.tick()

    def _pause(self) -> None:
        self.following = False
        self._paused_end = self.store.end
        self._hold_anchor()

    def _hold_anchor(self) -> None:
        if len(self.lens):
            self._anchor = self.lens.number(min(self._top, len(self.lens) - 1))

    def _last_top(self) -> int:
        return max(0, len(self.lens) - self.size.height)

    def _place(self) -> int:
        """The position of the top line now: numbers are absolute, so pruning and filtering move the position and not the line."""
        if self.following:
            return self._last_top()
        return min(self.lens.position(self._anchor), max(0, len(self.lens) - 1))

    def _visible(self, top: int) -> list[tuple[int, bytes | None]]:
        """(number, text where it may still change) of the lines on the screen."""
        rows = min(len(self.lens) - top, self.size.height)
        numbers = [self.lens.number(top + i) for i in range(max(0, rows))]
        return [(n, self.store.line(n)[1] if n >= self.store.end else None) for n in numbers]

    # -- drawing

    def _forget(self) -> None:
        self._cache.clear()
        self._shown = []
        self.tick()
        self.refresh()

    def _remark(self) -> None:
        """What to mark in the text: the find, otherwise the filter."""
        text = self.find_text or self.filter_text.removeprefix("!")
        wanted = bool(self.find_text) or not self.filter_text.startswith("!")
        pattern = compile_pattern(text) if text and wanted else None
        self._marked = re.compile(pattern.pattern.decode(), pattern.flags & ~re.LOCALE | re.UNICODE) if pattern else None

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._cache.clear()

    @property
    def _ink(self) -> Ink:
        return cast("ConsoleApp", self.app).ink

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y >= len(self._shown):
            return Strip.blank(width, self.rich_style)
        key = (self._ink, width, self._side, len(self.names()))
        if key != self._cache_key:
            self._cache.clear()
            self._cache_key = key
        number, changing = self._shown[y]
        strip = self._cache.get(number) if changing is None else None
        if strip is None:
            strip = self._draw(number, width).apply_style(self.rich_style)
            if changing is None:
                self._cache[number] = strip
        return strip

    def _draw(self, number: int, width: int) -> Strip:
        line = self._line(number)
        fill = "cursor" if number == self.spot else ""
        strip = self._ink.strip(line, max(width, len(text_of(line)) * 2 if self._side else width), fill)
        if not self._side:
            beyond = len(text_of(line)) > width
            return Strip.join([strip.crop(0, width - 1), self._ink.strip([("›", "dim")], 1)]) if beyond else strip
        head = self._source_width()
        return Strip.join([strip.crop(0, head), strip.crop(head + self._side, head + self._side + width - head)]).adjust_cell_length(width)

    def _source_width(self) -> int:
        names = self.names()
        return min(12, max(map(len, names))) + 1 if len(names) > 1 else 0

    def _line(self, number: int) -> Line:
        if not self.store.first <= number < self.store.end + len(self.store.open_sources):
            return []
        source, raw = self.store.line(number)
        if source == MARK:
            return [(f"‒‒ {raw.decode('utf-8', 'replace')} ‒‒", "warn")]
        shown = present(raw)
        head = self._source_width()
        line: Line = []
        if head:
            names = self.names()
            name = names[source] if source < len(names) else "?"
            line.append((f"{name[: head - 1]:<{head}}", "dim"))
        return line + self._body(shown.text, shown.level)

    def _body(self, text: str, level: int | None) -> Line:
        role = level_role(level)
        body = role if level is not None and level >= ERROR else ("dim" if level is not None and level <= DEBUG else "")
        found = _HEAD.match(text)
        clock, word = (found[1] or "", found[2] or "") if found else ("", "")
        rest = text[len(clock) + len(word) :]
        return [(clock, "dim"), (word, role), *self._mark_hits(rest, body)]

    def _mark_hits(self, text: str, role: str) -> Line:
        if self._marked is None:
            return [(text, role)]
        line: Line = []
        at = 0
        for match in self._marked.finditer(text[:REACH]):
            if match.end() > match.start():
                line += [(text[at : match.start()], role), (match[0], "hit" if self.find_text else "mark")]
                at = match.end()
        return [*line, (text[at:], role)]
