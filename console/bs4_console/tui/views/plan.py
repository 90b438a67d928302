"""A plan and an action in lines: the exact commands, what they touch, and how far they are."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from bs4_console.launch.redone import steps_again
from bs4_console.pods.gate.plans import plan_of
from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line, Span, cut, fitted, fold, text_of, width_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bs4_console.failures.playbook_file import Parameters
    from bs4_console.pods.gate.plans import Plan, PlanStep, Shown, ShownProcess, StepParameters
    from bs4_console.pods.state import ActionView, PlanView, PodState, RunState, StepView
    from bs4_console.tui.clock import Clock

#: Dangers that are confirmed with one key. For the others the run's name is typed.
ONE_KEY = ("none", "restart")
_DANGER = {
    "none": ("changes nothing that trains", "good"),
    "restart": ("restarts the run", "warn"),
    "kill": ("ends processes", "bad bold"),
    "move": ("moves files to the run's trash", "bad bold"),
    "delete": ("moves files out of the run's directories, into its trash", "bad bold"),
}
_STEP_MARK = {
    "waiting": ("○", "dim"),
    "running": ("▶", "accent bold"),
    "done": ("✔", "good"),
    "skipped": ("–", "dim"),
    "failed": ("✖", "bad bold"),
}
#: State of an action that has ended without a recovery -> the verdict.
_NOT_RECOVERED = {
    "done": "DONE, NOT RECOVERED",
    "plan-changed": "NOTHING MORE WAS DONE: what the plan had seen has changed",
    "busy": "NOT STARTED: another action holds the run",
}
#: Most files and processes that are listed for a step. For the others their number and sum are
#: shown.
MOST = 40


def danger(plan: Plan) -> tuple[str, str]:
    """Return (words, style role) about what `plan` does to the run, for example ("restarts the
    run", "warn"). They come from the plan's own entry `danger`.
    """
    word = plan.get("danger") or "unknown"
    return _DANGER.get(word, (f"danger: {word}", "bad bold"))


def effects(plan: Plan, run: RunState | None) -> str:
    """Return one sentence about everything that `plan` does to `run`: how many processes it ends,
    what it moves, from which step it starts the run again, and how many steps are then done again.
    With None as `run` the last number is left out. If the plan does none of this, the sentence says
    how dangerous it is (see `danger`).
    """
    ended = moved = size = 0
    start = ""
    for step in plan.get("steps") or ():
        shown = step.get("shown") or {}
        ended += _ended(shown.get("processes") or step.get("targets") or [])
        entries = moved_entries(shown)
        moved += len(entries)
        size += sum(count or 0 for _, count in entries)
        if step.get("kind") == "relaunch":
            start = _started(step.get("parameters") or {}, run)
    parts = []
    if ended:
        parts.append(f"ends {formatting.count(ended, 'process')}")
    if moved:
        of = f" ({formatting.size(size)})" if size else ""
        parts.append(f"moves {formatting.count(moved, 'entry')}{of} to the run's trash")
    if start:
        parts.append(start)
    if not parts:
        parts.append(danger(plan)[0])
    if len(parts) == 1:
        return f"It {parts[0]}."
    return f"It {', '.join(parts[:-1])}, and {parts[-1]}."


def moved_entries(shown: Shown) -> list[tuple[str, int | None]]:
    """Return what a step of a plan moves, as (path, size in bytes or None if the plan does not say
    it). `shown` is the part of the step that says what it touches.
    """
    found: list[tuple[str, int | None]] = []
    for entry in [*(shown.get("directories") or ()), *(shown.get("entries") or ())]:
        if isinstance(entry, str):
            found.append((entry, None))
        else:
            found.append((entry.get("path", ""), entry.get("bytes")))
    return found


def _ended(targets: Sequence[ShownProcess | str]) -> int:
    """Return how many of a step's targets are processes, which the step ends."""
    return sum(isinstance(one, str) or "pid" in one for one in targets)


def _started(parameters: StepParameters, run: RunState | None) -> str:
    """Return from where a plan starts the run again, and how many steps are done again.
    `parameters` are those of the step, in which a "resume" of None is a start afresh.
    """
    resume = parameters.get("resume")
    if isinstance(resume, int):
        where = f"starts the run again from step {resume}"
    elif "resume" in parameters:
        where, resume = "starts the run afresh, from no checkpoint", None
    else:
        return "starts the run again"
    again = len(steps_again(run, resume))
    if not again:
        return where
    return f"{where} ({formatting.count(again, 'step')} done again)"


def must_type(plan: Plan) -> bool:
    """Return True if a person has to type the run's name to confirm a plan. Return False if the
    key `y` is enough: the plan changes nothing or only restarts the run, and does not itself demand
    the name.
    """
    return bool(plan.get("typed_name")) or plan.get("danger") not in ONE_KEY


def expiry(plan: PlanView, pod: PodState, clock: Clock) -> float | None:
    """Return in how many seconds the plan expires; after that the agent refuses to carry it out.
    Return 0 if it has expired or the pod has rebooted since it was made, and None as long as no
    telemetry of the pod has arrived.

    A plan expires by the pod's monotonic clock. What that clock shows now is estimated as the time
    of the newest telemetry record plus the time since the record arrived here. As a record takes a
    moment to arrive, the clock is really a moment further, and the plan expires so much earlier
    than is returned.
    """
    latest = pod.latest
    if not latest or pod.telemetry_seen is None:
        return None
    if latest.get("b") != plan.boot:
        return 0.0
    now = float(latest["m"]) + (clock.mono() - pod.telemetry_seen)
    return max(0.0, plan.expires_m - now)


def newest(
    pod: PodState, run: str, playbook: str | None, attempt: int | None = None
) -> PlanView | None:
    """Return the latest plan for the run with the name `run`. If the agent's latest answer was a
    refusal to make a plan, return that. `playbook` is the id of the playbook (a known failure and
    its repair) of the plan, and `attempt` the number of the run's attempt (a relaunch is the next
    one); None allows any. Return None if there is no such plan.
    """
    found = [
        p
        for p in pod.ledger.plans.values()
        if p.run == run and playbook in (None, p.playbook) and attempt in (None, p.attempt)
    ]
    return max(found, key=lambda p: p.t, default=None)


def plan_lines(
    plan: PlanView, pod: PodState, clock: Clock, width: int, how_to_run: Line
) -> list[Line]:
    """Return a plan in lines of at most `width` cells: what it does, its hash, when it expires,
    `how_to_run` (the line that says which key carries it out), each step with its command and what
    the command touches, and how success is verified.
    """
    body = plan_of(plan)
    _, role = danger(body)
    run = pod.runs.get(plan.run)
    lines: list[Line] = [
        [("PLAN ", "head"), (plan.playbook, "bold")],
        *fold(effects(body, run), width, role),
        [
            ("hash ", "dim"),
            (plan.plan_hash[:16], "accent"),
            (plan.plan_hash[16:] if width >= 100 else "…", "dim"),
            ("  ", ""),
            _expires(expiry(plan, pod, clock)),
        ],
        how_to_run,
    ]
    for number, step in enumerate(body.get("steps") or (), 1):
        title = step.get("title") or step.get("kind", "")
        lines += [[], [(f"{number}. ", "dim"), (title, "bold")]]
        lines += command_lines(step.get("command") or "", width)
        lines += _touched(step, width)
    lines += [[], [("then ", "head"), (verify_words(body.get("verify") or {}), "")]]
    return fitted(lines, width)


def _expires(left: float | None) -> Span:
    if left is None:
        return "expiry unknown until the pod answers", "warn"
    if not left:
        return "EXPIRED, make a new one", "bad bold"
    return f"expires in {formatting.duration(left)}", "warn" if left < 120 else "dim"


def command_lines(command: str, width: int, indent: int = 3) -> list[Line]:
    """Return `command`, the shell commands of a plan's step with "; " between them, in lines of at
    most `width` cells. Each command begins with a "$" after `indent` blanks, and is wrapped and
    never cut off. The result is empty for "".
    """
    lines: list[Line] = []
    for part in command.split("; ") if command else []:
        folded = fold(part, width, "accent", indent + 2)
        folded[0] = [(" " * indent + "$ ", "dim"), (folded[0][0][0].lstrip(), "accent")]
        lines += folded
    return lines


def _touched(step: PlanStep, width: int) -> list[Line]:
    shown = step.get("shown") or {}
    ended = []
    for p in shown.get("processes") or step.get("targets") or []:
        ended.append(_process(p))
    lines = [
        *_listed("ends", ended, "", width),
        *moved_lines(shown, width),
        *_listed("leaves alone", shown.get("left_alone") or [], "not provably ours", width),
    ]
    if shown.get("cwd"):
        lines.append([("     in ", "dim"), (shown["cwd"], "")])
    return lines


def moved_lines(shown: Shown, width: int) -> list[Line]:
    """Return lines of at most `width` cells that show what a step of a plan moves: the folder that
    holds all of the paths, then each path after its size (so that a long path cannot push the size
    out of sight), then the sum of the sizes.
    `shown` is the part of the step that says what it touches.
    """
    moved, sized, total = moved_entries(shown), [], 0
    folder = common_folder([path for path, _ in moved])
    for path, count in moved:
        name = path.removeprefix(folder)
        sized.append(f"{formatting.size(count):>10}  {name}" if count is not None else name)
        total += count or 0
    return [
        *_listed("out of", [folder] if folder else [], "", width),
        *_listed("moves", sized, f"{formatting.size(total)} in all" if total else "", width),
    ]


def common_folder(paths: Sequence[str]) -> str:
    """Return the folder that all `paths` are in, with "/" at its end, so that it is shown once and
    not in front of each of them. Return "" for fewer than two paths, and if only "/" is common.
    """
    folder = posixpath.commonprefix(paths).rpartition("/")[0] if len(paths) > 1 else ""
    return f"{folder}/" if folder else ""


def _process(entry: ShownProcess | str) -> str:
    """Return a process as text. A step has it as a sentence, as {pid, component, command}, or only
    as an identity.
    """
    if isinstance(entry, str):
        return entry
    pid, component, ticks = entry.get("pid"), entry.get("component") or "", entry.get("start_ticks")
    start = "" if ticks is None else f"start {ticks} "
    return f"pid {pid} {start}{component:<12} {entry.get('command', '')}".rstrip()


def _listed(word: str, entries: Sequence[object], note: str, width: int) -> Iterator[Line]:
    if not entries:
        return
    for entry in entries[:MOST]:
        yield cut([(f"     {word:<12} ", "dim"), (str(entry), "")], width)
        word = ""
    if len(entries) > MOST:
        yield cut([(f"     {'':<12} and {len(entries) - MOST} more", "warn")], width)
    if note:
        yield cut([(f"     {'':<12} {note}", "dim")], width)


def verify_words(verify: Mapping[str, Parameters]) -> str:
    """Return in words how it is verified that the run was repaired. `verify` is the entry "verify"
    of a plan or playbook, for example {"steps_advance": {"count": 2, "within": 1800}}: two new
    steps in 1800 seconds. If it is empty, the words say that no verification is named.
    """
    if "steps_advance" in verify:
        how = verify["steps_advance"] or {}
        limit = _limit(how.get("within", 1800))
        return (
            f"watch until {how.get('count', 2)} new steps are done, for at most {limit}: only "
            "that counts as recovered"
        )
    return ", ".join(f"{name} {how}" for name, how in verify.items()) or "no verification is named"


def _limit(within: Any) -> str:
    """Return a time limit in words. It is a number of seconds in a compiled playbook, and a text
    like "30m" in the file that a person writes.
    """
    if isinstance(within, str):
        return within
    if within >= 120:
        return f"{within / 60:.0f}m"
    return f"{within:.0f}s"


def action_lines(
    action: ActionView, pod: PodState, clock: Clock, width: int, next_key: Line
) -> list[Line]:
    """Return an action in lines of at most `width` cells: who requested it and when, the verdict
    (see `verdict`), the line `next_key` about what can be done next if it is not empty, and each
    step with its state and duration. The verdict stands above the steps, so that it is seen on a
    small terminal however many they are.
    """
    offset = pod.link.clock_offset or 0.0
    at = formatting.of_day(action.accepted_t - offset, seconds=True)
    lines: list[Line] = [
        [
            ("ACTION ", "head"),
            (action.playbook or action.kind, "bold"),
            (f"  by {action.who or 'nobody named'} at {at}", "dim"),
            (f"  plan {action.plan_hash[:16]}" if action.plan_hash else "", "dim"),
        ],
        *verdict(action, width),
    ]
    if next_key:
        lines.append(next_key)
    lines.append([])
    for number, step in enumerate(action.steps, 1):
        lines += _acted(number, step, clock.wall() + offset, width)
    return fitted(lines, width)


def _acted(number: int, step: StepView, now: float, width: int) -> Iterator[Line]:
    sign, role = _STEP_MARK.get(step.state, ("?", "warn"))
    title_role = {"running": "bold", "waiting": "dim"}.get(step.state, "")
    state: Line = []
    if step.started_t is not None:
        end = now if step.ended_t is None else step.ended_t
        state = [(f"  {step.state} {formatting.duration(end - step.started_t)}", role)]
    elif step.state != "waiting":
        state = [(f"  {step.state}", role)]
    line: Line = [(f"{sign} ", role), (f"{number}. ", "dim"), (step.title, title_role)]
    # How far the step is counts more than the end of its title.
    yield [*cut(line, width - width_of(state)), *state]
    if step.state in ("running", "failed"):
        yield from command_lines(step.command, width, 5)
    if step.detail:
        yield from fold(step.detail, width, "bad" if step.state == "failed" else "dim", 5)


def recovered(action: ActionView) -> bool:
    """Return True if the action has ended and has repaired the run."""
    return action.state == "done" and bool(action.result.get("recovered", True))


def verdict(action: ActionView, width: int) -> list[Line]:
    """Return lines of at most `width` cells that say whether the action has repaired the run, and
    the reason. While the action is under way, the lines say what it is waiting for.
    """
    waits: Line = [("… ", "accent bold")]
    if action.state == "verifying":
        detail = action.detail or "waiting for new steps"
        return [[*waits, ("verifying: ", "accent bold"), (detail, "")]]
    if not action.ended:
        goes_on = " on the pod; it goes on without this console"
        return [[*waits, (action.state, "accent bold"), (goes_on, "dim")]]
    head: Line = [("✔ ", "good bold"), ("RECOVERED", "good bold")]
    if not recovered(action):
        word = _NOT_RECOVERED.get(action.state, f"NOT RECOVERED ({action.state})")
        head = [("✖ ", "bad bold"), (word, "bad bold")]
    why = action.detail or str(action.result.get("message", ""))
    return [head, *(fold(why, width, "", 2) if why else [])]


def earlier(action: ActionView, pod: PodState, width: int) -> list[Line]:
    """Return an action that ended before an incident was opened, in one line of at most `width`
    cells, for the page of that incident: what was tried, by whom and when, and whether it repaired
    the run.
    """
    at = formatting.of_day(action.accepted_t - (pod.link.clock_offset or 0.0))
    word = text_of(verdict(action, width)[0])
    by = action.who or "nobody named"
    return [cut([(f"tried before: {action.playbook} by {by} at {at}: {word}", "dim")], width)]
