"""What external observers say of a pod and its runs: what each saw and when it was polled, or why
it was not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.checks.outside import beside_the_pod
from bs4_console.pods.observer import without_the_pod
from bs4_console.tui import formatting, status
from bs4_console.tui.styled_text import Line, fitted, fold, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bs4_console.pods.observer import Observation
    from bs4_console.pods.state import PodState, RunState
    from bs4_console.tui.clock import Clock

_STATE = {
    "running": ("lives", "good"),
    "stopped": ("does not run", "bad"),
    "gone": ("exists no more", "bad"),
    "unknown": ("cannot tell", "warn"),
}
#: Cells of an observer's name.
NAME = 10


def lines(
    pod: PodState, runs: Sequence[RunState], clock: Clock, width: int, *, link: bool = True
) -> list[Line]:
    """Return what is known of the pod from outside it, in lines of at most `width` cells: what W&B
    reports for each of `runs`, what the provider's API says of the machine, and, with `link`, how
    the connection to it is. If one of these was not polled, its line says why.
    """
    found: list[Line] = [
        [
            ("OTHER SIGNALS ", "head"),
            ("never enough alone to act on: what the pod itself says counts more", "dim"),
        ]
    ]
    if link:
        found.append(
            [*_name("link"), *status.link_line(pod), (f"  {status.link_words(pod, clock)}", "dim")]
        )
    for run in runs:
        found += _wandb(pod, run, clock, width, named=len(runs) > 1)
    if pod.provider is not None:
        found += _told(_name("provider"), pod.provider, clock, width)
    else:
        found.append([*_name("provider"), (f"not asked: {_unasked(pod)}", "dim")])
    return fitted(found, width)


def _name(text: str) -> Line:
    return [("· ", "dim"), (f"{text:<{NAME}}", "accent")]


def _wandb(pod: PodState, run: RunState, clock: Clock, width: int, *, named: bool) -> list[Line]:
    head = _name("W&B")
    if named:
        head.append((f"{run.name}: ", ""))
    sight = pod.sights.get(run.name)
    if sight is None:
        return [[*head, (f"not asked: {_why_not(pod, run)}", "dim")]]
    found = _told(head, sight, clock, width, heard=True)
    against = without_the_pod(run.name, sight, clock.wall())
    if pod.link.up:
        against = beside_the_pod(run, sight, clock.wall())
    if against and not status.recorded(pod):
        found += fold(against, width, "warn", NAME + 2)
    return found


def _told(
    head: Line, sight: Observation, clock: Clock, width: int, *, heard: bool = False
) -> list[Line]:
    """Return an observation, for example "W&B  lives, step 41, heard from 12s ago  asked 3s ago
    W&B has it as running".
    """
    word, role = _STATE.get(sight.state, (sight.state, "warn"))
    now = clock.wall()
    line: Line = [*head, (word, role)]
    if sight.step is not None:
        line.append((f", step {sight.step}", ""))
    if heard and sight.seen_t is not None:
        line.append((f", heard from {formatting.duration(now - sight.seen_t)} ago", ""))
    line.append((f"  asked {formatting.duration(now - sight.looked_t)} ago", "dim"))
    told = sight.detail or sight.coverage
    if width_of(line) + len(told) + 2 <= width:
        return [[*line, (f"  {told}", "dim")]]
    return [line, *fold(told, width, "dim", NAME + 2)]


def _why_not(pod: PodState, run: RunState) -> str:
    if not run.view.tracked:
        return "the run has not said that W&B shows it"
    for text in pod.unseen:
        if text.startswith(("W&B: ", f"{run.name}: ")):
            return text.partition(": ")[2]
    return "no look was made yet"


def _unasked(pod: PodState) -> str:
    if status.link_down(pod) or pod.ledger.open_incidents():
        return "bs4-console does not know at which provider this pod is rented"
    return "that is done while something is wrong"
