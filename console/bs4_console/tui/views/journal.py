"""The actions on all pods as rows, newest first, and one action with its exact commands."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bs4_console.pods.gate.plans import plan_of
from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line, fold, hanging
from bs4_console.tui.views.fleet import Column, Row
from bs4_console.tui.views.plan import command_lines

if TYPE_CHECKING:
    from bs4_console.pods.state import ActionView, PlanView, PodState
    from bs4_console.tui.clock import Clock

COLUMNS = (
    Column("when", "WHEN", 8, 16, 100),
    Column("state", "STATE", 10, 14, 97),
    Column("who", "WHO", 5, 24, 99),
    Column("what", "WHAT", 14, 34, 98),
    Column("pod", "POD", 6, 18, 96),
    Column("run", "RUN", 6, 22, 95),
    Column("took", "TOOK", 4, 7, 40, "right"),
    Column("detail", "RESULT", 16, 0, 95.5),
)
#: State of an action -> (sign, word, role).
_STATES = {
    "done": ("✔", "done", "good"),
    "failed": ("✖", "failed", "bad"),
    "plan-changed": ("✖", "plan changed", "warn"),
    "busy": ("✖", "busy", "warn"),
    "refused": ("✖", "refused", "warn"),
    "cancel": ("…", "ending", "warn"),
    "interrupted": ("▲", "interrupted", "warn"),
}
#: Types of error with which the agent refuses to make a plan. Nothing has failed then.
_REFUSALS = ("refused", "not-applicable", "run-exists", "bad-config")
#: State of a step -> (sign, role).
_STEPS = {
    "done": ("✔", "good"),
    "failed": ("✖", "bad"),
    "running": ("…", "accent"),
    "skipped": ("–", "dim"),
}
#: Fields of an action that are shown elsewhere. The other fields are listed with the action.
_SHOWN_ELSEWHERE = frozenset(
    {"key", "kind", "plan", "run", "home", "plan_hash", "playbook", "incident", "confirm_run"}
)


def pod_rows(pod: PodState, clock: Clock) -> list[Row]:
    """Return a table row for every action in the pod's journal (the agent's log of actions and
    incidents), also for plans and for actions that no person requested. A row's key is (pod's name,
    action's key).
    """
    found = []
    for action in pod.ledger.actions.values():
        found.append(_row(pod, action, clock))
    return found


def newest_first(rows: Iterable[Row]) -> list[Row]:
    """Return `rows`, rows of actions as `pod_rows` makes them, sorted by time, the newest first."""
    return sorted(rows, key=lambda row: (-float(row.values["t"] or 0), row.key))


def token(pod: PodState, clock: Clock) -> tuple[int, str]:
    """Return a value that differs from the last one if the pod's rows have to be made again: if the
    pod's journal (the agent's log of actions and incidents) has grown, or if another day has begun,
    because the times of older actions then show their day too.
    """
    return pod.ledger.last_seq, time.strftime("%j", time.localtime(clock.wall()))


def _row(pod: PodState, action: ActionView, clock: Clock) -> Row:
    sign, word, role = _state(action)
    cells: dict[str, Line] = {
        "when": [(when(action.accepted_t, clock), "dim")],
        "state": [(f"{sign} {word}", role)],
        "who": [(action.who or "the agent", "")],
        "what": [(action.what, "bold" if action.kind != "plan" else "")],
        "pod": [(pod.name, "")],
        "run": [(action.run or formatting.NONE, "" if action.run else "dim")],
        "took": [],
        "detail": [(action.detail or _text(action), "")],
    }
    if action.ended:
        cells["took"] = [(formatting.duration(action.updated_t - action.accepted_t), "dim")]
    return Row(key=(pod.name, action.key), rank=0, cells=cells, values={"t": action.accepted_t})


def _state(action: ActionView) -> tuple[str, str, str]:
    """Return the (sign, word, role) of the state of an action."""
    state = action.state
    if (action.kind, state) == ("plan", "failed") and action.result.get("error") in _REFUSALS:
        state = "refused"
    return _STATES.get(state, ("…", state, "accent"))


def short(pod: PodState, action: ActionView, clock: Clock) -> Line:
    """Return an action in one line: when, its state, what was done on which pod and run, by whom,
    and how it ended.
    """
    sign, word, role = _state(action)
    place = "/".join(name for name in (pod.name, action.run) if name)
    line: Line = [
        (f" {when(action.accepted_t, clock):>11}  ", "dim"),
        (f"{sign} {word:<12} ", role),
        (action.what, "bold"),
        (f"  {place}  by {action.who or 'the agent'}", ""),
    ]
    if told := action.detail or _text(action):
        line.append((f"  {told}", "dim"))
    return line


def when(t: float, clock: Clock) -> str:
    """Return the local time of an action as text: "03:12:41" if it was today, "11-19 03:12"
    otherwise. `t` is a Unix time in seconds.
    """
    then, now = time.localtime(t), time.localtime(clock.wall())
    return time.strftime("%H:%M:%S" if then[:3] == now[:3] else "%m-%d %H:%M", then)


def lines(pod: PodState, action: ActionView, width: int) -> list[Line]:
    """Return one action in full, in lines of at most `width` cells: who requested it, with which
    arguments, each step with its command, and the result. Of an action that has made a plan, the
    lines have the plan's hash and what it would do.
    """
    plan = _plan(pod, action)
    plan_hash = action.plan_hash if plan is None else plan.plan_hash
    head: Line = [
        (" ", ""),
        (action.what, "bold"),
        (f"  by {action.who or 'the agent'} on {pod.name}", ""),
    ]
    if plan_hash:
        head += [("  plan ", "dim"), (plan_hash[:16], "accent")]
    made: list[Line] = [head]
    if action.kind == "note":
        return [*made, *fold(_text(action), width - 2, "", 3)]
    asked = "  ".join(
        f"{name} {value}"
        for name, value in action.body.items()
        if name not in _SHOWN_ELSEWHERE and value not in ("", None, [])
    )
    if asked:
        made += fold(f"asked for: {asked}", width - 2, "dim", 3)
    for number, step in enumerate(action.steps, 1):
        sign, role = _STEPS.get(step.state, ("○", "dim"))
        made.append([(f"   {sign} {number}. ", role), (step.title, "")])
        if step.detail and len(step.title) + len(step.detail) + 10 < width:
            made[-1].append((f"  {step.detail}", "dim"))
        elif step.detail:
            made += fold(step.detail, width - 2, "dim", 8)
        if step.command:
            made += fold(f"$ {step.command}", width - 2, "accent", 8)
    if plan is not None:
        made.append([("   It would do this:", "dim")])
        for number, planned in enumerate(plan_of(plan).get("steps") or (), 1):
            title = planned.get("title") or planned.get("kind", "")
            made += hanging([(f"   {number}. ", "dim")], fold(title, width - 8))
            made += command_lines(planned.get("command") or "", width - 2, 6)
    if action.detail:
        made += fold(action.detail, width - 2, "", 3)
    return made


def _plan(pod: PodState, action: ActionView) -> PlanView | None:
    """Return the plan that this action has made, or None if it has made none."""
    if action.kind != "plan":
        return None
    made = (plan for plan in pod.ledger.plans.values() if plan.action == action.key)
    return next((plan for plan in made if not plan.refused), None)


def _text(action: ActionView) -> str:
    """Return the text of a note, or the step that an action is in."""
    if action.kind == "note":
        return str(action.body.get("text", ""))
    return next((step.title for step in action.steps if step.state == "running"), "")
