"""The log on the whole screen: one source or all of a run merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.widget import Widget

from bs4_console.core.state import PodState
from bs4_console.tui import commands
from bs4_console.tui.screens.base import ConsoleScreen, Subject
from bs4_console.tui.widgets.log_commands import LogCommands
from bs4_console.tui.widgets.log_pane import LogPane


class LogScreen(LogCommands, ConsoleScreen):
    place: ClassVar[str] = commands.LOG

    def __init__(self, pod: PodState, run: str, source: str | None = None, at: str | None = None) -> None:
        super().__init__()
        self.pod, self.run_name, self._source, self._at = pod, run, source, at

    def body(self) -> Iterable[Widget]:
        yield LogPane(self.pod, self.run_name, self._source, self._at)

    @property
    def pane(self) -> LogPane:  # type: ignore[override]
        return self.query_one(LogPane)

    def main(self) -> Widget:
        return self.pane.view

    def trail(self) -> Sequence[str]:
        return ("fleet", self.pod.name, self.run_name, "logs")

    def subject(self) -> Subject:
        return Subject(self.pod, self.pod.runs.get(self.run_name))

    def pulse(self) -> None:
        self.pane.pulse()

    def hints(self, command: commands.Command) -> bool:
        return command.id not in ("logs", "open")

    # -- commands

    def do_source(self, args: str) -> None:
        names = [stream.rpartition("/")[2] for stream in self.pane.streams()]
        if args:
            self.do_logs(args)
            return
        ring: list[str | None] = [None, *names]
        here = ring.index(self.pane.source) if self.pane.source in ring else 0
        self.pane.open(ring[(here + 1) % len(ring)])

    def do_logs(self, args: str) -> None:
        names = [stream.rpartition("/")[2] for stream in self.pane.streams()]
        if args and args not in names:
            self.console_app.say(f"{self.run_name} has no log {args}; there are {', '.join(names) or 'none'}.", severity="warning")
            return
        self.pane.open(args or None)

    def do_open(self, args: str) -> None:
        self.do_expand(args)

    def do_incident(self, args: str) -> None:
        self.console_app.open_incident(self.subject(), args)

    def do_copy(self, args: str) -> None:
        self.console_app.copy(self.pane.view.visible_text(), "Copied the visible log lines.")
