"""The line at the bottom that `:`, `/` and `f` open: one input, with what Tab would offer above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from bs4_console.tui.ink import Line, cut
from bs4_console.tui.widgets.panel import Panel

Completer = Callable[[str], Sequence[str]]

HINTS = {
    ":": "type a command, Tab completes, Enter runs it, Esc leaves",
    "/": "show what matches; ! in front hides it; && joins several; Enter keeps it, Esc takes it away",
    "hide ": "leave out what matches, beside the filter that is set; Enter keeps it, Esc takes it away",
    "find ": "mark what matches; then n and N go from one to the next, through all of the log",
    "highlight ": "keep what matches marked; && joins several; empty marks nothing",
    "note ": "a line for the pod's journal, with your name; Enter writes it there, Esc leaves",
    "go ": "a line 12345, 50%, a time 21:14:05, -5m or +1h from here, 2026-11-20 21:14",
}


class PromptInput(Input):
    """Input with history on the arrows and completion on Tab."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "older", "Earlier", show=False, id="prompt.older"),
        Binding("down", "newer", "Later", show=False, id="prompt.newer"),
        Binding("tab", "complete", "Complete", show=False, id="prompt.complete"),
        Binding("escape", "leave", "Leave", show=False, id="prompt.leave"),
    ]

    def action_older(self) -> None:
        self.post_message(Prompt.Asked(-1))

    def action_newer(self) -> None:
        self.post_message(Prompt.Asked(1))

    def action_complete(self) -> None:
        self.post_message(Prompt.Asked(0))

    def action_leave(self) -> None:
        self.post_message(Prompt.Left())


class Prompt(Vertical):
    """Hidden until `ask`. Posts Changed on every letter, Entered on Enter, Cancelled on Esc."""

    DEFAULT_CSS = """
    Prompt { height: 2; display: none; background: $panel; }
    Prompt #offers { height: 1; }
    Prompt Horizontal { height: 1; }
    Prompt #sign { height: 1; width: auto; }
    Prompt Input { height: 1; width: 1fr; border: none; padding: 0; background: $panel; }
    Prompt Input:focus { border: none; background-tint: transparent; }
    """

    class Asked(Message):
        """Input to prompt: history (-1, 1) or completion (0)."""

        def __init__(self, what: int) -> None:
            super().__init__()
            self.what = what

    class Left(Message):
        """Input to prompt: Esc."""

    # Siblings: a handler of a message gets those of its subclasses too, and Esc must not come as another letter behind itself.
    class Said(Message):
        def __init__(self, kind: str, text: str) -> None:
            super().__init__()
            self.kind, self.text = kind, text

    class Changed(Said):
        """A letter more or less."""

    class Entered(Said):
        """Enter."""

    class Cancelled(Said):
        """Esc; `text` is what the prompt was opened with."""

    def __init__(self) -> None:
        super().__init__()
        self.kind = ""
        self._initial = ""
        self._complete: Completer = lambda text: ()
        self._history: dict[str, list[str]] = {}
        self._back = 0

    def compose(self) -> ComposeResult:
        yield Panel(id="offers")
        with Horizontal():
            yield Panel(id="sign")
            yield PromptInput(compact=True, select_on_focus=False)

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def field(self) -> PromptInput:
        return self.query_one(PromptInput)

    def ask(self, kind: str, initial: str = "", complete: Completer | None = None) -> None:
        self.kind, self._initial, self._back = kind, initial, 0
        self._complete = complete or (lambda text: ())
        self.display = True
        sign = self.query_one("#sign", Panel)
        sign.styles.width = len(kind) + 1
        sign.show([[(f" {kind}", "key")]])
        with self.prevent(Input.Changed):
            self.field.value = initial
        self.field.cursor_position = len(initial)
        # At once, not with the next message as Widget.focus() does: what is typed right behind the `:` belongs in here.
        self.screen.set_focus(self.field)
        self._tell()

    def complain(self, sentence: str) -> None:
        """Stays open with the reason above the line."""
        self.query_one("#offers", Panel).show([cut([(f" {sentence}", "bad")], self.size.width)])

    def close(self) -> None:
        self.display = False

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._tell()
        self.post_message(self.Changed(self.kind, event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        history = self._history.setdefault(self.kind, [])
        if event.value and (not history or history[-1] != event.value):
            history.append(event.value)
        self.post_message(self.Entered(self.kind, event.value))

    @on(Left)
    def _left(self, event: Left) -> None:
        event.stop()
        self.close()
        self.post_message(self.Cancelled(self.kind, self._initial))

    @on(Asked)
    def _asked(self, event: Asked) -> None:
        event.stop()
        if event.what == 0:
            self._complete_now()
            return
        history = self._history.get(self.kind, [])
        self._back = min(max(self._back - event.what, 0), len(history))
        self.field.value = history[-self._back] if self._back else ""
        self.field.cursor_position = len(self.field.value)

    def _complete_now(self) -> None:
        offers = list(self._complete(self.field.value))
        if not offers:
            return
        common = offers[0] if len(offers) == 1 else _common(offers)
        head = self.field.value.rpartition(" ")[0]
        text = f"{head} {common}".lstrip() if head else common
        self.field.value = text + (" " if len(offers) == 1 else "")
        self.field.cursor_position = len(self.field.value)

    def _tell(self) -> None:
        line: Line = [(" ", "")]
        offers = list(self._complete(self.field.value))[:12] if self.field.value else []
        line += [(f"{offer}  ", "accent") for offer in offers] or [(HINTS.get(self.kind, ""), "dim")]
        self.query_one("#offers", Panel).show([cut(line, max(20, self.size.width or self.app.size.width))])


def _common(offers: Sequence[str]) -> str:
    """The longest beginning that all share."""
    first, last = min(offers), max(offers)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:length]
