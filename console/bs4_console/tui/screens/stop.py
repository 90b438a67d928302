"""The question before a run is stopped: which processes get which signals, and the run's name as
the confirmation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, cast

from bs4_console.launch import stopping
from bs4_console.launch.redone import steps_again
from bs4_console.pods.samples import Process
from bs4_console.pods.state import PodState, RunState
from bs4_console.tui import formatting, status
from bs4_console.tui.checkpoint_line import CheckpointLine
from bs4_console.tui.screens.confirm import Confirmation
from bs4_console.tui.styled_text import Line, cut, fold
from bs4_console.tui.views.plan import command_lines

if TYPE_CHECKING:
    from bs4_console.checkpoints.listing import CheckpointReport
    from bs4_console.tui.app import ConsoleApp

#: Most processes that are listed. For the others only their number is shown.
MOST = 8


class StopScreen(Confirmation):
    """The dialog that asks before the run `run` on `pod` is stopped. The person confirms by typing
    the run's name.
    """

    def __init__(self, pod: PodState, run: RunState) -> None:
        super().__init__(run.name, typed=True, yes="stop it")
        self.pod, self.run_state = pod, run

    @cached_property
    def _checkpoints(self) -> CheckpointLine:
        """Return the object that asks the pod which step can be resumed."""
        return CheckpointLine(
            cast("ConsoleApp", self.app), self.pod, self.run_state.name, self._answered
        )

    def _answered(self) -> None:
        """Show which steps are lost, because the pod has said what can be resumed."""
        if self.is_attached:
            self.tell_safely()

    def _lost(self) -> str:
        """Return a sentence that says which steps have to be trained again after the stop. A
        malformed answer of the pod keeps nobody from stopping the run.
        """
        try:
            report = self._checkpoints.report()
        except status.MALFORMED:
            report = None
        return lost(self.run_state, report)

    def asked(self, width: int, *, commands: bool) -> list[Line]:
        """Return the question in lines of at most `width` cells: which processes of the run are
        ended, by which signals, and what is lost with them. With `commands` the lines have the
        exact commands and all processes; otherwise they are a short form.
        """
        run = self.run_state
        living, steps, first = (
            stopping.processes(run),
            stopping.steps(run),
            stopping.ended_first(self.pod, run.name),
        )
        lines: list[Line] = [
            [(f"Stop {run.name} on {self.pod.name}?", "bold")],
            [
                ("It ", ""),
                ("ends processes", "bad bold"),
                (", and proves that no GPU is held any more.", ""),
            ],
            [],
        ]
        for action in first:
            lines += fold(
                f"The {action.what} by {action.who} is under way; it ends first, after the "
                "step that it is in.",
                width,
                "warn",
            )
        if not living:
            lines += fold(
                "No process of it is known to live. The agent looks again, and ends every process "
                "that is left of the run.",
                width,
                "warn",
            )
        # With the commands, which have the pids, only the components are named.
        named = [f"{c.get('component') or 'pid'} {c.get('pid')}" for c in living]
        if commands:
            named = _counted(living)
        most = len(named) if commands else MOST
        if named:
            more = f" and {len(named) - most} more" if len(named) > most else ""
            told = f"{formatting.count(len(living), 'process')}: {', '.join(named[:most])}{more}"
            lines += fold(told, width)
        for i, step in enumerate(steps, 1):
            limit = f"at most {step.seconds:.0f} s"
            if commands:
                then = ", then for what is still alive" if i < len(steps) else ""
                lines += [*command_lines(step.command, width, 0), [(f"    {limit}{then}", "dim")]]
            else:
                _, signal, *pids = step.command.split(" ")
                to = f" to {formatting.count(len(pids), 'process')}, {limit}"
                line = [("$ ", "dim"), (f"kill {signal}", "accent"), (to, "")]
                lines.append(cut(line, width))
        lines += fold(f"Files stay as they are. {self._lost()}", width, "warn")
        if status.link_down(self.pod):
            lines += fold(
                "The pod cannot be reached now: this shows what was last known.", width, "warn"
            )
        return lines


def _counted(living: Sequence[Process]) -> list[str]:
    """Return how many of the processes each component has, such as "4 × rank"."""
    counts = Counter(str(one.get("component") or "process") for one in living)
    return [f"{count} × {name}" if count > 1 else name for name, count in counts.items()]


def lost(run: RunState, report: CheckpointReport | None) -> str:
    """Return a sentence that says which steps of `run` have to be trained again if it is stopped
    now. `report` is the pod's report of its checkpoints. The sentence names no steps if that is
    None, or does not go together with what is known of the present attempt.
    """
    unknown = "What was trained since the last complete checkpoint is lost."
    if report is None or run.step is None or run.step_of_earlier:
        return unknown
    resume = report["resumable"]
    again = steps_again(run, resume)
    if not again:
        if resume is None or resume > run.step:
            return unknown
        return f"No finished step is lost: step {resume} can be resumed."
    first, last = again[0], again[-1]
    steps = f"Step {last} is lost" if first == last else f"Steps {first} to {last} are lost"
    if resume is None:
        return f"{steps}: no checkpoint is complete."
    return f"{steps}: the newest complete checkpoint is that of step {resume}."
