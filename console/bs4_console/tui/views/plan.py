"""A plan and an action in lines: the exact commands, what they touch, and how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bs4_console.tui import words
from bs4_console.tui.ink import Line, cut, fold

if TYPE_CHECKING:
    from bs4_console.pods.state import ActionView, PlanView, PodState, StepView
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
#: Most files and processes that are listed for a step. For the others their number and sum are
#: shown.
MOST = 40


def danger(plan: dict[str, Any]) -> tuple[str, str]:
    """Return what the plan does in words, and the role in which it is drawn."""
    word = str(plan.get("danger", "unknown"))
    return _DANGER.get(word, (f"danger: {word}", "bad bold"))


def must_type(plan: dict[str, Any]) -> bool:
    """Return True if a person has to type the run's name to confirm the plan."""
    return bool(plan.get("typed_name")) or plan.get("danger") not in ONE_KEY


def expiry(plan: PlanView, pod: PodState, clock: Clock) -> float | None:
    """Return the seconds until the agent refuses the plan, by the pod's monotonic clock. Returns
    None while that clock is unknown, and 0 if the plan has expired.

    The pod's clock now is estimated as that of its newest record plus the record's age here. The
    estimate is late by the time that the record was under way, never early.
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
    """Return the latest plan, or refusal of one, for this run. None as `playbook` or `attempt`
    allows any. Returns None if there is none.
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
    """Return the plan: a heading with hash, expiry and the key to press (`how_to_run`), then each
    step with its command and targets.
    """
    body = plan.plan
    does, role = danger(body)
    left = expiry(plan, pod, clock)
    until: Line = [("expiry unknown until the pod answers", "warn")]
    if left is not None:
        if left:
            until = [(f"expires in {words.duration(left)}", "warn" if left < 120 else "dim")]
        else:
            until = [("EXPIRED, make a new one", "bad bold")]
    lines: list[Line] = [
        [("PLAN ", "head"), (plan.playbook, "bold"), ("  ", ""), (does, role)],
        [
            ("hash ", "dim"),
            (plan.plan_hash[:16], "accent"),
            (plan.plan_hash[16:], "dim") if width >= 100 else ("…", "dim"),
            ("  ", ""),
            *until,
        ],
    ]
    lines.append(how_to_run)
    for number, step in enumerate(body.get("steps", []), 1):
        lines.append([])
        lines += _planned(number, step, width)
    verify = body.get("verify") or {}
    lines += [[], [("then ", "head"), (verify_words(verify), "")]]
    return [cut(line, width) for line in lines]


def _planned(number: int, step: dict[str, Any], width: int) -> list[Line]:
    lines: list[Line] = [
        [(f"{number}. ", "dim"), (str(step.get("title", step.get("kind", ""))), "bold")]
    ]
    lines += command_lines(str(step.get("command") or ""), width)
    lines += _touched(step, width)
    return lines


def command_lines(command: str, width: int, indent: int = 3) -> list[Line]:
    """Return the commands in full, each after a "$". What will run is never cut off."""
    lines: list[Line] = []
    for part in command.split("; ") if command else []:
        folded = fold(part, width, "accent", indent + 2)
        folded[0] = [(" " * indent + "$ ", "dim"), (folded[0][0][0].lstrip(), "accent")]
        lines += folded
    return lines


def _touched(step: dict[str, Any], width: int) -> list[Line]:
    shown: dict[str, Any] = step.get("shown") or {}
    lines: list[Line] = []
    lines += _listed(
        "ends",
        [_process(p) for p in shown.get("processes") or step.get("targets") or []],
        "",
        width,
    )
    directories = shown.get("directories") or []
    total = sum(d.get("bytes") or 0 for d in directories)
    lines += _listed(
        "moves",
        [f"{words.size(d.get('bytes')):>10}  {d.get('path')}" for d in directories],
        f"{words.size(total)} in all",
        width,
    )
    lines += _listed("moves", [str(e) for e in shown.get("entries") or []], "", width)
    left_alone = shown.get("left_alone") or []
    if left_alone:
        lines += _listed("leaves alone", [str(e) for e in left_alone], "not provably ours", width)
    if shown.get("cwd"):
        lines.append([("     in ", "dim"), (str(shown["cwd"]), "")])
    return lines


