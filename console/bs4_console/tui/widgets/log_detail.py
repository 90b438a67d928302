"""The dialog with one entry of a log: JSON is formatted, a traceback is complete, and a very long
line comes in pages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll

from bs4_console.logs.text import clean, plain
from bs4_console.tui.formatting import count
from bs4_console.tui.screens.base import Question
from bs4_console.tui.styled_text import Line, fold, spread, text_of
from bs4_console.tui.widgets.log_lines import Marks
from bs4_console.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp

#: Bytes of a long line that one page shows.
PAGE_BYTES = 8 * 1024

#: Returns the bytes of the line from an offset on, or b"" at its end.
Fetch = Callable[[int], Awaitable[bytes]]


class LogDetail(Question[None]):
    """The dialog with one entry of a log: a line with its traceback or its JSON. `title` is the
    dialog's heading, `lines` are the entry's text, and `marks` has the regular expressions whose
    matches are marked in it.

    `fetch` is None, unless the entry is a very long line, of `size` bytes. Then `fetch(offset)`
    reads bytes of the line from that offset on from the pod, `lines` is the part of it that begins
    at byte `begin`, and the keys `n` and `p` show the next and the previous part.
    """

    DEFAULT_CSS = """
    LogDetail { align: center middle; }
    LogDetail > Vertical {
        width: 94%; height: 90%; border: round $accent; background: $surface; padding: 0 1;
    }
    LogDetail #head, LogDetail #keys { height: 1; }
    LogDetail VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,x,enter", "leave", "Close", show=False, id="detail.close"),
        Binding("y", "copy", "Copy", show=False, id="detail.copy"),
        Binding("n,right", "page(1)", "Next part", show=False, id="detail.next"),
        Binding("p,left", "page(-1)", "Previous part", show=False, id="detail.previous"),
        Binding("g,home", "edge(0)", "First part", show=False, id="detail.first"),
        Binding("G,end", "edge(1)", "Last part", show=False, id="detail.last"),
        Binding("j", "line(1)", "Down", show=False, id="detail.down"),
        Binding("k", "line(-1)", "Up", show=False, id="detail.up"),
    ]

    def __init__(
        self,
        title: str,
        lines: Sequence[str],
        fetch: Fetch | None = None,
        *,
        begin: int = 0,
        size: int = 0,
        marks: Marks | None = None,
    ) -> None:
        super().__init__()
        self.title_text, self.lines, self._fetch = title, list(lines), fetch
        self.begin, self._bytes, self._marked = begin, size, marks or Marks()

    def compose(self) -> ComposeResult:
        """Yield the title, the scrolled area with the entry, and the line with the keys."""
        with Vertical():
            yield Panel(id="head")
            with VerticalScroll():
                yield Panel(id="entry")
            yield Panel(id="keys")

    def on_mount(self) -> None:
        """Show the entry, and give it the focus so that it can be scrolled."""
        super().on_mount()
        self.query_one(VerticalScroll).focus()

    def tell(self) -> None:
        """Show the title, the entry wrapped to the width of the dialog, and the keys."""
        # Before the first layout the width is unknown and estimated.
        width = max(
            20,
            (self.query_one(VerticalScroll).size.width or self.app.size.width * 94 // 100 - 2) - 1,
        )
        where = self._where if self._fetch else count(len(self.lines), "line")
        self.query_one("#head", Panel).show(
            [spread([(self.title_text, "head")], [(where, "dim")], width)]
        )
        shown: list[Line] = []
        for line in self.lines:
            text = line.lstrip(" ")
            folded = fold(text or " ", width, indent=min(len(line) - len(text), width // 2))
            shown += [self._marked.apply(text_of(row), "") for row in folded]
        self.query_one("#entry", Panel).show(shown)
        keys: Line = [
            ("esc", "key"),
            (" closes  ", ""),
            ("y", "key"),
            (f" copies {'this part' if self._fetch else 'all of it'}", ""),
        ]
        if self._fetch:
            keys += [
                ("  n p", "key"),
                (" next and previous part of the line  ", ""),
                ("g G", "key"),
                (" first and last", ""),
            ]
        self.query_one("#keys", Panel).show([keys])

    def action_leave(self) -> None:
        """Close the dialog."""
        self.dismiss(None)

    @property
    def _where(self) -> str:
        return (
            f"bytes {self.begin:,} to {min(self.begin + PAGE_BYTES, self._bytes):,} of "
            f"{self._bytes:,}"
        )

    def action_copy(self) -> None:
        """Copy the entry to the clipboard. Of a very long line only the part that is shown is
        copied.
        """
        text = "\n".join(self.lines)
        what = f"the entry, {count(len(self.lines), 'line')}"
        if self._fetch:
            what = f"{self._where} of the line"
        cast("ConsoleApp", self.app).copy(text, f"Copied {what}, {count(len(text), 'character')}.")

    def action_line(self, by: int) -> None:
        """Scroll the entry down by `by` lines, or up if it is negative."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """Show another part of a very long line: `by` parts further on, or back if negative. Do
        nothing beyond the end of the line, and for entries that are not a very long line.
        """
        self._to(max(0, self.begin + by * PAGE_BYTES))

    def action_edge(self, last: int) -> None:
        """Go to the end of the entry if `last` is 1, or to its beginning if it is 0. For a very
        long line that means to show its last or its first part.
        """
        if self._fetch is None:
            scroll = self.query_one(VerticalScroll)
            scroll.scroll_end(animate=False) if last else scroll.scroll_home(animate=False)
        else:
            self._to(max(0, self._bytes - PAGE_BYTES) if last else 0)

    def _to(self, offset: int) -> None:
        # The bytes after the line's end belong to the next line.
        if self._fetch is not None and offset < self._bytes:
            cast("ConsoleApp", self.app).spawn("part of a line", self._turn(self._fetch, offset))

    async def _turn(self, fetch: Fetch, offset: int) -> None:
        data = await fetch(offset)
        if data or not offset:
            self.begin, self.lines = offset, [part(data)]
            self.query_one(VerticalScroll).scroll_home(animate=False)
            self.tell()


def part(data: bytes) -> str:
    """Return `data`, the bytes of a part of a very long line, as text without secrets and control
    characters. The part may begin or end in the middle of a character. The bytes of a character
    that was cut are shown as one or more placeholders (U+FFFD).
    """
    return plain(clean(data), PAGE_BYTES)
