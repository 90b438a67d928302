"""An incident in lines: what is wrong, its evidence, and what would repair it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.pods.state import evidence_of
from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line, cut, fold, hanging, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bs4_console.pods.state import ActionView, Evidence, IncidentView, PodState
    from bs4_console.tui.clock import Clock
    from bs4_console.tui.views.playbook import PlaybookText

_ROLE = {
    "root": "root cause",
    "cascade": "caused by another",
    "symptom": "symptom",
    "warning": "warning",
}
_STATE = {
    "open": ("open", "bad bold"),
    "cleared": ("cleared by itself", "good"),
    "resolved": ("resolved, verified", "good bold"),
}

#: What stands before the title of an incident that is over, so that it is not read as present.
_OVER = {"resolved": "RECOVERED. It was: ", "cleared": "CLEARED BY ITSELF. It was: "}


def heading(
    incident: IncidentView,
    pod: PodState,
    clock: Clock,
    width: int,
    action: ActionView | None = None,
) -> list[Line]:
    """Return the incident's title in lines of at most `width` cells, and below it one line with its
    severity, its role (whether it is the cause or was caused by another incident), its failure, its
    run, when it began and its state. `action` is the action that repairs it, or None. If the
    incident has cleared and that action has recovered the run, its state is shown as "resolved" and
    not as cleared by itself.
    """
    state: str = incident.state
    if state == "cleared" and action is not None and action.result.get("recovered"):
        state = "resolved"
    offset = pod.link.clock_offset or 0.0
    sign, role, until = "✔", "good bold", incident.updated_t
    if incident.state == "open":
        sign, role, until = "▲", "warn bold", clock.wall() + offset
        if incident.severity == "critical":
            sign, role = "✖", "alarm"
    failure = f" · {incident.failure}"
    subject = f" · {incident.run or pod.name}"
    if incident.attempt:
        subject += f", attempt {incident.attempt}"
    since = formatting.of_day(incident.opened_t - offset)
    facts: Line = [
        (f" {incident.severity}", "bad" if incident.severity == "critical" else "warn"),
        (f" · {_ROLE.get(incident.role, incident.role)}", ""),
        (failure, ""),
        (subject, ""),
        (f" · since {since} ({formatting.duration(until - incident.opened_t)})", "dim"),
        (" · ", "dim"),
        _STATE.get(state, (state, "warn")),
    ]
    if width_of(facts) > width:
        facts.remove((failure, ""))  # it stands in the top bar too
    title = fold(f"{_OVER.get(state, '')}{incident.title}", width - 6, "bold")
    return [*hanging([(f" {sign} ", role), (" ", "")], title), cut(facts, width)]


def evidence(incident: IncidentView, width: int, action: ActionView | None = None) -> list[Line]:
    """Return the incident's evidence (the log lines and readings behind it) in lines of at most
    `width` cells: its summary; source, file, line number and text of each entry; and what could not
    be observed on the pod. `action` is the repair that the page shows above, or None. If the
    incident is open and was last seen before that repair began, the heading says that the evidence
    is older than the repair.
    """
    lines: list[Line] = [[("EVIDENCE", "head")]]
    if incident.state == "open" and action is not None and incident.updated_t < action.accepted_t:
        lines[0].append(("  as it was seen before this fix", "warn" if action.ended else "dim"))
    if incident.summary:
        lines += fold(incident.summary, width)
    for entry in incident.evidence:
        lines += _seen(evidence_of(entry), width)
    if not incident.evidence:
        lines.append([("no line of a log: it was seen in processes, GPUs or files", "dim")])
    for gap in incident.coverage:
        lines += _unseen(str(gap), width)
    return [cut(line, width) for line in lines]


def later(
    incidents: Sequence[IncidentView], pod: PodState, keys: dict[str, str], width: int
) -> list[Line]:
    """Return the open incidents that were opened after the one that the page is about, in lines of
    at most `width` cells: title, time, summary and the newest line of evidence of each, and the key
    that opens its page. `keys` maps the ids of commands to their keys.
    """
    offset = pod.link.clock_offset or 0.0
    lines: list[Line] = [
        [
            ("OPEN NOW ", "head"),
            (keys["next-incident"], "key @next-incident"),
            (" goes there", "@next-incident"),
        ]
    ]
    for incident in incidents:
        sign, role = "▲", "warn bold"
        if incident.severity == "critical":
            sign, role = "✖", "bad bold"
        since: Line = [(f"  since {formatting.of_day(incident.opened_t - offset)}", "dim")]
        lines += hanging([(f"{sign} ", role)], fold(incident.title, width - 2, role))
        lines[-1] += since
        if incident.summary:
            lines += fold(incident.summary, width, "", 2)[:3]
        for entry in incident.evidence[-1:]:
            lines += _seen(evidence_of(entry), width)
    return [cut(line, width) for line in lines]


def _unseen(gap: str, width: int) -> Iterable[Line]:
    """Return a gap in the coverage, for example "◌ kernel log not visible (permission denied):
    it was not looked at".
    """
    shown = gap.replace(" is hidden", " not visible", 1)
    text = f"{shown}: it was not looked at"
    return hanging([("◌ ", "warn")], fold(text, width - 2, "warn"))


def _seen(entry: Evidence, width: int) -> list[Line]:
    place, source = entry["file"] or entry["stream"], entry["source"]
    number = f":{entry['line']}" if entry["line"] else ""
    place = formatting.path_end(place, max(12, width - len(source) - len(number) - 5))
    lines: list[Line] = [
        [("· ", "dim"), (source, "accent"), ("  ", ""), (place, "dim"), (number, "dim")]
    ]
    if entry["text"]:
        lines += fold(entry["text"], width, "", 4)[:4]
    return lines


def would_do(
    text: PlaybookText | None, incident: IncidentView, keys: dict[str, str], width: int
) -> list[Line]:
    """Return, in lines of at most `width` cells, how the incident can be repaired: the steps of its
    playbook, or advice for a person if no playbook repairs it. The page shows this as long as there
    is no plan. `text` is what the file of the playbook (or of the failure, if there is no playbook)
    says, or None if this console has no such file. `keys` maps the ids of commands to their keys.
    """
    if incident.playbook is None:
        return [cut(line, width) for line in _by_hand(text, width)]
    lines: list[Line] = [[("THE FIX ", "head"), (incident.playbook, "bold")]]
    lines += instead(text, incident, width)
    if text is not None:
        lines += _numbered(text.steps, width)
        if text.verify:
            lines += hanging([("then ", "dim")], fold(text.verify, width - 5))
    lines += [
        [],
        [
            (f" {keys['plan']} ", "key @plan"),
            ("asks the agent what exactly it would do now. That changes nothing.", "@plan"),
        ],
    ]
    if text is not None and text.explanation:
        lines += [[], [("IN MORE WORDS", "head")], *fold(text.explanation, width)]
    return [cut(line, width) for line in lines]


def instead(text: PlaybookText | None, incident: IncidentView, width: int) -> list[Line]:
    """Return, in lines of at most `width` cells, why another playbook than the failure's own
    repairs the incident. `text` is what the file of that playbook says, or None if this console has
    no such file. The result is empty if the incident is repaired by its own playbook.
    """
    if text is None or not text.looks_like or incident.playbook in (None, incident.failure):
        return []
    why = f"and not {incident.failure}, because: {text.looks_like}"
    return [cut(line, width) for line in fold(why, width, "warn")]


def _numbered(steps: Sequence[str], width: int) -> Iterator[Line]:
    """Yield each step with its number."""
    for number, step in enumerate(steps, 1):
        indent = len(str(number)) + 2
        yield from hanging([(f"{number}. ", "dim")], fold(step, width - indent), indent)


def _by_hand(text: PlaybookText | None, width: int) -> list[Line]:
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
        [("WHAT TO DO ", "head"), ("by hand: no machine can do this safely", "dim")],
        *_numbered(text.advice, width),
    ]
    if text.leads_to:
        lines.append(
            [("what helps: ", "dim"), (f"bs4-console playbook show {text.leads_to}", "accent")]
        )
    if text.explanation:
        lines += [[], [("IN MORE WORDS", "head")], *fold(text.explanation, width, "dim")]
    return lines
