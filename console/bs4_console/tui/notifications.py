"""Notifications of the console: toasts and the list of messages, the clipboard, and background work
whose errors become messages.
"""

from __future__ import annotations

import os
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.events import Event, Key
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from bs4_console.errors import ConsoleError
from bs4_console.printable import blanked
from bs4_console.secret import redacted
from bs4_console.tui.clipboard import copy
from bs4_console.tui.clock import Clock
from bs4_console.tui.screens.messages import KEPT, Said

if TYPE_CHECKING:
    from bs4_console.pods.state import ActionView


#: Seconds for which a message stands above the key bar.
NEWS_S = 8.0


@dataclass(frozen=True)
class News:
    """A message to the person (`text`) that stands above the key bar. `severity` is "information"
    or "warning" and decides its colour. It is taken away when this machine's monotonic clock shows
    `until`, in seconds. Unless it is `lasting`, the next key takes a warning away.
    """

    text: str
    severity: SeverityLevel
    until: float
    lasting: bool = False


class Notifications(App[int]):
    """The part of the app that shows messages to the person, asks for confirmations, copies to the
    clipboard and runs background work.
    """

    clock: Clock

    def __init__(self, *, ansi_color: bool | None) -> None:
        super().__init__(ansi_color=ansi_color)
        self.messages: deque[Said] = deque(maxlen=KEPT)
        self._news: News | None = None
        self._after_failure: dict[str, Callable[[], None]] = {}

    def say(
        self,
        text: str,
        more: str = "",
        severity: SeverityLevel = "information",
        *,
        lasting: bool = False,
    ) -> None:
        """Show a message, and add it to the list of messages. `text` is what happened, and `more` a
        detail or what to do next, or "". An error (`severity` "error") is shown as a toast.
        Information and warnings stand in the line above the key bar, where they cover nothing, for
        NEWS_S (8) seconds or until another screen is shown. A warning mostly says why a key or
        command did nothing: the next key takes it away, unless it is `lasting`, because it tells of
        something that has happened by itself.
        """
        text, more = redacted(text), redacted(more)
        self.messages.append(Said(self.clock.wall(), severity, text, more))
        shown = blanked(f"{text} {more}".strip())
        if severity == "error":
            self.notify(shown, severity=severity, markup=False)
            return
        self._news = News(shown, severity, self.clock.mono() + NEWS_S, lasting)
        self.show_news()

    async def on_event(self, event: Event) -> None:
        """Handle an event of the terminal. A key first takes away the warning that answered the
        last one.
        """
        pressed = isinstance(event, Key) and not event.is_forwarded
        if pressed and self._news is not None and self._news.severity == "warning":
            self.forget_line()
        await super().on_event(event)

    @property
    def news(self) -> News | None:
        """Return the message that stands above the key bar now, or None."""
        if self._news is not None and self.clock.mono() >= self._news.until:
            self._news = None
        return self._news

    def show_news(self) -> None:
        """Draw the newest message in the line above the key bar. Here nothing is drawn; the app
        overrides this, because it has the screens with that line.
        """

    def forget_news(self) -> None:
        """Remove the toasts and the message above the key bar, because another screen is shown."""
        self._news = None
        self.clear_notifications()

    def forget_line(self) -> None:
        """Remove the message above the key bar, because it was about another row or key. Toasts
        stay, and so does a lasting message.
        """
        if self._news is not None and not self._news.lasting:
            self._news = None
            self.show_news()

    def say_end(self, action: ActionView, text: str) -> None:
        """Show `text` as a message if the action has ended: as information if the action was done,
        as an error if it failed. While the action is under way nothing is shown.
        """
        if action.ended:
            self.say(text, severity="information" if action.state == "done" else "error")

    def confirm(
        self, question: Screen[bool], what: str, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Show the dialog `question`. If the person answers yes (True), call `work` and run the
        coroutine that it returns in the background. `what` names the work in the message that is
        shown if it fails.
        """

        def answered(yes: bool | None) -> None:
            if yes:
                self.spawn(what, work())

        self.push_screen(question, answered)

    def copy(self, text: str, said: str) -> None:
        """Copy `text` to the clipboard, and show a message: the sentence `said`, followed by the
        way in which the text was copied, such as tmux's buffer.
        """
        self._clipboard = text
        self.say(said, copy(text, self._to_terminal))

    def _to_terminal(self, sequence: str) -> None:
        if self._driver is not None:
            self._driver.write(sequence)

    def spawn(
        self, what: str, work: Coroutine[Any, Any, None], failed: Callable[[], None] | None = None
    ) -> Worker[None]:
        """Run the coroutine `work` in the background and return its worker. An error of the work
        becomes a message, in which `what` names the work, and never ends the app. After such an
        error `failed` is called, unless it is None.
        """
        worker = self.run_worker(work, name=what, group=what, exit_on_error=False)
        if failed is not None:
            self._after_failure[str(id(worker))] = failed
        return worker

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Handle the end of background work. If the work failed, its error is shown as a message
        and the function `failed` that was given to `spawn` is called.
        """
        worker = event.worker
        # The event's state counts, because the worker may be over by the time that this event says
        # "running".
        if event.state in (WorkerState.SUCCESS, WorkerState.ERROR, WorkerState.CANCELLED):
            failed = self._after_failure.pop(str(id(worker)), None)
            if event.state == WorkerState.ERROR:
                self._worker_failed(worker)
                if failed is not None:
                    failed()

    def _worker_failed(self, worker: Worker[Any]) -> None:
        error = worker.error
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, ConsoleError):
            self.say(error.message, error.next_step, severity="error")
            return
        place = _place(error)
        self.say(
            f"{worker.name}: {type(error).__name__}: {error}{place}",
            "This is a fault of the console; please report it.",
            severity="error",
        )

    def not_drawn(self, what: str, error: Exception) -> None:
        """Show a message that the part of the screen that `what` names cannot be drawn because of
        `error`. A message that was shown already is not shown again, because the same error comes
        with every repaint.
        """
        text = f"{what} cannot be drawn: {type(error).__name__}: {error}{_place(error)}"
        if not any(said.text == text for said in self.messages):
            self.say(
                text, "A pod sends records of another shape; the rest goes on.", severity="error"
            )


def _place(error: BaseException | None) -> str:
    """Return where the error was raised, for example " at gpus.py:66". Return "" if that is not
    known.
    """
    if error is None or error.__traceback__ is None:
        return ""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f" at {os.path.basename(where.filename)}:{where.lineno}"
