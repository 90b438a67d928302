"""An incident in lines: what is wrong, its evidence, and what would repair it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bs4_console.tui import words
from bs4_console.tui.ink import Line, cut, fold, width_of

if TYPE_CHECKING:
    from bs4_console.pods.state import IncidentView, PodState
    from bs4_console.tui.clock import Clock
    from bs4_console.tui.views.playbook import PlaybookText

_STATE = {
    "open": ("open", "bad bold"),
    "cleared": ("cleared by itself", "good"),
    "resolved": ("resolved, verified", "good bold"),
}


def heading(incident: IncidentView, pod: PodState, clock: Clock, width: int) -> list[Line]:
    """Return the incident's title, then its facts in one line."""
    bad = incident.state == "open"
    if bad:
        sign = "✖" if incident.severity == "critical" else "▲"
    else:
        sign = "✔"
    if bad and incident.severity == "critical":
        role = "alarm"
    elif bad:
        role = "warn bold"
    else:
        role = "good bold"
    offset = pod.link.clock_offset or 0.0
    if bad:
        until = clock.wall() + offset
    else:
        until = incident.updated_t
    word, state_role = _STATE.get(incident.state, (incident.state, "warn"))
    failure = f" · {incident.failure}"
    facts: Line = [
        (f" {incident.severity}", "bad" if incident.severity == "critical" else "warn"),
        (f" · {_role(incident.role)}", ""),
        (failure, ""),
        (
            f" · {incident.run or pod.name}, attempt {incident.attempt}"
            if incident.attempt
            else f" · {incident.run or pod.name}",
            "",
        ),
        (
            (
                f" · since {words.of_day(incident.opened_t - offset)} "
                f"({words.duration(until - incident.opened_t)})"
            ),
            "dim",
        ),
        (" · ", "dim"),
        (word, state_role),
    ]
    if width_of(facts) > width:
        facts = [part for part in facts if part[0] != failure]  # it stands in the top bar too
    title = fold(incident.title, width - 6, "bold")
    lines: list[Line] = [[(f" {sign} ", role), (" ", ""), *title[0]]]
    lines += [[("    ", ""), *line] for line in title[1:]]
    return [*lines, cut(facts, width)]


def _role(role: str) -> str:
    return {
        "root": "root cause",
        "cascade": "caused by another",
        "symptom": "symptom",
        "warning": "warning",
    }.get(role, role)


def evidence(incident: IncidentView, width: int) -> list[Line]:
    """Return the evidence of the incident: source, file, line and text of each entry, and what
    could not be observed.
    """
    lines: list[Line] = [[("HOW IT IS KNOWN", "head")]]
    if incident.summary:
        lines += fold(incident.summary, width)
    for entry in incident.evidence:
        lines += _seen(entry, width)
    if not incident.evidence:
        lines.append([("no line of a log: it was seen in processes, GPUs or files", "dim")])
    for gap in incident.coverage:
        lines += _unseen(str(gap), width)
    return [cut(line, width) for line in lines]


def _unseen(gap: str, width: int) -> list[Line]:
    """Return a gap in the coverage, for example "◌ kernel log not visible (permission denied):
    nothing of it could be evidence".
    """
    first, *rest = fold(
        f"{gap.replace(' is hidden', ' not visible', 1)}: nothing of it could be evidence",
        width - 2,
        "warn",
    )
    return [[("◌ ", "warn"), *first], *([("  ", ""), *line] for line in rest)]


def _seen(entry: dict[str, Any], width: int) -> list[Line]:
    place = str(entry.get("file") or entry.get("stream") or "")
    number = ""
    if entry.get("line"):
        number = f":{entry['line']}"
    source = str(entry.get("source") or "")
    room = max(12, width - len(source) - len(number) - 5)
    if len(place) > room:
        place = "…" + place[-(room - 1) :]
    lines: list[Line] = [
        [("· ", "dim"), (source, "accent"), ("  ", ""), (place, "dim"), (number, "dim")]
    ]
    if entry.get("text"):
        lines += fold(str(entry["text"]), width, "", 4)[:4]
    return lines


def would_do(
    text: PlaybookText | None, incident: IncidentView, keys: dict[str, str], width: int
) -> list[Line]:
    """Return the fix as it is known before there is a plan: the playbook's steps, or advice for a
    person if no playbook repairs it.
    """
    if incident.playbook is None:
        found = []
        for line in _by_hand(text, incident, width):
            found.append(cut(line, width))
        return found
    lines: list[Line] = [[("THE FIX ", "head"), (incident.playbook, "bold")]]
    if text is not None:
        if text.explanation:
            lines += fold(text.explanation, width, "")
        else:
            lines += []
        for number, step in enumerate(text.steps, 1):
            lines += _numbered(number, step, width)
        if text.verify:
            first, *more = fold(text.verify, width - 5)
            lines += [[("then ", "dim"), *first], *([("     ", ""), *line] for line in more)]
    lines += [
        [],
        [
            (f" {keys['plan']} ", "key @plan"),
            ("asks the agent what exactly it would do now. That changes nothing.", "@plan"),
        ],
    ]
    return [cut(line, width) for line in lines]


def _numbered(number: int, step: str, width: int) -> list[Line]:
    first, *more = fold(step, width - 3)
    return [[(f"{number}. ", "dim"), *first], *([("   ", ""), *line] for line in more)]


def _by_hand(text: PlaybookText | None, incident: IncidentView, width: int) -> list[Line]:
    """Return what a person can do about an incident that no playbook repairs safely."""
    if text is None or not (text.advice or text.leads_to):
        return [
            [("WHAT TO DO", "head")],
            [
                ("No playbook mends this by itself. ", ""),
                ("The evidence above is where to look.", "dim"),
            ],
        ]
    lines: list[Line] = [
        [("WHAT TO DO ", "head"), ("by hand: no machine can do this safely", "dim")]
    ]
    if text.explanation:
        lines += fold(text.explanation, width, "dim")
    else:
        lines += []
    for number, step in enumerate(text.advice, 1):
        lines += _numbered(number, step, width)
    if text.leads_to:
        lines.append(
            [("what helps: ", "dim"), (f"bs4-console playbook show {text.leads_to}", "accent")]
        )
    return lines
