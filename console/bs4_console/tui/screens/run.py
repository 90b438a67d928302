"""One run: where it stands, its curves, the GPUs, what is wrong, and its logs as they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from textual.timer import Timer
from textual.widget import Widget

from bs4_console.core.state import STALE_S, PodState, RunState
from bs4_console.tui import commands, status
from bs4_console.tui.ink import Line
from bs4_console.tui.screens.base import ConsoleScreen, Subject
from bs4_console.tui.screens.log import LogScreen
from bs4_console.tui.views import gpus
from bs4_console.tui.views import run as view
from bs4_console.tui.widgets.curve_commands import OF_CURVES, CurveCommands
from bs4_console.tui.widgets.curves import Band, charts, large
from bs4_console.tui.widgets.log_commands import LogCommands
from bs4_console.tui.widgets.log_pane import LogPane
from bs4_console.tui.widgets.panel import Panel

#: Rows of the screen from which each GPU has a line of its own, and from which the curves are tall.
ROOMY, TALL = 34, 50
#: The log follows the time cursor after this pause.
LOG_DELAY_S = 0.25
#: Commands that say nothing while the curves have the log's place.
OF_LOGS = frozenset(c.id for c in commands.COMMANDS if c.where == {commands.RUN, commands.LOG})


class RunScreen(CurveCommands, LogCommands, ConsoleScreen):
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
        self.moment: int | None = None
        """The step under the time cursor; None is now."""
        self._log_timer: Timer | None = None

    def body(self) -> Iterable[Widget]:
        yield Panel(id="header")
        yield Panel(id="alarm")
        yield Panel(id="curves")
        yield Panel(id="gpus")
        yield Panel(id="host")
        yield LogPane(self.pod, self.run_name)

    def on_mount(self) -> None:
        self.bands = self.load_bands()

    @property
    def pane(self) -> LogPane:  # type: ignore[override]
        return self.query_one(LogPane)

    @property
    def run_state(self) -> RunState:
        """The run as it is; as it was last when it has been removed from the pod."""
        self._last = self.pod.runs.get(self.run_name, self._last)
        return self._last

    def main(self) -> Widget:
        return self.pane.view

    def trail(self) -> Sequence[str]:
        return ("fleet", self.pod.name, self.run_name)

    def subject(self) -> Subject:
        return Subject(self.pod, self.run_state)

    def draw(self) -> None:
        app, run, width, height = self.console_app, self.run_state, self.size.width, self.size.height
        self.query_one("#header", Panel).show(view.header(self.pod, run, app.clock, width))
        alarm = view.alarm_lines(self.pod, run, app.clock, app.keys, width, 1 if height < 30 else 3)
        if self.moment is not None:
            alarm.append(view.moment_line(self.pod, self.moment, self._moment_t(), app.clock, app.keys, width))
        self.query_one("#alarm", Panel).show(alarm)
        for name in ("#gpus", "#host", "LogPane"):
            self.query_one(name).display = not self.curves_large
        if self.curves_large:
            self._draw_large(run, width - 2, height - 4 - len(alarm))
            return
        self._draw_curves(run, width - 2, 4 if height < 30 else 7 if height < TALL else 10)
        most = 5 if height < 30 else 9 if height < TALL else 17
        self.query_one("#gpus", Panel).show(self._gpu_lines(width, compact=height < ROOMY or width < 90)[:most])
        host = view.host_line(self.pod, app.clock, width) if self.moment is None else view.host_line_then(self._sample(), width)
        self.query_one("#host", Panel).show([host, view.components_line(self.pod, run, app.clock, width)])

    def _gpu_lines(self, width: int, *, compact: bool) -> list[Line]:
        if self.moment is None:
            return gpus.lines(self.pod, self.console_app.clock, width, compact=compact)
        return gpus.lines_then(self._sample(), width, compact=compact)

    def _draw_curves(self, run: RunState, width: int, height: int) -> None:
        """Only when a step came: four curves over 20,000 steps are 30 ms of work."""
        if self._curves_changed(run, width, height):
            self.query_one("#curves", Panel).show(charts(run, width, height, self.moment, self.curve_view, self.bands))

    def _draw_large(self, run: RunState, width: int, height: int) -> None:
        if self._curves_changed(run, width, height, self.curves_only, len(self.pod.telemetry), int(self.pod.latest.get("t") or 0) // 5):
            lines = large(run, self.pod.telemetry, width, height, self.moment, self.curve_view, self.bands, self.curves_only)
            self.query_one("#curves", Panel).show(lines)

    def _curves_changed(self, run: RunState, *shown: object) -> bool:
        steps = (id(run), len(run.trainer_steps), len(run.orchestrator_steps), run.step_seen, run.step)
        before, self._drawn_curves = self._drawn_curves, (*steps, *shown, self.curves_large, self.moment, self.curve_view)
        return before != self._drawn_curves

    # -- the time cursor

    def _times(self) -> dict[int, float]:
        """Step -> the pod's wall time at its end; the last attempt to do it wins."""
        return {row["step"]: float(row.get("log_t") or row["t"]) for row in self.run_state.trainer_steps}

    def _moment_t(self) -> float:
        return self._times().get(self.moment or 0, 0.0)

    def _sample(self) -> dict[str, Any] | None:
        """The telemetry nearest to the time cursor, if it is near."""
        t = self._moment_t()
        nearest = min(self.pod.telemetry, key=lambda record: abs(record["t"] - t), default=None)
        return nearest if nearest is not None and abs(nearest["t"] - t) <= STALE_S else None

    def _go_to(self, step: int | None) -> None:
        """Everything moves at once, the log when the hand rests: it has to ask the pod."""
        self.moment = step
        if self._log_timer is not None:
            self._log_timer.stop()
        self._log_timer = self.set_timer(LOG_DELAY_S, self._move_log)
        self.redraw()

    def _move_log(self) -> None:
        if self.moment is None:
            self.pane.open(self.pane.source)
        else:
            # Log clocks have whole seconds: the line of the step itself must not count as before it.
            self.pane.show_at(float(int(self._moment_t())))

    def on_screen_suspend(self) -> None:
        """The log screen reads the same streams: once is enough."""
        if isinstance(self.app.screen, LogScreen):
            self.pane.rest()

    def on_screen_resume(self) -> None:
        for pane in self.query(LogPane):
            pane.wake()

    def pulse(self) -> None:
        self.pane.pulse()

    def hints(self, command: commands.Command) -> bool:
        if command.id == "retry":
            return status.link_down(self.pod)
        if command.id in OF_CURVES:
            return self.curves_large
        if command.id in OF_LOGS:
            return not self.curves_large
        return command.id != "plan" or bool(self.subject().incidents)

    # -- commands

    def do_open(self, args: str) -> None:
        if self.subject().incidents:
            self.do_incident("")
        else:
            self.do_logs("")

    def do_incident(self, args: str) -> None:
        self.console_app.open_incident(self.subject(), args)

    def do_plan(self, args: str) -> None:
        self.console_app.open_plan(self.subject(), args)

    def do_logs(self, args: str) -> None:
        self.console_app.open_logs(self.pod, self.run_name, args or None)

    def do_back(self, args: str) -> None:
        if self.moment is not None:
            self._go_to(None)
        elif self.curves_large:
            self.do_curves("")
        else:
            self.console_app.do_back("")

    def do_moment(self, args: str) -> None:
        steps = sorted(self._times())
        if not steps:
            self.console_app.say("No step is done yet, so there is no moment to go to.", severity="warning")
        elif args:
            if not args.isdigit():
                self.console_app.say(f"{args!r} is no step; :at {steps[-1]} for example.", severity="warning")
            else:
                self._go_to(min(steps, key=lambda step: abs(step - int(args))))
        else:
            self._go_to(steps[-1] if self.moment is None else None)

    def do_earlier(self, args: str) -> None:
        self._move(-(int(args) if args.isdigit() else 1))

    def do_later(self, args: str) -> None:
        self._move(int(args) if args.isdigit() else 1)

    def _move(self, by: int) -> None:
        steps = sorted(self._times())
        if not steps:
            self.do_moment("")
            return
        here = len(steps) - 1 if self.moment is None else steps.index(self.moment) if self.moment in steps else 0
        self._go_to(steps[min(max(here + by, 0), len(steps) - 1)])

    def do_copy(self, args: str) -> None:
        self.console_app.copy(self.pane.view.visible_text(), "Copied the visible log lines.")
