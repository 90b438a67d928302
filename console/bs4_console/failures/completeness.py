"""What a playbook file still lacks, one sentence for each part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: Key of a playbook -> what to write there. The schema requires these keys in every playbook.
REQUIRED = {
    "id": "is missing; write the file's name without .yaml",
    "title": "is missing; say in at most 90 characters what is wrong",
    "role": (
        "is missing; write root (a cause), cascade or symptom (it follows from another failure), "
        "warning (it fails later if nothing changes) or maintenance"
    ),
    "severity": "is missing; write info, warning or critical",
    "danger": "is missing; write none, or the most dangerous thing that the fix does",
    "where": "is missing; write pod or console",
    "applies": "is missing; write [any], or name the trainers",
    "looks_like": "is missing; say what a person sees",
    "explanation": "is missing; say why it happens",
    "prevent": "is missing; say how to avoid it",
    "sources": "is missing; name an issue, a line of code or a log that shows this failure",
}
DETECT = "is missing; write a log signature under logs, or name a detector"
REMEDY = "needs one of fix, advice, leads_to; say what a person does about it"
PATTERN = "is missing; write a regular expression that finds the line"
POSITIVE = "is missing; add a log in which this failure must be found"
NEGATIVE = "is missing; add a log that looks like this failure and must stay silent"
LOG = "is missing; paste the lines as they stand in the log"

#: The dangers of a fix, least first, and the least danger of a fix that has a step. Steps that are
#: not named only look, wait, copy or tell.
DANGERS = ("none", "restart", "move", "kill", "command")
LEAST_DANGER = {
    "stop_run": "restart",
    "relaunch": "restart",
    "relaunch_companion": "restart",
    "edit_config": "restart",
    "move_files": "move",
    "move_run": "move",
    "move_steps": "move",
    "restore_set": "move",
    "end_port_holder": "kill",
    "end_processes": "kill",
    "command": "command",
}


def wrong_danger(playbook: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key in the playbook, sentence about what is wrong) if the `danger` of the playbook
    (the description of a known failure and its repair), which says how much harm the repair can do,
    is too low for one of the repair's steps, or if there is a danger and no repair. A person, and
    the mode "auto", go by the danger when they decide about a repair.
    """
    danger = playbook.get("danger")
    if danger not in DANGERS:
        return
    if danger != "none" and "fix" not in playbook:
        yield "danger", f"is {danger}, but there is no fix; write none"
    worst, step = danger, ""
    for entry in _mappings(playbook, "fix"):
        for name in entry:
            least = LEAST_DANGER.get(name, "none")
            if DANGERS.index(least) > DANGERS.index(worst):
                worst, step = least, name
    if step:
        yield "danger", f"is {danger}, but the step {step} is more; write {worst}"


def missing_parts(playbook: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (path in the file, sentence about what is missing) for each part without which the
    playbook (the description of a known failure and its repair) cannot be compiled, and for a
    `danger` that is too low for the playbook's repair. A key without a value counts as missing.
    """
    for key, sentence in REQUIRED.items():
        if _is_blank(playbook.get(key)):
            yield key, sentence
    role = playbook.get("role")
    if role != "maintenance" and _is_blank(playbook.get("detect")):
        yield "detect", DETECT
    remedies = [playbook.get("fix"), playbook.get("advice"), playbook.get("leads_to")]
    if role not in ("cascade", "maintenance") and _is_blank(remedies):
        yield "advice", REMEDY
    for index, signature in enumerate(_mappings(playbook, "detect", "logs")):
        if _is_blank(signature.get("pattern")):
            yield f"detect/logs/{index}/pattern", PATTERN
    yield from wrong_danger(playbook)


def missing_cases(playbook: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (path in the file, sentence about what is missing) for each test case that a playbook
    with log signatures must have and does not. A log signature is a regular expression by which the
    playbook recognises its failure in a log. The test cases of detectors are not checked here,
    because they are Python functions in tests/playbooks/facts.
    """
    has_signatures = bool(_mappings(playbook, "detect", "logs"))
    for kind, sentence in (("positive", POSITIVE), ("negative", NEGATIVE)):
        rows = _mappings(playbook, "cases", kind)
        if has_signatures and not rows:
            yield f"cases/{kind}", sentence
        for index, row in enumerate(rows):
            if _is_blank(row.get("log")):
                yield f"cases/{kind}/{index}/log", LOG


def _mappings(value: object, *keys: str) -> list[Mapping[str, Any]]:
    """Return the mappings of the list that stands under `keys`, one within the other. Return an
    empty list if something else stands there.
    """
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(value, list):
        return []
    return [row for row in value if isinstance(row, Mapping)]


def _is_blank(value: Any) -> bool:
    """Return whether nothing was written: no value, an empty one, or a list of such."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, list):
        return all(map(_is_blank, value))
    return value is None or value == {}
