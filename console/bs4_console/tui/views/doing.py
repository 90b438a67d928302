"""The actions under way on a run or its pod, one line each with the current step and the time it
takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line, cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bs4_console.pods.state import ActionView, PodState
    from bs4_console.tui.clock import Clock

#: Kinds of actions that are not shown as work: plans, notes, and what retention does all day, which
#: the checkpoint line shows.
_QUIET = frozenset({"plan", "note", "release", "rotate"})


def lines(pod: PodState, run: str | None, clock: Clock, width: int, most: int = 2) -> list[Line]:
    """Return a line for each action under way on the run, or on the whole pod if `run` is None:
    what it does, its current step, and for how long. At most `most` lines of at most `width` cells
    are returned, those of the newest actions; the newest is the last. The result is empty if no
    action is under way.
    """
    found = sorted(
        under_way(pod.ledger.actions.values(), run), key=lambda action: action.accepted_t
    )
    now = clock.wall() + (pod.link.clock_offset or 0.0)
    return [cut(_line(action, now, named=run is None), width) for action in found[-most:]]


def under_way(actions: Iterable[ActionView], run: str | None) -> Iterator[ActionView]:
    """Yield those of `actions` that have not ended and that work on the run with the name `run`, or
    on any run if `run` is None. Plans and notes are left out, because they do nothing to a run. So
    are two kinds of actions that happen by themselves: "rotate", which deletes old checkpoints, and
    "release", with which a console says how much of the journal (the agent's log of actions and
    incidents) it has copied.
    """
    for action in actions:
        if not action.ended and action.kind not in _QUIET and run in (None, action.run):
            yield action


def _line(action: ActionView, now: float, *, named: bool) -> Line:
    what = action.kind
    if what == "playbook":
        what = f"{what} {action.playbook}".strip()
    line: Line = [(" doing  ", "head"), ("↻ ", "accent bold"), (what, "accent bold")]
    if named and action.run:
        line.append((f" {action.run}", "bold"))
    running = next((i for i, step in enumerate(action.steps) if step.state == "running"), None)
    since = action.accepted_t
    detail = action.detail
    if running is not None:
        step = action.steps[running]
        line += [(f"   {running + 1} of {len(action.steps)} ", "dim"), (step.title, "")]
        since, detail = step.started_t or since, step.detail or detail
    elif action.state == "verifying":
        line.append(("   waits for new steps", ""))
    line.append((f"  {formatting.duration(now - since)}", "bold"))
    if detail:
        line.append((f"   {detail}", ""))
    if action.who:
        line.append((f"   by {action.who}", "dim"))
    return line
