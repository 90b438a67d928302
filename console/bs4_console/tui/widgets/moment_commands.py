"""The commands of the time cursor, for every screen that shows its moment."""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby
from typing import TYPE_CHECKING

from bs4_console.errors import UsageError
from bs4_console.logs.moment import parse
from bs4_console.tui import status
from bs4_console.tui.widgets.curve_data import step_ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bs4_console.pods.state import PodState, RunState
    from bs4_console.tui.clock import Clock
    from bs4_console.tui.screens.base import ConsoleScreen as Beside
    from bs4_console.tui.time_cursor import TimeCursor
    from bs4_console.tui.widgets.prompt import PromptKind
else:
    Beside = object

#: The prompt that asks for a moment.
AT: PromptKind = "at "
#: Seconds that earlier and later move if there are no steps.
MINUTE = 60.0
#: Times are differences of clocks, so times this close in seconds are equal.
EXACT_S = 0.002


class MomentCommands(Beside):
    """The commands of the time cursor, which is the past moment that all screens show instead of
    the present. A screen that shows that moment inherits from this class; its `shows_moment` tells
    the top bar to show the moment too. Such a screen may override `moment_start` (where the cursor
    is put first), `move_by` (what one move is) and `moment_moved` (what is redrawn).
    """

    shows_moment = True

    @property
    def cursor(self) -> TimeCursor:
        """Return the time cursor, which is one and the same for all screens."""
        return self.console_app.time

    # -- what a screen may say otherwise

    def moment_start(self) -> float | None:
        """Return where the time cursor (the past moment that all screens show) is put if the person
        names no time, as a Unix time in seconds by this machine's clock. Here that is the newest
        moment. A subclass returns None if it knows no such time at once; it then shows a message,
        or sets the cursor later.
        """
        return self.moment_end()

    def time_of_step(self, step: int) -> float | None:
        """Return when the step with the number `step` ended, as a Unix time in seconds by this
        machine's clock. If that step is not known, the known step with the nearest number is taken.
        Return None if no step of the screen's run is known.
        """
        pod, times = self.subject().pod, self.step_times()
        if pod is None or not times:
            return None
        nearest = min(times, key=lambda known: abs(known - step))
        return times[nearest] - (pod.link.clock_offset or 0.0)

    def step_times(self) -> dict[int, float]:
        """Return when each step of the screen's run ended, as {step: Unix time in seconds by the
        pod's clock}. The result is empty if there is no run.
        """
        run = self.subject().run
        return {} if run is None else step_times(run)

    def moment_moved(self) -> None:
        """Redraw the screen for the moment of the time cursor. Called after each of its moves."""
        self.redraw()

    # -- the cursor

    def moment_end(self) -> float:
        """Return the newest moment to which the time cursor (the past moment that all screens show)
        can be set, as a Unix time in seconds by this machine's clock. That is now, or the end of
        the recording if the screen shows one.
        """
        pod = self.subject().pod
        pods = self.console_app.fleet.pods if pod is None else [pod]
        return newest(pods, self.console_app.clock)

    def move_cursor(self, at: float | None) -> None:
        """Set the time cursor to the moment `at`, as a Unix time in seconds by this machine's
        clock, or go back to the present if it is None. The screen is redrawn for it.
        """
        self.cursor.at = at
        self.cursor.forget_wishes()
        self.moment_moved()

    def go_to_moment(self, text: str) -> None:
        """Set the time cursor to the time or step in `text`, as a person typed it: "14:32", "-15m"
        (from where the cursor is), the number of a step, or "now" for the present. If the text is
        no such time, or is a time to come, or no step is known here, a message says so.
        """
        end = self.moment_end()
        try:
            wanted = parse(text, self.cursor.at or end, end)
        except UsageError as error:
            self.console_app.say(error.message, severity="warning")
            return
        at = wanted.at if wanted.step is None else self.time_of_step(wanted.step)
        if wanted.step is None or at is not None:
            self.move_cursor(at)
        else:
            self.console_app.say(
                f"There is no step {wanted.step} here to go to; write a time like 14:32, "
                "-15m or now.",
                severity="warning",
            )

    def prompted(self, kind: str, text: str, *, final: bool) -> None:
        """Handle what was typed in a prompt. In the prompt for a time or step, `text` sets the time
        cursor (the past moment that all screens show) once Enter was pressed (`final`). `kind` is
        what the prompt was opened for; a call about any other prompt is passed on to the screen's
        next base class.
        """
        if kind != AT:
            super().prompted(kind, text, final=final)
        elif final and text.strip():
            self.go_to_moment(text)

    # -- commands

    def do_moment(self, args: str) -> None:
        """Set the time cursor to the time or step in `args`, for example "14:32" or "-15m". If
        `args` is empty and a past moment is shown, go back to the present. If `args` is empty and
        the present is shown, set the cursor to where `moment_start` puts it: on a run's screen the
        end of the newest step, on a log's screen the time of the current line, elsewhere the newest
        moment.
        """
        if args:
            self.go_to_moment(args)
        elif self.cursor.at is not None:
            self.move_cursor(None)
        elif (at := self.moment_start()) is not None:
            self.move_cursor(at)

    def do_time(self, args: str) -> None:
        """Set the time cursor to the time or step in `args`, for example "14:32" or "-15m". If
        `args` is empty, open the prompt in which the time or step is typed.
        """
        if args:
            self.go_to_moment(args)
        else:
            self.ask(AT)

    def do_earlier(self, args: str) -> None:
        """Move the time cursor back: on a run's screen by steps, elsewhere by minutes. `args` is
        how many; if it is not a number, the cursor moves by 1.
        """
        self.move_by(-_number(args))

    def do_later(self, args: str) -> None:
        """Move the time cursor forward: on a run's screen by steps, elsewhere by minutes. `args` is
        how many; if it is not a number, the cursor moves by 1.
        """
        self.move_by(_number(args))

    def move_by(self, count: int) -> None:
        """Move the time cursor by `count` minutes, back if negative. If it would reach the newest
        moment, the screens show the present again.
        """
        end = self.moment_end()
        at = (end if self.cursor.at is None else self.cursor.at) + count * MINUTE
        self.move_cursor(at if at < end else None)


def _number(args: str) -> int:
    return int(args) if args.isdigit() else 1


def step_times(run: RunState) -> dict[int, float]:
    """Return when each training step of the run ended, as {step: Unix time in seconds by the pod's
    clock}, in the order of time. For a step that was done again after a relaunch, only the last
    time counts. Logs give whole seconds; the times of steps that ended in the same second are
    spread evenly over that second.
    """
    found = step_ends(run)
    times: dict[int, float] = {}
    for t, group in groupby(found, key=lambda pair: pair[0]):
        _, steps = zip(*group, strict=True)
        behind = bisect_right(found, (t, steps[-1]))
        room = min(1.0, found[behind][0] - t) if behind < len(found) else 1.0
        times |= {step: t + room * i / len(steps) for i, step in enumerate(steps)}
    return times


def newest(pods: Sequence[PodState], clock: Clock) -> float:
    """Return the newest moment for which `pods` have data, as a Unix time in seconds by this
    machine's clock. That is now, or, if all pods are recordings, the end of the one that ends last.
    """
    if not pods or not all(status.recorded(pod) for pod in pods):
        return clock.wall()
    return max(
        (float(pod.latest["t"]) - (pod.link.clock_offset or 0.0) for pod in pods if pod.latest),
        default=clock.wall(),
    )
