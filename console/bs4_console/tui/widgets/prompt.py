"""The prompt at the bottom that `:`, `/` and `f` open: an input line, with what Tab offers above
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input
from textual.widgets.input import Selection

from bs4_console.tui import commands
from bs4_console.tui.styled_text import Line, cut
from bs4_console.tui.widgets.field import Field
from bs4_console.tui.widgets.panel import Panel

Completer = Callable[[str], Sequence[str]]
PromptKind = Literal[":", "/", "hide ", "find ", "highlight ", "note ", "go ", "at "]
"""What the line is opened for, as it stands before the cursor."""
#: Kinds whose initial text is selected: a letter replaces it, an arrow keeps it.
SELECTED = ("find ",)
#: Most offers that are shown.
OFFERED = 12

HINTS: dict[PromptKind, str] = {
    ":": "type a command, Tab completes, Enter runs it, Esc leaves",
    "/": (
        "show what matches; ! in front hides it; && joins several; Enter keeps it, Esc takes it "
        "away"
    ),
    "hide ": (
        "leave out what matches, beside the filter that is set; Enter keeps it, Esc takes it away"
    ),
    "find ": "mark what matches; then n and N go from one to the next, through all of the log",
    "highlight ": "keep what matches marked; && joins several; empty marks nothing",
    "note ": "a line for the pod's journal, with your name; Enter writes it there, Esc leaves",
    "go ": "a line 12345, 50%, a time 21:14:05, -5m or +1h from here, 2026-11-20 21:14",
    "at ": "a time 21:14, -15m or +1h from there, the number of a step, or now",
}


class PromptInput(Field):
    """The input field of the prompt. The arrows bring back earlier texts, and Tab completes the
    text.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "ask(-1)", "Earlier", show=False, id="prompt.older"),
        Binding("down", "ask(1)", "Later", show=False, id="prompt.newer"),
        Binding("tab", "ask(0)", "Complete", show=False, id="prompt.complete"),
        Binding("escape", "leave", "Leave", show=False, id="prompt.leave"),
    ]

    def action_ask(self, what: int) -> None:
        """Post a message to the prompt that asks for an earlier text if `what` is -1, for a later
        one if it is 1, or for the completion of the text if it is 0.
        """
        self.post_message(Prompt.Asked(what))

    def action_leave(self) -> None:
        """Tell the prompt that Esc was pressed in its field."""
        self.post_message(Prompt.Left())


