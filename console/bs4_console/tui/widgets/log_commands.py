"""The commands of a screen that has a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from bs4_console.logs.filter import AND
from bs4_console.logs.text import LINE_CELLS
from bs4_console.tui.formatting import count
from bs4_console.tui.widgets.log_pane import LogPane

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp

LEVELS = {"all": 0, "info": 20, "warning": 30, "error": 40}


class LogCommands:
    """The commands of the log. The screen has `pane` and `ask`."""

    pane: LogPane
    ask: Callable[..., None]
    _before: str | None = None
    """The filter when the prompt of `hide` was opened."""

    @property
    def _app(self) -> ConsoleApp:
        return cast("ConsoleApp", self.pane.app)

    def prompted(self, kind: str, text: str, *, final: bool) -> None:
        """Filter, find, highlight or go by what was typed. Called for every letter, and with
        `final` on Enter and Esc.
        """
        pane = self.pane
        if kind == "/":
            pane.set_filter(text)
        elif kind == "hide ":
            out = f"!{text}" if text else ""
            pane.set_filter(AND.join(filter(None, (self._before, out))))
        elif kind == "find ":
            pane.find(text, final=final)
        elif kind == "highlight " and (final or text):
            pane.view.set_highlights([word for word in text.split(AND) if word])
        elif kind == "go " and final and text:
            pane.go(text)
        pane.pulse()

    def do_filter(self, args: str) -> None:
        """Show only the lines that match `args`, or ask for a pattern."""
        self._give("/", args, self.pane.view.filter_text)

    def do_hide(self, args: str) -> None:
        """Leave out the lines that match `args`, or ask for a pattern."""
        self._before = self.pane.view.filter_text
        self._give("hide ", args, "")

    def do_find(self, args: str) -> None:
        """Find the text in `args`, or ask for it."""
        self._give("find ", args, self.pane.view.find_text)

    def do_highlight(self, args: str) -> None:
        """Mark the words in `args`, or ask for them."""
        self._give("highlight ", args, AND.join(self.pane.view.highlights))

    def do_go(self, args: str) -> None:
        """Go to the place in `args`, or ask for it."""
        self._give("go ", args, "")

    def _give(self, kind: str, args: str, now: str) -> None:
        if args:
            self.prompted(kind, args, final=True)
        else:
            self.ask(kind, now)

    def do_next_match(self, args: str) -> None:
        """Go to the next match of find, downwards."""
        self._jump(1)

    def do_previous_match(self, args: str) -> None:
        """Go to the next match of find, upwards."""
        self._jump(-1)

    def _jump(self, direction: int) -> None:
        if self.pane.view.find_text:
            self.pane.next_match(direction)
        else:
            self._app.say(f"Nothing is being looked for; {self._app.keys['find']} starts.")
        self.pane.pulse()

    def do_follow(self, args: str) -> None:
        """Pause the log here, or follow its end again."""
        self.pane.view.toggle_follow()
        self.pane.pulse()

    def do_fold(self, args: str) -> None:
        """Fold neighbouring lines that differ only in their numbers, or unfold them."""
        self.pane.set_filter(fold=not self.pane.view.fold)
        self.pane.pulse()

    def do_level(self, args: str) -> None:
        """Show only lines of the level in `args` and worse. Without a level, or with an unknown
        one, take the next level.
        """
        floors = list(LEVELS.values())
        after = (floors.index(self.pane.view.floor) + 1) % len(floors)
        self.pane.set_filter(floor=LEVELS.get(args, floors[after]))
        self.pane.pulse()

    def do_bookmark(self, args: str) -> None:
        """Mark the current line, or remove its mark."""
        self.pane.bookmark()
        self.pane.pulse()

    def do_next_bookmark(self, args: str) -> None:
        """Go to the next marked line below, going round at the end."""
        self.pane.to_bookmark(1)

    def do_previous_bookmark(self, args: str) -> None:
        """Go to the next marked line above, going round at the start."""
        self.pane.to_bookmark(-1)

    def do_expand(self, args: str) -> None:
        """Open the entry of the current line."""
        self.pane.open_entry()

    def do_copy(self, args: str) -> None:
        """Copy the lines on the screen."""
        lines = self.pane.view.to_copy()
        text = "\n".join(lines)
        said = f"Copied the {count(len(lines), 'line')} on the screen, "
        said += count(len(text), "character")
        if long := sum(len(line) > LINE_CELLS for line in lines):
            key = self._app.keys["copy-entry"]
            said += f"; {long} of them cut at {LINE_CELLS:,}, {key} copies one whole"
        self._app.copy(text, f"{said}.")

    def do_copy_entry(self, args: str) -> None:
        """Copy the entry of the current line, with its traceback or JSON."""
        lines = self.pane.entry_text()
        text = "\n".join(lines)
        said = f"Copied the entry, {count(len(lines), 'line')}, {count(len(text), 'character')}"
        if missing := self.pane.entry_missing():
            said += f", but {missing:,} bytes of it are only on the pod"
        self._app.copy(text, f"{said}.")
