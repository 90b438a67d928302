"""The screen of one run: its progress, curves, GPUs, incidents, and its logs as they come."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from textual.timer import Timer
from textual.widget import Widget

from bs4_console.pods.state import PodState, RunState
from bs4_console.tui import commands, status
from bs4_console.tui.checkpoint_line import CheckpointLine
from bs4_console.tui.screens.base import ConsoleScreen, Subject
from bs4_console.tui.screens.log import LogScreen
from bs4_console.tui.styled_text import Line
from bs4_console.tui.views import doing, gpus, notes, store
from bs4_console.tui.views import run as view
from bs4_console.tui.views.moment import moment_line
from bs4_console.tui.widgets.curve_commands import OF_CURVES, CurveCommands
from bs4_console.tui.widgets.curve_data import Other
from bs4_console.tui.widgets.curves import Band, charts, large, legend
from bs4_console.tui.widgets.log_commands import LogCommands
from bs4_console.tui.widgets.log_pane import LogPane
from bs4_console.tui.widgets.moment_commands import EXACT_S, MomentCommands, step_times
from bs4_console.tui.widgets.panel import Panel

#: Least rows of the screen for giving each GPU its own line, and for tall curves.
ROOMY, TALL = 34, 50
#: Seconds after which the log follows the time cursor.
LOG_DELAY_S = 0.25
#: Commands that are not offered while the curves take the log's place.
OF_LOGS = frozenset(c.id for c in commands.COMMANDS if c.where == {commands.RUN, commands.LOG})


class RunScreen(MomentCommands, CurveCommands, LogCommands, ConsoleScreen):
    """The screen of the run `run` of `pod` with its curves, GPUs and log, as they are now or as
    they were at the time cursor (the past moment that all screens show).
    """

    place: ClassVar[str] = commands.RUN
    DEFAULT_CSS = """
    RunScreen #curves { padding: 0 1; }
    """

    def __init__(self, pod: PodState, run: RunState) -> None:
        super().__init__()
        self.pod, self.run_name = pod, run.name
        self._last = run
        self._drawn_curves: tuple[object, ...] = ()
        self.bands: Mapping[str, Band] = {}
        self._step_times: tuple[object, dict[int, float]] = (None, {})
        self._log_timer: Timer | None = None
        self._log_at: float | None = None
        """The moment of the time cursor that the log shows."""

    def body(self) -> Iterable[Widget]:
        """Yield the panels with the run's header, alarms, curves, GPUs and host, and below them its
        log.
        """
        yield Panel(id="header")
        yield Panel(id="alarm")
        yield Panel(id="curves")
        yield Panel(id="gpus")
        yield Panel(id="host")
        yield LogPane(self.pod, self.run_name)

    def on_mount(self) -> None:
        """Load the healthy ranges that the curves show. If the screens show a past moment, show the
        log at that moment.
        """
        self.bands = self.load_bands()
        self._checkpoints = CheckpointLine(self.console_app, self.pod, self.run_name)
        if self.cursor.at is not None:
            self.call_after_refresh(self.moment_moved)

    @property
    def pane(self) -> LogPane:  # type: ignore[override]
        """Return the widget with the run's log, its title line and its commands."""
        return self.query_one(LogPane)

    @property
    def run_state(self) -> RunState:
        """Return the run as the pod has it now. If it was removed from the pod, it is returned as
        it was last.
        """
        self._last = self.pod.runs.get(self.run_name, self._last)
        return self._last

    def main(self) -> Widget:
        """Return the widget with the lines of the log, which has the focus."""
        return self.pane.view

    def trail(self) -> Sequence[str]:
        """Return the breadcrumb of this screen for the top bar: fleet, pod and run."""
        return ("fleet", self.pod.name, self.run_name)

    def subject(self) -> Subject:
        """Return the pod and the run of the screen."""
        return Subject(self.pod, self.run_state)

    def draw(self) -> None:
        """Redraw all panels but the log. On a terminal with few rows the panels show less."""
        app, run, (width, height) = self.console_app, self.run_state, self.size
        small = height < 30
        self.query_one("#header", Panel).show(view.header(self.pod, run, app.clock, width))
        alarm = self._alarm(run, width, 1 if small else 3)
        if others := self.others():
            alarm.append(legend(others, app.keys, width))
            alarm += self.setting_lines(width)
        self.query_one("#alarm", Panel).show(alarm)
        for name in ("#gpus", "#host", "LogPane"):
            self.query_one(name).display = not self.curves_large
        if self.curves_large:
            self._draw_large(run, others, width - 2, height - 4 - len(alarm))
            return
        tall, most = 7, 9
        if small:
            tall, most = 4, 5
        elif height >= TALL:
            tall, most = 10, 17
        self._draw_curves(run, others, width - 2, tall)
        compact = height < ROOMY or width < 90
        self.query_one("#gpus", Panel).show(self._gpu_lines(width, compact=compact)[:most])
        lines = self._host_lines(run, width)
        if self.cursor.at is None:
            if not small and (kept := self._checkpoints.line(width)):
                lines.append(kept)
            shown = not small or store.wrong(self.pod, run.name)
            if shown and (kept := store.line(self.pod, run.name, app.clock, width)):
                lines.append(kept)
            lines += doing.lines(self.pod, run.name, app.clock, width, 1 if small else 2)
        if not small and (said := notes.newest(run.view.notes, width, 1)):
            lines.append(said)
        self.query_one("#host", Panel).show(lines)

    def _alarm(self, run: RunState, width: int, most: int) -> list[Line]:
        """Return what is wrong now, or what was wrong at the time cursor and where that is."""
        app, t = self.console_app, self.cursor.of(self.pod)
        if t is None:
            return view.alarm_lines(self.pod, run, app.clock, app.keys, width, most)
        times, step = self.step_times(), self.moment
        exact = step in times and abs(times[step] - t) <= EXACT_S
        local = t - self.cursor.offset(self.pod)
        where = moment_line(
            local, app.clock, app.keys, width, step=step if step in times else None, exact=exact
        )
        return [*view.alarm_lines_then(self.pod, run, t, app.keys, width, most), where]

    def _gpu_lines(self, width: int, *, compact: bool) -> list[Line]:
        if self.cursor.at is None:
            return gpus.lines(self.pod, self.console_app.clock, width, compact=compact)
        return gpus.lines_then(
            self.cursor.sample(self.pod),
            width,
            compact=compact,
            reading=self.cursor.waits(self.pod),
        )

    def _host_lines(self, run: RunState, width: int) -> list[Line]:
        if self.cursor.at is None:
            clock = self.console_app.clock
            return [
                view.host_line(self.pod, clock, width),
                view.components_line(self.pod, run, clock, width),
            ]
        sample = self.cursor.sample(self.pod)
        return [view.host_line_then(sample, width), view.components_then(sample, run, width)]

    def _draw_curves(self, run: RunState, others: Sequence[Other], width: int, height: int) -> None:
        """Draw the small curves if a step came. Four curves over 20,000 steps take 30 ms."""
        if self._curves_changed(run, others, width, height):
            self.query_one("#curves", Panel).show(
                charts(run, width, height, self.moment, self.curve_view, self.bands, others)
            )

    def _draw_large(self, run: RunState, others: Sequence[Other], width: int, height: int) -> None:
        newest = int(self.pod.latest.get("t") or 0)
        samples = (
            self.cursor.stretch(self.pod, *self._shown_times(newest))
            if run.trainer_steps
            else list(self.pod.telemetry)
        )
        note = "reading telemetry of then…" if self.cursor.fetches(self.pod) else ""
        if self._curves_changed(
            run, others, width, height, self.curves_only, len(samples), newest // 5, note
        ):
            lines = large(
                run,
                samples,
                width,
                height,
                self.moment,
                self.curve_view,
                self.bands,
                self.curves_only,
                others,
                note,
            )
            self.query_one("#curves", Panel).show(lines)

    def _shown_times(self, newest: float) -> tuple[float, float]:
        """Return the pod's times, in seconds since the epoch, at which the first shown step began
        and the last one ended.
        """
        begin, end = self.curve_view.window(*self._steps(), self.moment)
        times = self.step_times()
        shown = [t for step, t in times.items() if begin - 1 <= step <= end]
        if not shown:
            return newest, newest
        first, last = min(shown), max(shown)
        if begin == min(times):
            first -= self.run_state.step_seconds() or 0.0
        if end >= max(times):
            # What the GPUs did after the run had ended was not done by it.
            last = (max(newest, last) if self.run_state.alive else last) + 1.0
        return first, last

    def _curves_changed(self, run: RunState, others: Sequence[Other], *shown: object) -> bool:
        steps = (
            id(run),
            len(run.trainer_steps),
            len(run.orchestrator_steps),
            run.step_seen,
            run.step,
        )
        compared = tuple((other.letter, other.name, id(other.run), other.steps) for other in others)
        before, self._drawn_curves = (
            self._drawn_curves,
            (*steps, compared, *shown, self.curves_large, self.moment, self.curve_view),
        )
        return before != self._drawn_curves

    # -- the time cursor

    @property
    def moment(self) -> int | None:
        """Return the newest training step that had ended at the moment of the time cursor (the past
        moment that all screens show). Return None if the screens show the present. If no step had
        ended at that moment, return the number of the first step minus 1.
        """
        t = self.cursor.of(self.pod)
        if t is None:
            return None
        times = self.step_times()
        steps = list(times) or [1]
        at = bisect_right(list(times.values()), t + EXACT_S)
        return steps[at - 1] if at else steps[0] - 1

    def step_times(self) -> dict[int, float]:
        """Return when each training step of the run ended, as {step: Unix time in seconds by the
        pod's clock}. The result is cached until another step is recorded, because it takes 20 ms
        for 20,000 steps and one draw needs it several times.
        """
        run = self.run_state
        key = (id(run), len(run.trainer_steps), run.step_seen, run.step)
        if self._step_times[0] != key:
            self._step_times = (key, step_times(run))
        return self._step_times[1]

    def moment_start(self) -> float | None:
        """Return where the time cursor (the past moment that all screens show) is put first: at the
        end of the newest step, as a Unix time in seconds by this machine's clock. If no step has
        ended, return None and show a message.
        """
        times = self.step_times()
        if times:
            return self.time_of_step(max(times))
        self.console_app.say(
            "No step is done yet, so there is no moment to go to; "
            f"{self.console_app.keys['time']} goes to a time.",
            severity="warning",
        )
        return None

    def moment_moved(self) -> None:
        """Show everything at the new moment of the time cursor (the past moment that all screens
        show). Only the log follows later, LOG_DELAY_S (0.25) seconds after the last move, because
        the pod has to be queried for it.
        """
        if self._log_timer is not None:
            self._log_timer.stop()
        self._log_timer = self.set_timer(LOG_DELAY_S, self._move_log)
        self.redraw()

    def _move_log(self) -> None:
        if self.cursor.at == self._log_at:
            return
        self._log_at, t = self.cursor.at, self.cursor.of(self.pod)
        if t is None:
            self.pane.open(self.pane.source)
        else:
            # Log clocks have whole seconds. The line of the step itself must not count as before
            # it.
            self.pane.show_at(float(int(t + EXACT_S)))

    def move_by(self, count: int) -> None:
        """Move the time cursor (the past moment that all screens show) by `count` training steps,
        backwards if negative. It stops at the end of the first and of the newest step. If the
        cursor is between the ends of two steps, the first move brings it to the nearest end of a
        step in that direction.
        """
        steps = sorted(self.step_times())
        if not steps:
            self.moment_start()
            return
        t, here = self.cursor.of(self.pod), self.moment
        if here is None:
            here = steps[-1]
        at = (steps.index(here) if here in steps else -1) + count
        if t is not None and abs(self.step_times().get(here, 0.0) - t) > EXACT_S and count < 0:
            at += 1
        self.move_cursor(self.time_of_step(steps[min(max(at, 0), len(steps) - 1)]))

    def on_screen_suspend(self) -> None:
        """Stop reading the log if the screen that is on top of this one now is the log screen,
        because that one reads the same streams.
        """
        if isinstance(self.app.screen, LogScreen):
            self.pane.rest()

    def on_screen_resume(self) -> None:
        """Begin to read the log again. If the time cursor was moved on another screen meanwhile,
        show the moment at which it is now.
        """
        for pane in self.query(LogPane):
            pane.wake()
            if self.cursor.at != self._log_at:
                self.moment_moved()

    def pulse(self) -> None:
        """Paint the lines of the run's log that have changed, and its title line. The app calls
        this at every repaint, ten times a second or four times over SSH.
        """
        self.pane.pulse()

    def hints(self, command: commands.Command) -> bool:
        """Return True if the key bar at the bottom may offer `command` now. While the curves are
        shown large in place of the log, it offers their commands, otherwise those of the log.
        Commands that would be of no use are left out.
        """
        if command.id == "retry":
            return status.link_down(self.pod)
        if command.id in OF_CURVES:
            return self.curves_large
        if command.id in OF_LOGS:
            return not self.curves_large
        return command.id != "plan" or any(one.playbook for one in self.subject().incidents)

    # -- commands

    def do_open(self, args: str) -> None:
        """Open the run's first open incident (root causes come first, then the oldest). If none is
        open, open the run's logs. `args` is ignored.
        """
        if self.subject().incidents:
            self.console_app.open_incident(self.subject())
        else:
            self.console_app.open_logs(self.pod, self.run_name)

    def do_plan(self, args: str) -> None:
        """Open the page of the playbook (a known failure and its repair) whose id is `args` for
        this run, and have the agent make a plan there. If `args` is empty, take the playbook of the
        run's first open incident; a message says so if none is open.
        """
        self.console_app.open_plan(self.subject(), args)

    def do_back(self, args: str) -> None:
        """Go back one step: if the screens show a past moment, show the present; otherwise make
        large curves small again; otherwise remove the log's filter; otherwise close the screen.
        `args` is ignored.
        """
        if self.cursor.at is not None:
            self.move_cursor(None)
        elif self.curves_large:
            self.do_curves("")
        elif self.pane.view.filter_text:
            self.pane.set_filter("")
        else:
            self.console_app.do_back("")
