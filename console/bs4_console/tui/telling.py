"""What the console says: toasts and the messages that stay, the clipboard, and work in the
background whose faults become messages.
"""

from __future__ import annotations

import os
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from textual.app import App
from textual.worker import Worker, WorkerState

from bs4_console.errors import ConsoleError
from bs4_console.printable import blanked
from bs4_console.tui.clipboard import copy
from bs4_console.tui.clock import Clock
from bs4_console.tui.screens.messages import KEPT, Said


class Telling(App[int]):
    clock: Clock

    def __init__(self, *, ansi_color: bool | None) -> None:
        super().__init__(ansi_color=ansi_color)
        self.messages: deque[Said] = deque(maxlen=KEPT)
        self._after_failure: dict[str, Callable[[], None]] = {}

    def say(self, text: str, more: str = "", severity: str = "information") -> None:
        """A toast, and a line that stays in the messages."""
        self.messages.append(Said(self.clock.wall(), severity, text, more))
        shown = blanked(f"{text} {more}".strip())
        self.notify(
            shown,
            severity="error"
            if severity == "error"
            else "warning"
            if severity == "warning"
            else "information",
            markup=False,
        )

    def copy(self, text: str, said: str) -> None:
        self._clipboard = text
        self.say(said, copy(text, self._to_terminal))

    def _to_terminal(self, sequence: str) -> None:
        if self._driver is not None:
            self._driver.write(sequence)

    def spawn(
        self, what: str, work: Coroutine[Any, Any, None], failed: Callable[[], None] | None = None
    ) -> Worker[None]:
        """Run `work`; whatever goes wrong in it becomes a message, never the end of the app."""
        worker = self.run_worker(work, name=what, group=what, exit_on_error=False)
        if failed is not None:
            self._after_failure[str(id(worker))] = failed
        return worker

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        worker = event.worker
        # The event's state, not the worker's: by the time that "running" is told here it may be
        # over.
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
        """Said once per fault: it comes back with every tick."""
        text = f"{what} cannot be drawn: {type(error).__name__}: {error}{_place(error)}"
        if not any(said.text == text for said in self.messages):
            self.say(
                text, "A pod sends records of another shape; the rest goes on.", severity="error"
            )


def _place(error: BaseException | None) -> str:
    """at gpus.py:66, where the error was raised."""
    if error is None or error.__traceback__ is None:
        return ""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f" at {os.path.basename(where.filename)}:{where.lineno}"
