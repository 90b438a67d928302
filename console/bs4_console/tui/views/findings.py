"""The result of the preflight in lines: for each finding its rule, place, reason and remedy, and
the memory that the run will need.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line, fold, hanging

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bs4_console.preflight.checks import Check, State

_SIGN: dict[State, tuple[str, str]] = {
    "blocking": ("✖", "bad bold"),
    "warning": ("▲", "warn bold"),
    "unknown": ("?", "warn"),
    "ok": ("✔", "good"),
}
#: What is said of one check in this state, and of several.
_SAID: dict[State, tuple[str, str]] = {
    "blocking": ("blocker", "blockers"),
    "warning": ("warning", "warnings"),
    "unknown": ("not known", "not known"),
    "ok": ("ok", "ok"),
}
#: What an estimate contains if the memory does not suffice, and how it begins if there is no
#: estimate.
_TOO_MUCH, _NONE = "DOES NOT FIT", "Not estimated"


def summary(checks: Sequence[Check], memory: Sequence[str]) -> Line:
    """Return the result of `checks`, the checks before a launch, in one line, for example "✖ 1
    blocker  ▲ 2 warnings  ✔ 14 ok   ✔ memory fits". `memory` is the estimate of the memory that
    the run needs, as lines of text, or empty if there is none.
    """
    line: Line = []
    counts = Counter(check.state for check in checks)
    for state, (sign, role) in _SIGN.items():
        if counts[state]:
            said = _SAID[state][counts[state] > 1]
            line += [(f"{sign} {counts[state]} {said}", role), ("   ", "")]
    if _TOO_MUCH in "\n".join(memory):
        line.append(("✖ memory does not fit", "bad bold"))
    elif any(text.strip().startswith(_NONE) for text in memory):
        line.append(("? memory not estimated", "warn"))
    elif memory:
        line.append(("✔ memory fits", "good"))
    return line


def lines(checks: Sequence[Check], width: int) -> list[Line]:
    """Return what the checks before a launch found, in lines of at most `width` cells: for each of
    `checks` that is not ok its name, why it is not ok, and what to do. The order is that of
    `checks`. The result is empty if all are ok.
    """
    found: list[Line] = []
    for check in checks:
        if check.state == "ok":
            continue
        sign, role = _SIGN[check.state]
        where = ""
        if check.title not in ("", check.id):
            where = f"  {check.title}"
        found.append(
            [
                (f"{sign} ", role),
                (check.id, "bold"),
                (where, "accent" if ", line " in where else "dim"),
            ]
        )
        found += fold(check.why, width, "", 2)
        if check.fix:
            found += hanging([("  → ", "dim")], fold(check.fix, width - 4))
    return found


def heading(checks: Sequence[Check]) -> Line:
    """Return the heading above the checks before a launch, which says how many of them are ok."""
    good = sum(check.state == "ok" for check in checks)
    return [
        ("BEFORE THE START ", "head"),
        (f"{good} of {formatting.count(len(checks), 'check')} ok", "dim"),
    ]


def memory_lines(memory: Sequence[str], width: int) -> list[Line]:
    """Return `memory`, the estimate of the memory that a run needs as lines of text, as styled
    lines of at most `width` cells. Sums and verdicts, such as whether the run fits, are emphasised.
    """
    found: list[Line] = []
    for number, text in enumerate(memory):
        if number == 0 and text.endswith(":"):
            found.append([("MEMORY ", "head"), (text.rstrip(":").removeprefix("memory "), "dim")])
            continue
        indent = len(text) - len(text.lstrip())
        folded = fold(text.strip(), max(20, width - indent), _role(text))
        found += hanging([(" " * indent, "")], folded, indent + 4)
    return found


def _role(text: str) -> str:
    if _TOO_MUCH in text:
        return "bad bold"
    if text.endswith("fits"):
        return "good"
    if _NONE in text:
        return "warn"
    if "GPU" in text and "GiB" not in text:
        return "bold"
    return ""
