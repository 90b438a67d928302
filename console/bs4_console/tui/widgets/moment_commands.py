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
else:
    Beside = object

#: The prompt that asks for a moment.
AT = "at "
#: Seconds that earlier and later move if there are no steps.
MINUTE = 60.0
#: Times are differences of clocks, so times this close in seconds are equal.
EXACT_S = 0.002


class MomentCommands(Beside):
    """The commands of the time cursor. A screen overrides where the cursor begins, what a step is,
    and what follows the cursor.
    """

    shows_moment = True

    @property
    def cursor(self) -> TimeCursor:
        """Return the time cursor that all screens share."""
        return self.console_app.time

    # -- what a screen may say otherwise

    def moment_start(self) -> float | None:
        """Return where `t` alone puts the cursor, in seconds since the epoch by this machine's
        clock. Returns None, with a message, if it cannot be set.
        """
        return self.moment_end()

    def time_of_step(self, step: int) -> float | None:
        """Return when the step, or the step nearest to it, ended, in seconds since the epoch by
        this machine's clock. Returns None if there is no run with steps.
        """
        pod, times = self.subject().pod, self.step_times()
        if pod is None or not times:
            return None
        nearest = min(times, key=lambda known: abs(known - step))
        return times[nearest] - (pod.link.clock_offset or 0.0)

    def step_times(self) -> dict[int, float]:
        """Return the time at which each step of the current run ended, by the pod's clock in
        seconds since the epoch. Empty if there is no run.
        """
        run = self.subject().run
        return {} if run is None else step_times(run)

    def moment_moved(self) -> None:
        """Show everything at the new moment of the cursor."""
        self.redraw()

    # -- the cursor

    def moment_end(self) -> float:
        """Return the newest moment that is known, in seconds since the epoch by this machine's
        clock.
        """
        pod = self.subject().pod
        pods = self.console_app.fleet.pods if pod is None else [pod]
        return newest(pods, self.console_app.clock)

    def move_cursor(self, at: float | None) -> None:
        """Put the cursor at this moment, in seconds since the epoch by this machine's clock, or at
        now if None.
        """
        self.cursor.at = at
        self.cursor.forget_wishes()
        self.moment_moved()

    def go_to_moment(self, text: str) -> None:
        """Put the cursor at a time or step that a person typed. If it is not valid, a message says
        so.
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
        """Put the cursor at the moment that was typed."""
        if kind != AT:
            super().prompted(kind, text, final=final)
        elif final and text.strip():
            self.go_to_moment(text)

    # -- commands

    def do_moment(self, args: str) -> None:
        """Put the cursor at the time or step in `args`. Without one, go back to now, or begin if
        the cursor is at now.
        """
        if args:
            self.go_to_moment(args)
        elif self.cursor.at is not None:
            self.move_cursor(None)
        elif (at := self.moment_start()) is not None:
            self.move_cursor(at)

    def do_time(self, args: str) -> None:
        """Put the cursor at the time in `args`, or ask for it."""
        if args:
            self.go_to_moment(args)
        else:
            self.ask(AT)

    def do_earlier(self, args: str) -> None:
        """Move the cursor back by one step or minute, or by the number in `args`."""
        self.move_by(-_number(args))

    def do_later(self, args: str) -> None:
        """Move the cursor forward by one step or minute, or by the number in `args`."""
        self.move_by(_number(args))

    def move_by(self, count: int) -> None:
        """Move the cursor by this many minutes. Beyond the newest moment it goes back to now."""
        end = self.moment_end()
        at = (end if self.cursor.at is None else self.cursor.at) + count * MINUTE
        self.move_cursor(at if at < end else None)


def _number(args: str) -> int:
    return int(args) if args.isdigit() else 1


def step_times(run: RunState) -> dict[int, float]:
    """Return the time at which each step ended, in order, by the pod's clock in seconds since the
    epoch. Steps that a later attempt did again do not count. Logs have whole seconds, so several
    steps of one second are spread over that second.
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
    """Return the newest moment that is known of the pods, in seconds since the epoch by this
    machine's clock: now for live pods, the end for recordings.
    """
    if not pods or not all(status.recorded(pod) for pod in pods):
        return clock.wall()
    return max(
        (float(pod.latest["t"]) - (pod.link.clock_offset or 0.0) for pod in pods if pod.latest),
        default=clock.wall(),
    )
