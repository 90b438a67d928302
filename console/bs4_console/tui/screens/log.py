"""The log screen: one source of a run, or all sources merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.widget import Widget

from bs4_console.pods.state import PodState
from bs4_console.pods.streams import file_stream
from bs4_console.tui import commands, formatting
from bs4_console.tui.screens.base import ConsoleScreen, Subject
from bs4_console.tui.widgets.log_commands import LogCommands
from bs4_console.tui.widgets.log_pane import LogPane
from bs4_console.tui.widgets.moment_commands import EXACT_S, MomentCommands

#: Seconds from the time of a line to the end of the second in which it was written.
WITHIN_S = 0.99


class LogScreen(MomentCommands, LogCommands, ConsoleScreen):
    """The log of the run with the name `run` on `pod`, on the whole screen. `source` is the source
    that is shown, for example "trainer"; None merges all sources. `at` is the place in the source's
    log at which it is opened, as the cursor "GENERATION:OFFSET" (the number of the log file, and a
    byte in it); None opens its end.
    """

    place: ClassVar[str] = commands.LOG

    def __init__(
        self, pod: PodState, run: str, source: str | None = None, at: str | None = None
    ) -> None:
        super().__init__()
        self.pod, self.run_name, self._source, self._at = pod, run, source, at

    def body(self) -> Iterable[Widget]:
        """Yield the widget with the log."""
        yield LogPane(self.pod, self.run_name, self._source, self._at)

    def on_mount(self) -> None:
        """If the screens show a past moment (the time cursor is set), show the log at that moment,
        unless the screen was opened at a place of the log.
        """
        if self.cursor.at is not None and self._at is None:
            self.call_after_refresh(self.moment_moved)

    @property
    def pane(self) -> LogPane:  # type: ignore[override]
        """Return the widget with the log, its title line and its commands."""
        return self.query_one(LogPane)

    def main(self) -> Widget:
        """Return the widget with the lines of the log, which has the focus."""
        return self.pane.view

    def trail(self) -> Sequence[str]:
        """Return the breadcrumb of this screen for the top bar: fleet, pod, run and "logs"."""
        return ("fleet", self.pod.name, self.run_name, "logs")

    def subject(self) -> Subject:
        """Return the pod and the run of the log. The run is None if the pod does not know it."""
        return Subject(self.pod, self.pod.runs.get(self.run_name))

    def pulse(self) -> None:
        """Paint the lines of the log that have changed, and its title line. The app calls this at
        every repaint, ten times a second or four times over SSH.
        """
        self.pane.pulse()

    def hints(self, command: commands.Command) -> bool:
        """Return True if the key bar at the bottom may offer `command` now. Every command is
        offered except "logs", "open" and "stop", which would push the keys of the log out of a bar
        of 80 columns.
        """
        return command.id not in ("logs", "open", "stop")

    # -- the time cursor

    def moment_start(self) -> float | None:
        """Begin to find out from the pod when the current line was written (the line pointed at, or
        else the last on the screen). Always returns None, because that is not known yet. When the
        pod has answered, the time cursor (the past moment that all screens show) is set to that
        time; if the time cannot be told, a message says so.
        """
        self.console_app.spawn("time of the line", self._start_here())
        return None

    async def _start_here(self) -> None:
        """Set the time cursor to when the current line was written. The log stays where it is,
        because it shows that moment already.
        """
        run = self.pod.runs.get(self.run_name)
        offset = self.pod.link.clock_offset or 0.0
        attempts = run.view.attempts.values() if run else ()
        begin = min((attempt.started_t for attempt in attempts), default=0.0)
        t = await self.pane.time_here(begin, self.moment_end() + offset)
        if t is None:
            self.console_app.say(
                "There is no line here whose time could be told.", severity="warning"
            )
            return
        # The end of the second that the line shows, because the record of a step may be from later
        # in that second.
        if abs(t - round(t)) < EXACT_S:
            t = round(t) + WITHIN_S
        self.cursor.at = at = t - offset
        self.redraw()
        self.console_app.say(
            f"The time cursor is at {formatting.of_day(at, seconds=True)}: curves, GPUs and host "
            "show it too."
        )

    def moment_moved(self) -> None:
        """Show the lines around the moment of the time cursor (the past moment that all screens
        show), or the end of the log if the screens show the present.
        """
        t = self.cursor.of(self.pod)
        if t is None:
            self.pane.open(self.pane.source)
        else:
            self.pane.show_at(float(int(t + EXACT_S)))
        self.redraw()

    # -- commands

    def do_back(self, args: str) -> None:
        """Remove the filter if there is one, otherwise close the page. `args` is ignored."""
        if self.pane.view.filter_text:
            self.pane.set_filter("")
        else:
            self.console_app.do_back("")

    def do_source(self, args: str) -> None:
        """Show the log's source in `args`, for example "trainer". If `args` is empty, show the next
        source; after the last source come all sources merged.
        """
        if args:
            self.do_logs(args)
            return
        ring: list[str | None] = [None, *self.pane.sources()]
        here = ring.index(self.pane.source) if self.pane.source in ring else 0
        self.pane.open(ring[(here + 1) % len(ring)])

    def do_logs(self, args: str) -> None:
        """Show the source in `args`, for example "trainer", or all sources merged if `args` is
        empty. If `args` is the path of a file on the pod (it begins with "/" or "~/"), open that
        file. If the run has no such source, a message says so.
        """
        if args.startswith(("/", "~/")):
            self.console_app.open_file(self.pod, args)
            return
        names = self.pane.sources()
        if args and args not in names:
            self.console_app.say(
                f"{self.run_name} has no log {args}; there are {', '.join(names) or 'none'}.",
                severity="warning",
            )
            return
        self.pane.open(args or None)

    def do_open(self, args: str) -> None:
        """Open the dialog with the log entry of the current line in full. `args` is ignored."""
        self.do_expand(args)


class FilePane(LogPane):
    """A log widget that shows the file with the path `path` on `pod` instead of the log of a run.
    It has the methods of the log widget; where those take the name of a run's log, this one takes
    the path. Its title line begins with `NOUN`.
    """

    NOUN = "file"

    def __init__(self, pod: PodState, path: str) -> None:
        super().__init__(pod, path, path)

    def stream_of(self, source: str) -> str:
        """Return the name under which the pod's agent sends the content of the file with the path
        `source`.
        """
        return file_stream(source)

    def streams(self) -> list[str]:
        """Return a list with one entry: the name under which the pod's agent sends the content of
        the file.
        """
        return [file_stream(self.run)]


class FileScreen(LogScreen):
    """The file with the path `path` on `pod`, shown like a log. The file belongs to no run."""

    def __init__(self, pod: PodState, path: str) -> None:
        super().__init__(pod, "", path)
        self.path = path

    def body(self) -> Iterable[Widget]:
        """Yield the widget with the file."""
        yield FilePane(self.pod, self.path)

    def trail(self) -> Sequence[str]:
        """Return the breadcrumb of this screen for the top bar: fleet, pod and the file's path."""
        return ("fleet", self.pod.name, self.path)

    def subject(self) -> Subject:
        """Return the pod of the file. The run is None."""
        return Subject(self.pod)

    def hints(self, command: commands.Command) -> bool:
        """Return True if the key bar at the bottom may offer `command` now. The commands that a
        log's screen leaves out are left out here too, and so is the one that changes the source,
        because a file has only one.
        """
        return command.id != "source" and super().hints(command)

    def without(self, need: str) -> str:
        """Return the sentence to show if a command cannot be used here because it lacks something.
        `need` says what it lacks, for example "run". If that is a run or an incident, the sentence
        says that this screen shows a file, which belongs to no run.
        """
        if need in ("run", "incident"):
            return "This is a file, and of no run."
        return super().without(need)

    def do_source(self, args: str) -> None:
        """Show a message that a file has no other sources. `args` is ignored."""
        self.console_app.say("This is one file; :file PATH opens another.")