def _process(entry: Any) -> str:
    """Return a process as text. A step has it as a sentence, as {pid, component, command}, or only
    as an identity.
    """
    if isinstance(entry, str):
        return entry
    pid, component = entry.get("pid"), entry.get("component") or ""
    start = ""
    if entry.get("start_ticks") is not None:
        start = f"start {entry['start_ticks']} "
    return f"pid {pid} {start}{component:<12} {entry.get('command', '')}".rstrip()


def _listed(word: str, entries: list[str], note: str, width: int) -> list[Line]:
    if not entries:
        return []
    more = len(entries) - MOST
    lines: list[Line] = []
    for i, entry in enumerate(entries[:MOST]):
        lines.append([(f"     {word if i == 0 else '':<12} ", "dim"), (entry, "")])
    if more > 0:
        lines.append([(f"     {'':<12} and {more} more", "warn")])
    if note:
        lines.append([(f"     {'':<12} {note}", "dim")])
    return [cut(line, width) for line in lines]


def verify_words(verify: dict[str, Any]) -> str:
    """Return in words how the plan's success is verified."""
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


def action_lines(action: ActionView, pod: PodState, clock: Clock, width: int) -> list[Line]:
    """Return an action: each step with its mark, time and detail, then the verdict and why."""
    offset = pod.link.clock_offset or 0.0
    lines: list[Line] = [
        [
            ("ACTION ", "head"),
            (action.playbook or action.kind, "bold"),
            (
                (
                    f"  by {action.who or 'nobody named'} at "
                    f"{words.of_day(action.accepted_t - offset, seconds=True)}"
                ),
                "dim",
            ),
            (f"  plan {action.plan_hash[:16]}" if action.plan_hash else "", "dim"),
        ],
        [],
    ]
    for number, step in enumerate(action.steps, 1):
        lines += _acted(number, step, clock, offset, width)
    rows = []
    for line in [*lines, [], *verdict(action, width)]:
        rows.append(cut(line, width))
    return rows


def _acted(number: int, step: StepView, clock: Clock, offset: float, width: int) -> list[Line]:
    sign, role = _STEP_MARK.get(step.state, ("?", "warn"))
    line: Line = [
        (f"{sign} ", role),
        (f"{number}. ", "dim"),
        (
            step.title,
            "bold" if step.state == "running" else "dim" if step.state == "waiting" else "",
        ),
    ]
    if step.started_t is not None:
        if step.ended_t is not None:
            end = step.ended_t
        else:
            end = clock.wall() + offset
        line.append((f"  {step.state} {words.duration(end - step.started_t)}", role))
    elif step.state != "waiting":
        line.append((f"  {step.state}", role))
    lines = [line]
    if step.state in ("running", "failed"):
        lines += command_lines(step.command, width, 5)
    if step.detail:
        lines += fold(step.detail, width, "bad" if step.state == "failed" else "dim", 5)
    return lines


def verdict(action: ActionView, width: int) -> list[Line]:
    """Return whether the run has recovered and why, or what the action waits for while it is under
    way.
    """
    if action.state == "done":
        word = "DONE, NOT RECOVERED"
        if action.result.get("recovered", True):
            word = "RECOVERED"
        good = word == "RECOVERED"
        return [
            [
                ("✔ " if good else "✖ ", "good bold" if good else "bad bold"),
                (word, "good bold" if good else "bad bold"),
            ],
            *_why(action, width),
        ]
    if action.ended:
        word = {
            "plan-changed": "NOTHING MORE WAS DONE: what the plan had seen has changed",
            "busy": "NOT STARTED: another action holds the run",
        }.get(action.state, f"NOT RECOVERED ({action.state})")
        return [[("✖ ", "bad bold"), (word, "bad bold")], *_why(action, width)]
    if action.state == "verifying":
        return [
            [
                ("… ", "accent bold"),
                ("verifying: ", "accent bold"),
                (action.detail or "waiting for new steps", ""),
            ]
        ]
    return [
        [
            ("… ", "accent bold"),
            (f"{action.state}", "accent bold"),
            (" on the pod; it goes on without this console", "dim"),
        ]
    ]


def _why(action: ActionView, width: int) -> list[Line]:
    text = action.detail or str(action.result.get("message", ""))
    if text:
        return fold(text, width, "", 2)
    return []
