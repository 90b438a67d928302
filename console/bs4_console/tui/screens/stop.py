"""The question before a run is stopped: which processes get which signals, and the run's name as
the confirmation.
"""

from __future__ import annotations

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
from bs4_console.tui.styled_text import Line, fold

if TYPE_CHECKING:
    from bs4_console.checkpoints.listing import CheckpointReport
    from bs4_console.launch.stopping import StopStep
    from bs4_console.tui.app import ConsoleApp

#: Most processes that are listed on a small terminal. For the others only their number is shown.
MOST = 16


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
        processes, however many there are; otherwise only the first MOST (16) of them.
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
        if living:
            lines += fold(_listed(living, len(living) if commands else MOST), width)
            lines += fold(_signals(steps, living), width, "accent")
        lines += fold(f"Files stay as they are. {self._lost()}", width, "warn")
        if status.link_down(self.pod):
            lines += fold(
                "The pod cannot be reached now: this shows what was last known.", width, "warn"
            )
        return lines


def _listed(living: Sequence[Process], most: int) -> str:
    """Return the processes with their pids by component, such as "3 processes: trainer 1463, rank
    1472 1481". Of more than `most` processes the others are only counted.
    """
    pids: dict[str, list[str]] = {}
    for one in living[:most]:
        pids.setdefault(str(one.get("component") or "pid"), []).append(str(one.get("pid")))
    named = ", ".join(" ".join([name, *found]) for name, found in pids.items())
    if len(living) > most:
        named += f", and {len(living) - most} more"
    return f"{formatting.count(len(living), 'process')}: {named}"


def _signals(steps: Sequence[StopStep], living: Sequence[Process]) -> str:
    """Return a sentence with the kill commands in their order, to which of the processes `living`
    each goes, and how long is waited for their end.
    """
    parts = []
    for number, step in enumerate(steps):
        kill, signal, *pids = step.command.split(" ")
        to, limit = "it", f"at most {step.seconds:.0f} s"
        if number:
            to = "what is still alive"
        elif len(pids) < len(living):
            to = _components(pids, living)
        elif len(pids) > 1:
            to = f"all {len(pids)}"
        waits = limit if number else f"with {limit} to end"
        parts.append(f"{kill} {signal} to {to}, {waits}")
    return f"First {'; then '.join(parts)}."


def _components(pids: Sequence[str], living: Sequence[Process]) -> str:
    """Return the names of the processes with these pids, such as "launcher 1400"."""
    found = []
    for one in living:
        if str(one.get("pid")) in pids:
            found.append(f"{one.get('component') or 'pid'} {one.get('pid')}")
    return ", ".join(found)


def lost(run: RunState, report: CheckpointReport | None) -> str:
    """Return a sentence that says which steps of `run` have to be trained again if it is stopped
    now. `report` is the pod's report of its checkpoints. The sentence names no steps if that is
    None, or does not go together with what is known of the present attempt.
    """
    unknown = "What was trained since the last complete checkpoint is trained again."
    if report is None or run.step is None or run.step_of_earlier:
        return unknown
    resume = report["resumable"]
    again = steps_again(run, resume)
    if not again:
        if resume is None or resume > run.step:
            return unknown
        return f"No finished step is trained again: checkpoint {resume} is kept."
    first, last = again[0], again[-1]
    steps = f"Step {last} is trained again"
    if first != last:
        steps = f"{len(again)} steps are trained again, {first} to {last}"
    if resume is None:
        return f"{steps}: no checkpoint is complete."
    if first == resume:
        # This trainer saves a step's checkpoint before it trains the step.
        return f"{steps}: checkpoint {resume} is kept, which was saved before step {resume}."
    return f"{steps}: checkpoint {resume} is kept."
