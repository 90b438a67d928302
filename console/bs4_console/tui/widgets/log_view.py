"""The log on the screen with its keys and mouse: the pointer, filters, and what is marked and found
among the lines that are held.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollLeft, MouseScrollRight, MouseScrollUp
from textual.message import Message

from bs4_console.logs.filter import Fold, Lens, LogFilter, compile_pattern, find_reach
from bs4_console.logs.store import LogStore
from bs4_console.logs.text import present
from bs4_console.tui.formatting import clip, count
from bs4_console.tui.styled_text import Line, text_of
from bs4_console.tui.widgets import log_lines
from bs4_console.tui.widgets.log_canvas import LogCanvas

#: Columns that one press of an arrow moves sideways.
SIDE_STEP = 16
WHEEL_LINES = 3
LEVEL_NAMES = {20: "info", 30: "warning", 40: "error"}


#: Most lines in memory of which requests stay folded while something is searched for. Of more the
#: search would have to wait for the folding.
FOUND_LINES = 20_000
#: Most seconds that a search waits until it is known which lines are folded.
FOLD_S = 0.5
#: Characters of the filter in the title, which has more to say.
_FILTER_SHOWN = 30


class LogView(LogCanvas, can_focus=True):
    """The lines of a log that `store` has in memory, which can be scrolled and filtered. `names`
    returns the names of the log's sources. `spot` is the number of the line that is pointed at, or
    None. Commands act on that line, or else on the last line on the screen.
    """

    DEFAULT_CSS = "LogView { height: 1fr; }"
    ALLOW_SELECT = False
    # With priority, like all keys of the app, so that they act in the order in which they were
    # pressed.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll(-1)", "Up", show=False, priority=True, id="log.up"),
        Binding("down,j", "scroll(1)", "Down", show=False, priority=True, id="log.down"),
        Binding("pageup,u", "page(-1)", "Page up", show=False, priority=True, id="log.page-up"),
        Binding(
            "pagedown,d", "page(1)", "Page down", show=False, priority=True, id="log.page-down"
        ),
        Binding("home,g", "first", "Oldest", show=False, priority=True, id="log.first"),
        Binding("end,G", "last", "Newest, follow", show=False, priority=True, id="log.last"),
        Binding("left,h", "side(-1)", "Left", show=False, priority=True, id="log.left"),
        Binding("right", "side(1)", "Right", show=False, priority=True, id="log.right"),
        Binding(
            "shift+left",
            "side_page(-1)",
            "A screen left",
            show=False,
            priority=True,
            id="log.page-left",
        ),
        Binding(
            "shift+right",
            "side_page(1)",
            "A screen right",
            show=False,
            priority=True,
            id="log.page-right",
        ),
        Binding("0", "side_start", "Line start", show=False, priority=True, id="log.line-start"),
    ]

    class AtTop(Message):
        """Posted when the top of the screen comes close to the oldest line in memory, so that older
        lines have to be fetched.
        """

    class FirstWanted(Message):
        """Posted when the person wants to go to the oldest line of the whole log."""

    class Told(Message):
        """Posted when the title line has to be redrawn, because the filter or the place in the log
        has changed, or the log was paused or followed again.
        """

    def __init__(
        self,
        store: LogStore,
        names: Callable[[], Sequence[str]] = tuple,
        *,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(store, names, id=id)
        self.filter_text, self.floor = "", 0
        self.fold: Fold = "requests"
        self.find_text = ""
        """The text whose matches are marked: what is searched for, or what a person is typing."""
        self.sought = ""
        """The text that is searched for since Enter was pressed."""
        self.highlights: list[str] = []
        self._find: re.Pattern[bytes] | None = None
        self._paused_end = 0
        self._arrived = False

    @property
    def json(self) -> bool:
        """Return True if the log has lines of JSON, which are painted as time, level and message. A
        filter and a search see them as the file has them.
        """
        return self.store.json

    @property
    def unseen(self) -> int:
        """Return how many new lines came since the log was paused. Return 0 while it follows its
        end, and while it is not known where its end was.
        """
        return self._unseen(0)

    def _unseen(self, unread: int) -> int:
        """Return `unseen`, with `unread` lines that were not fetched from the pod yet."""
        if self.following or self._arrived:
            return 0
        return max(0, self.store.end + unread - self._paused_end)

    def know_end(self, unread: int) -> None:
        """Begin to count the new lines of a log that was paused at a place far from its end, now
        that its end is known. `unread` is the number of lines before it that were not fetched.
        """
        if self._arrived:
            self._arrived, self._paused_end = False, self.store.end + unread

    @property
    def current(self) -> int | None:
        """Return the number of the line that a command is about: the line pointed at, or else the
        last line on the screen. Return None if there is no line. The line's end may not be written
        yet: in a hang, that is the line that a person wants to expand and copy.
        """
        if self.spot is not None and self.held(self.spot):
            return self.spot
        return next(filter(self.held, reversed(self.on_screen)), None)

    @property
    def wanted(self) -> LogFilter:
        """Return the filter that is set: its regular expressions, the lowest level that is shown,
        and which neighbouring lines are folded (shown as one). While an expression or a level
        filters the log, lines of requests in access logs are not folded, because they may be what
        the person wants to see. Lines that match the searched text are never folded.
        """
        found = self.sought if self._folds == "requests" else ""
        return LogFilter.parse(self.filter_text, self.floor, fold=self._folds, found=found)

    @property
    def _folds(self) -> Fold:
        """Return which neighbouring lines are folded now. A log without requests is not searched
        for them.
        """
        sought = self.filter_text or self.floor
        if self.sought and len(self.store) > FOUND_LINES:
            sought = self.sought
        if self.fold == "requests" and (sought or not self.store.requests):
            return "none"
        return self.fold

    def tick(self, *, now: bool = False) -> None:
        """Paint the rows that have changed since the last call. When the first line of an access
        log has come and similar requests are to be folded (shown as one line), this call begins to
        fold them. Over SSH only so many bytes a second may be painted (see PaintBudget); while
        these are used up nothing is painted, unless `now` is True.
        """
        if self._folds == self.lens.filter.fold:
            super().tick(now=now)
        else:
            self.set_filter()

    @property
    def filtered_text(self) -> str:
        """Return the first regular expression of the filter that lines must match, or "" if there
        is none. Expressions that hide lines do not count.
        """
        return next((term.text for term in self.wanted.terms if not term.out), "")

    # -- what the screen tells it

    def set_store(self, store: LogStore) -> None:
        """Show the lines of `store` instead of those of the present store, and follow their end.
        The filter, its level, and what is searched for stay the same.
        """
        self.store, self.lens = store, Lens(store)
        self.lens.set(self.wanted)
        self.following, self.spot, self._arrived = True, None, False
        self._anchor = self._top = self._side = 0
        self.forget()

    def set_filter(
        self, text: str | None = None, floor: int | None = None, *, fold: Fold | None = None
    ) -> None:
        """Change the filter. `text` has its regular expressions, separated by " && "; one that
        begins with `!` hides the lines that match it. `floor` is the lowest level that is shown (a
        number as in Python's logging; 0 shows all), and `fold` says which neighbouring lines are
        shown as one. None leaves a part as it is. The line pointed at keeps its row, so
        that removing a filter shows the surroundings of a line that was found with it.
        """
        self._settle()
        self._hold_anchor()
        if text is not None:
            self.filter_text = text
        if floor is not None:
            self.floor = floor
        if fold is not None:
            self.fold = fold
        around = self._anchor if self.spot is None else self.spot
        self.lens.set(self.wanted, None if self.following else around)
        self._remark()
        if not self.following and self.spot is not None:
            self.lens.step()
            shown = self.on_screen
            row = shown.index(self.spot) if self.spot in shown else 0
            if len(self.lens):
                self._anchor = self.lens.number(max(0, self.lens.position(self.spot) - row))
        self.forget()

    def set_find(self, text: str, *, final: bool = True) -> None:
        """Mark all matches of the regular expression `text` in the log, or none if it is "".
        Nothing is scrolled.

        In an access log many requests may be folded (shown as one line). With `final`, those that
        match are shown as lines of their own. That examines all lines in memory, so `final` is
        False while a person is still typing.
        """
        self.find_text = text
        self._find = compile_pattern(text) if text else None
        if final:
            self.sought = text
        wanted = self.wanted
        if (wanted.fold, wanted.found) != (self.lens.filter.fold, self.lens.filter.found):
            self.set_filter()
            return
        self._remark()
        self.forget()

    def set_highlights(self, words: Sequence[str]) -> None:
        """Mark all matches of the regular expressions `words` in the log, in a style of their own
        and in addition to the matches of what is searched for. An empty sequence marks none.
        """
        self.highlights = list(words)
        self._marks.words = [log_lines.for_text(word) for word in words]
        self.forget()

    def _remark(self) -> None:
        """Set what is marked in the text: the find, otherwise the filter."""
        text = self.find_text or self.filtered_text
        self._marks.find = log_lines.for_text(text) if text else None
        self._marks.role = "hit" if self.find_text else "mark"

    @property
    def pattern(self) -> re.Pattern[bytes] | None:
        """Return the regular expression that a person searches for, compiled for bytes, or None if
        nothing is searched for.
        """
        return self._find

    def next_match(self, direction: int) -> bool:
        """Point at the next line that matches what is looked for: below the line pointed at if
        `direction` is 1, above it if it is -1. Return False if no line in memory in that direction
        matches.
        """
        if self._find is None:
            return False
        self._settle()
        self.lens.step(FOLD_S)
        return self._point_at_match(
            self.lens.find(self._find, self.from_here(direction), direction)
        )

    def find_back(self) -> bool:
        """Point at the nearest line that matches what is looked for, from the last line on the
        screen upwards. Return False if no line in memory there matches.
        """
        if self._find is None:
            return False
        self._settle()
        self.lens.step(FOLD_S)
        bottom = min(self._top + self.size.height, len(self.lens))
        return self._point_at_match(self.lens.find(self._find, bottom, -1))

    def _point_at_match(self, position: int | None) -> bool:
        if position is None:
            return False
        self.point_at(self.lens.number(position))
        self.show_match()
        return True

    def show_match(self) -> bool:
        """Scroll sideways so that the match in the line pointed at can be seen. Return False if the
        match is in a part of the line that is not in memory. Return True in all other cases, also
        if nothing is searched for or no line is pointed at.
        """
        find, spot = self._marks.find, self.spot
        if not self.find_text or find is None or spot is None or not self.held(spot):
            return True
        line = self.store.line(spot)[1]
        text = present(line, find_reach(find.pattern) or len(line) or 1).text
        found = find.search(text)
        if found is None:
            return False
        # Beside other sources a line is drawn in columns, without its own prefixes.
        drawn = text_of(self._line(spot, found.end() + 1))[self._fixed_width() :]
        found = find.search(drawn) or found
        begin, end = cell_len(drawn[: found.start()]), cell_len(drawn[: found.end()])
        width, side = self.size.width - self._fixed_width() - 2, self._side_of(spot)
        if end > side + width or (side and begin <= side):
            self._lean = (spot, 0 if end <= width else begin - width // 3)
            self._forget_and_tell()
        return True

    def seen(self, number: int) -> bool:
        """Return True if the line with this number in the LogStore is in memory and passes the
        filter, so that it is shown in the log.
        """
        position = self.lens.position(number)
        return position < len(self.lens) and self.lens.number(position) == number

    def toggle_follow(self) -> None:
        """Pause the log where it is, or, if it is paused, show its end again and follow it."""
        if self.following:
            self._settle()
            self._pause()
        else:
            self.action_last()
        self.post_message(self.Told())

    def hold_at(self, number: int, above: int = 4) -> None:
        """Pause the log at the line with this number and point at it, with `above` lines above it
        on the screen. The line may be one that has not come yet.
        """
        self._pause()
        self.spot, self._anchor, self._arrived = number, number - above, True
        self.tick(now=True)

    def point_at(self, number: int) -> None:
        """Pause the log and point at the line with this number, which must be in memory. The screen
        moves only if the line is not on it.
        """
        self._settle()
        if self.following:
            self._pause()
        self.spot = number
        if number not in self.on_screen:
            self._bring_to(self.lens.position(number) - self.size.height // 2)
        self._forget_and_tell()

    def _forget_and_tell(self) -> None:
        self.forget()
        self.post_message(self.Told())

    def state(self, unread: int = 0) -> Line:
        """Return, as a styled line for the title of the log, whether the log follows its end or is
        paused. `unread` is the number of new lines that were not fetched from the pod yet.
        """
        if self.following:
            return [("following", "good")]
        unseen = self._unseen(unread)
        new = f" +{unseen:,} new" if unseen else ""
        return [("‖ paused", "warn"), (new, "warn bold"), (" space follows", "dim")]

    def sifting(self) -> Line:
        """Return, as a styled line for the title of the log, which level and which filter are set,
        and how many lines the filter shows. Return [] if neither is set.
        """
        line: Line = []
        if self.floor:
            level = LEVEL_NAMES.get(self.floor, str(self.floor))
            line += [(" · ", "dim"), (f"{level} and up", "accent")]
        if self.filter_text:
            hits = count(len(self.lens), "line") + ("…" if self.lens.pending else "")
            if self.json and not len(self.lens):
                hits += " in the file's JSON"
            line += [
                (" · ", "dim"),
                (f"/{clip(self.filter_text, _FILTER_SHOWN)}", "accent"),
                (f" {hits}", "dim"),
            ]
        return line

    def title(self) -> Line:
        """Return, as a styled line for the title of the log, which lines are folded (shown as one)
        and from which column on the lines are shown.
        """
        line: Line = []
        folded = sum(self.lens.folded.values())
        if self.fold == "alike":
            line += [(" · ", "dim"), ("folded", "accent"), (f" {folded:,} alike", "dim")]
        elif self.fold == "none":
            line += [(" · ", "dim"), ("nothing folded", "accent")]
        elif folded:
            line.append((f" · {count(folded, 'request')} folded", "dim"))
        if self._side:
            line.append((f" · from column {self._side}", "dim"))
        return line

    # -- keys and mouse

    def action_scroll(self, by: int) -> None:
        """Move the pointer down by `by` lines, or up if it is negative. The log scrolls when the
        pointer would leave the screen. Going down from the last line follows the end of the log
        again.
        """
        if not len(self.lens):
            return
        self._settle()
        last, position = len(self.lens) - 1, self._pointer() + by
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
        self._forget_and_tell()

    def action_page(self, direction: int) -> None:
        """Scroll by a page, down if `direction` is 1, up if it is -1."""
        self._scroll(direction * max(1, self.size.height - 2))

    def action_first(self) -> None:
        """Post a message that the person wants to go to the oldest line of the whole log, which may
        have to be fetched.
        """
        self.post_message(self.FirstWanted())

    def to_first(self) -> None:
        """Pause the log at the oldest line in memory and point at it."""
        self._go(0, pin=True)
        if len(self.lens):
            self.spot = self.lens.number(0)
            self.forget()

    def action_last(self) -> None:
        """Show the end of the log and follow it."""
        self.following, self.spot, self._arrived = True, None, False
        self._forget_and_tell()

    def action_side(self, direction: int) -> None:
        """Scroll sideways by SIDE_STEP (16) columns, to the right if `direction` is 1 and to the
        left if it is -1.
        """
        self._to_column(self._side_of(self.spot) + direction * SIDE_STEP)

    def action_side_page(self, direction: int) -> None:
        """Scroll sideways by about the width of the screen, to the right if `direction` is 1 and to
        the left if it is -1.
        """
        self._to_column(
            self._side_of(self.spot)
            + direction * max(SIDE_STEP, self.size.width - self._fixed_width() - 8)
        )

    def action_side_start(self) -> None:
        """Scroll sideways back to the start of the lines."""
        self._to_column(0)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Scroll up by WHEEL_LINES (3) lines."""
        event.stop()
        self._scroll(-WHEEL_LINES)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scroll down by WHEEL_LINES (3) lines."""
        event.stop()
        self._scroll(WHEEL_LINES)

    def _scroll(self, by: int) -> None:
        self._settle()
        self._go(self._top + by)

    def on_mouse_scroll_left(self, event: MouseScrollLeft) -> None:
        """Scroll to the left by SIDE_STEP (16) columns."""
        event.stop()
        self.action_side(-1)

    def on_mouse_scroll_right(self, event: MouseScrollRight) -> None:
        """Scroll to the right by SIDE_STEP (16) columns."""
        event.stop()
        self.action_side(1)

    def on_click(self, event: Click) -> None:
        """Point at the line that was clicked."""
        if event.y < len(self._shown) and self.held(self._shown[event.y][0]):
            event.stop()
            self.point_at(self._shown[event.y][0])

    def on_resize(self) -> None:
        """Paint the lines that the new size shows. Lines that were drawn before are not drawn
        again.
        """
        # Lines that are drawn are reused: a prompt that opens only moves them up.
        self._shown = []
        self.tick(now=True)
        self.refresh()

    # -- places

    def _to_column(self, column: int) -> None:
        """Scroll sideways to this column, but not beyond the longest line on the screen."""
        longest = max(
            (len(self.store.line(number)[1]) for number in self.on_screen if self.held(number)),
            default=0,
        )
        self._side, self._lean = min(max(0, column), max(0, longest - SIDE_STEP)), (-1, 0)
        self._forget_and_tell()

    def _pointer(self) -> int:
        """Return the position of the line pointed at, within the screen. Without one, return the
        last position on the screen, from which the next step leaves.
        """
        bottom = min(self._top + self.size.height, len(self.lens)) - 1
        if self.spot is None:
            return bottom
        return min(max(self.lens.position(self.lens.stands_for(self.spot)), self._top), bottom)

    def from_here(self, direction: int) -> int:
        """Return the position from which the next match is searched for, counted among the lines
        that pass the filter. It is the position of the line pointed at. If no line is pointed at,
        it is just above the screen if `direction` is 1 (down), and just below the screen if it is
        -1 (up).
        """
        if self.spot is not None:
            return self.lens.position(self.spot)
        if direction > 0:
            return self._top - 1
        return min(self._top + self.size.height, len(self.lens))

    def _go(self, position: int, pin: bool = False) -> None:
        """Scroll to a position. The end means following again, unless `pin`."""
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
        """Bring `_top` up to date. Positions change when old lines are dropped, so `_top` becomes
        that of the line which is on top of the screen now.
        """
        if self._shown and len(self.lens):
            self._top = min(self.lens.position(self._shown[0][0]), self._last_top())

    def _hold_anchor(self) -> None:
        if len(self.lens):
            self._anchor = self.lens.number(min(self._top, len(self.lens) - 1))