class Prompt(Vertical):
    """The line at the bottom of a screen in which commands, filters and the like are typed. It is
    hidden until its method `ask` is called. It posts Changed when the text has changed, Entered on
    Enter and Cancelled on Esc.
    """

    DEFAULT_CSS = """
    Prompt { height: 2; display: none; background: $panel; }
    Prompt #offers { height: 1; }
    Prompt Horizontal { height: 1; }
    Prompt #sign { height: 1; width: auto; }
    Prompt Input { height: 1; width: 1fr; border: none; padding: 0; background: $panel; }
    Prompt Input:focus { border: none; background-tint: transparent; }
    """

    class Asked(Message):
        """Posted by the input field when it needs the prompt: `what` is -1 for an earlier text, 1
        for a later one, and 0 to complete the text.
        """

        def __init__(self, what: int) -> None:
            super().__init__()
            self.what = what

    class Left(Message):
        """Posted by the input field when Esc was pressed."""

    # These are siblings, because a handler of a message also gets its subclasses. Esc must not be
    # handled as another letter.
    class Said(Message):
        """The base of the messages that the prompt posts. `kind` is what the prompt was opened for,
        for example "/", and `text` what is typed in it.
        """

        def __init__(self, kind: str, text: str) -> None:
            super().__init__()
            self.kind, self.text = kind, text

    class Changed(Said):
        """Posted when the text of the prompt has changed."""

    class Entered(Said):
        """Posted when Enter was pressed in the prompt."""

    class Cancelled(Said):
        """Posted when Esc was pressed in the prompt. `text` is the text with which the prompt was
        opened.
        """

    def __init__(self) -> None:
        super().__init__()
        self.kind: PromptKind = ":"
        self._initial = ""
        self._complete: Completer = lambda text: ()
        self._history: dict[str, list[str]] = {}
        self._back = 0
        self._tabbed: str | None = None
        """The text for which Tab was pressed while no offers were known, or None."""

    def compose(self) -> ComposeResult:
        """Yield the line with what Tab offers, the sign before the text, and the input field."""
        yield Panel(id="offers")
        with Horizontal():
            yield Panel(id="sign")
            yield PromptInput(compact=True, select_on_focus=False)

    @property
    def is_open(self) -> bool:
        """Return True while the prompt is shown."""
        return bool(self.display)

    @property
    def _width(self) -> int:
        """Return the width in cells. Before the first layout it is estimated."""
        return max(20, self.size.width or self.app.size.width)

    @property
    def field(self) -> PromptInput:
        """Return the prompt's input field."""
        return self.query_one(PromptInput)

    def ask(self, kind: PromptKind, initial: str = "", complete: Completer | None = None) -> None:
        """Open the prompt and give it the focus. `kind` is what is typed in it, and stands before
        the text, for example "/" for a filter. `initial` is the text at first. `complete` returns
        the texts that Tab offers for the text so far; None offers nothing.
        """
        self.kind, self._initial, self._back, self._tabbed = kind, initial, 0, None
        self._complete = complete or (lambda text: ())
        self.display = True
        sign = self.query_one("#sign", Panel)
        sign.styles.width = len(kind) + 1
        sign.show([[(f" {kind}", "key")]])
        with self.prevent(Input.Changed):
            self.field.value = initial
        self.field.selection = Selection(0 if kind in SELECTED else len(initial), len(initial))
        # Focus at once, and not with the next message like Widget.focus(), because what is typed
        # right after the `:` belongs here.
        self.screen.set_focus(self.field)
        self._tell()

    def complain(self, sentence: str) -> None:
        """Show `sentence`, which says what is wrong with the text, above the text. The prompt stays
        open.
        """
        self.query_one("#offers", Panel).show([cut([(f" {sentence}", "bad")], self._width)])

    def refuse(self, sentence: str) -> None:
        """Show `sentence`, which says why the text that was entered cannot be carried out. The
        prompt stays open and its text is selected: a letter replaces it, an arrow keeps it.
        """
        self.complain(sentence)
        self.field.selection = Selection(0, len(self.field.value))

    def known(self, complaint: str = "") -> None:
        """Complete the text of the prompt again, because the pod has now answered the query that
        Tab has sent. If the pod could not answer, `complaint` says why and is shown instead; if it
        could, `complaint` is "".
        """
        if complaint:
            self.complain(complaint)
        elif self._tabbed == self.field.value:
            self._complete_now()
        self._tabbed = None
        if not complaint:
            self._tell()

    def close(self) -> None:
        """Hide the prompt."""
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
            self._tabbed = self.field.value
            if self.kind == ":" and " " not in self.field.value:
                self.complain(f"No command here begins with {self.field.value!r}.")
            return
        completed = _common(offers)
        # After a directory more is typed.
        if len(offers) == 1 and not completed.endswith("/"):
            completed += " "
        # Everything after the command is one argument, because a path may have spaces.
        word, space, _ = self.field.value.partition(" ")
        self.field.value = f"{word} {completed}" if space else completed
        self.field.cursor_position = len(self.field.value)

    def _tell(self) -> None:
        line: Line = [(" ", "")]
        offers = list(self._complete(self.field.value)) if self.field.value else []
        if len(offers) > OFFERED:
            line += [(f"{len(offers):,} names  ", "dim")]
        for offer in offers[:OFFERED]:
            line.append((f"{_last(offer, self.field.value)}  ", "accent"))
        if not offers:
            line += self._hint()
        self.query_one("#offers", Panel).show([cut(line, self._width)])

    def _hint(self) -> Line:
        """Return what may be typed now. After a command's name that is what may follow it."""
        if self.kind == ":" and " " in self.field.value:
            command, _ = commands.parse(self.field.value)
            if command is not None and command.args:
                return [(f"{command.args}  ", "accent"), (command.help, "dim")]
        return [(HINTS[self.kind], "dim")]


def _last(offer: str, typed: str) -> str:
    """Return the offer without the directory that was typed already."""
    argument = typed.partition(" ")[2]
    typed_directory = argument[: argument.rfind("/") + 1]
    if typed_directory and offer.startswith(typed_directory) and offer != typed_directory:
        return offer[len(typed_directory) :]
    return offer


def _common(offers: Sequence[str]) -> str:
    """Return the longest beginning that all offers share."""
    pairs = zip(min(offers), max(offers), strict=False)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
