"""The commands of a screen that has a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from bs4_console.logs.filter import AND, Fold
from bs4_console.logs.text import LINE_CELLS
from bs4_console.tui.formatting import count
from bs4_console.tui.widgets.log_pane import LogPane

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp

_NEXT_FOLD: dict[Fold, Fold] = {"requests": "alike", "alike": "none", "none": "requests"}
LEVELS = {"all": 0, "info": 20, "warning": 30, "error": 40}


class LogCommands:
    """The commands of a log, for a screen that shows one. The screen gives `pane`, the widget with
    the log, and `ask`, the method that opens a prompt.
    """

    pane: LogPane
    ask: Callable[..., None]
    _before: str | None = None
    """The filter that was set when the command `hide` was given, to which its expression is added.
    None before the first time.
    """

    @property
    def _app(self) -> ConsoleApp:
        return cast("ConsoleApp", self.pane.app)

    def prompted(self, kind: str, text: str, *, final: bool) -> None:
        """Use `text`, which was typed in a prompt: `kind` "/" filters the log by it, "hide " hides
        lines that match it, "find " goes to it, "highlight " marks it, and "go " goes to the place
        that it names. Called at every change of the text with `final` False. Called with `final`
        True on Enter, and on Esc with "" as the text. Going to a place waits for Enter.
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
        """Show only the lines of the log that match `args`: one or more regular expressions,
        separated by " && ", all of which must match. An expression that begins with `!` hides the
        lines that match it. If `args` is empty, open the prompt in which a filter is typed.
        """
        self._give("/", args, self.pane.view.filter_text)

    def do_hide(self, args: str) -> None:
        """Hide the lines of the log that match the regular expression in `args`, in addition to the
        filter that is set. If `args` is empty, open the prompt in which an expression is typed.
        """
        self._before = self.pane.view.filter_text
        self._give("hide ", args, "")

    def do_find(self, args: str) -> None:
        """Go to the nearest line of the log that matches the regular expression in `args`, and mark
        all its matches. A text that is not a valid expression is searched as it is. If `args` is
        empty, open the prompt in which it is typed.
        """
        self._give("find ", args, self.pane.view.find_text)

    def do_highlight(self, args: str) -> None:
        """Keep all matches of the regular expressions in `args` marked in the log; several are
        separated by " && ". If `args` is empty, open the prompt in which they are typed.
        """
        self._give("highlight ", args, AND.join(self.pane.view.highlights))

    def do_go(self, args: str) -> None:
        """Go to the place of the log in `args`: the number of a line (12345), a percentage (50%) or
        a time (21:14:05, or -5m from the current line). If `args` is empty, open the prompt in
        which the place is typed.
        """
        self._give("go ", args, "")

    def _give(self, kind: str, args: str, now: str) -> None:
        if args:
            self.prompted(kind, args, final=True)
        else:
            self.ask(kind, now)

    def do_next_match(self, args: str) -> None:
        """Go down to the next match of the text that was looked for with find. A message says so if
        nothing was looked for. `args` is ignored.
        """
        self._jump(1)

    def do_previous_match(self, args: str) -> None:
        """Go up to the next match of the text that was looked for with find. A message says so if
        nothing was looked for. `args` is ignored.
        """
        self._jump(-1)

    def _jump(self, direction: int) -> None:
        if self.pane.view.find_text:
            self.pane.next_match(direction)
        else:
            self._app.say(f"Nothing is being looked for; {self._app.keys['find']} starts.")
        self.pane.pulse()

    def do_follow(self, args: str) -> None:
        """Pause the log where it is, or, if it is paused, show its end again and follow it. `args`
        is ignored.
        """
        self.pane.view.toggle_follow()
        self.pane.pulse()

    def do_fold(self, args: str) -> None:
        """Change which neighbouring lines of the log are shown as one line (folded). Each call goes
        on to the next of three ways: only equal requests of an access log, then all lines that
        differ only in their numbers, then none. `args` is ignored.
        """
        self.pane.set_filter(fold=_NEXT_FOLD[self.pane.view.fold])
        self.pane.pulse()

    def do_level(self, args: str) -> None:
        """Show only the lines of the level in `args` and of worse ones: "all", "info", "warning" or
        "error". If `args` is something else or empty, take the next of these levels.
        """
        floors = list(LEVELS.values())
        after = (floors.index(self.pane.view.floor) + 1) % len(floors)
        self.pane.set_filter(floor=LEVELS.get(args, floors[after]))
        self.pane.pulse()

    def do_bookmark(self, args: str) -> None:
        """Set a bookmark on the current line, or remove it. The current line is the one pointed at,
        or else the last on the screen. `args` is ignored.
        """
        self.pane.bookmark()
        self.pane.pulse()

    def do_next_bookmark(self, args: str) -> None:
        """Go to the next line below that has a bookmark, and from the last one to the first. A
        message says so if there are no bookmarks. `args` is ignored.
        """
        self.pane.to_bookmark(1)

    def do_previous_bookmark(self, args: str) -> None:
        """Go to the next line above that has a bookmark, and from the first one to the last. A
        message says so if there are no bookmarks. `args` is ignored.
        """
        self.pane.to_bookmark(-1)

    def do_expand(self, args: str) -> None:
        """Open the dialog with the entry of the current line in full: the line with its traceback
        or its JSON. The current line is the one pointed at, or else the last on the screen. `args`
        is ignored.
        """
        self.pane.open_entry()

    def do_copy(self, args: str) -> None:
        """Copy the lines on the screen to the clipboard. A message says how many there are, and
        whether some were too long and were cut. `args` is ignored.
        """
        lines = self.pane.view.to_copy()
        text = "\n".join(lines)
        said = f"Copied the {count(len(lines), 'line')} on the screen, "
        said += count(len(text), "character")
        if long := sum(len(line) > LINE_CELLS for line in lines):
            key = self._app.keys["copy-entry"]
            said += f"; {long} of them cut at {LINE_CELLS:,}, {key} copies one whole"
        self._app.copy(text, f"{said}.")

    def do_copy_entry(self, args: str) -> None:
        """Copy the entry of the current line to the clipboard: the line with its traceback or its
        JSON. A message says so if a part of it is only on the pod. `args` is ignored.
        """
        lines = self.pane.entry_text()
        text = "\n".join(lines)
        said = f"Copied the entry, {count(len(lines), 'line')}, {count(len(text), 'character')}"
        if missing := self.pane.entry_missing():
            said += f", but {missing:,} bytes of it are only on the pod"
        self._app.copy(text, f"{said}.")
