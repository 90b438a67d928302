"""A widget that shows lines, and repaints only those that changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from bs4_console.tui.styled_text import Line, RoleStyles, text_of

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp


class Panel(Widget):
    """A widget that shows styled lines, each a list of (text, style role). With the CSS `height:
    auto` it has as many rows as there are lines. `fill` is the role of its background, or "". `id`
    and `classes` are Textual's.
    """

    DEFAULT_CSS = "Panel { height: auto; }"
    ALLOW_SELECT = False

    def __init__(
        self,
        *,
        id: str | None = None,  # noqa: A002
        classes: str | None = None,
        fill: str = "",
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.lines: list[Line] = []
        self._fill = fill
        self._drawn: tuple[object, int] = (None, -1)
        self._strips: dict[int, Strip] = {}

    @property
    def ink(self) -> RoleStyles:
        """Return the converter from style roles (such as "bad bold") to Rich styles, which the
        whole app shares.
        """
        return cast("ConsoleApp", self.app).ink

    @property
    def text(self) -> str:
        """Return the lines that are shown as one text, without styles and without blanks at their
        ends.
        """
        return "\n".join(text_of(line).rstrip() for line in self.lines)

    def show(self, lines: Sequence[Line]) -> None:
        """Show these lines instead of the present ones. Only lines that differ are painted, so that
        an idle screen sends no byte.
        """
        before, self.lines = self.lines, list(lines)
        if len(before) != len(self.lines):
            self._strips.clear()
            self.refresh(layout=self.styles.height is not None and self.styles.height.is_auto)
            return
        for y, (old, new) in enumerate(zip(before, self.lines, strict=True)):
            if old != new:
                self._strips.pop(y, None)
                self.refresh(Region(0, y, max(1, self.size.width), 1))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines as the widget's height in rows. Textual calls this for its
        layout; the arguments are ignored.
        """
        return len(self.lines)

    def render_line(self, y: int) -> Strip:
        """Return row `y` of the widget as a strip. Rows below the last line are blank."""
        if self._drawn != (self.ink, self.size.width):
            self._strips.clear()
            self._drawn = (self.ink, self.size.width)
        strip = self._strips.get(y)
        if strip is None:
            line = self.lines[y] if y < len(self.lines) else []
            strip = self._strips[y] = self.ink.strip(line, self.size.width, self._fill).apply_style(
                self.rich_style
            )
        return strip
