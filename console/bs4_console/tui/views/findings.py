"""The result of the preflight in lines: for each finding its rule, place, reason and remedy, and
the memory that the run will need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.tui import words
from bs4_console.tui.ink import Line, fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bs4_console.preflight.checks import Check, State

_SIGN: dict[State, tuple[str, str]] = {
    "blocking": ("✖", "bad bold"),
    "warning": ("▲", "warn bold"),
    "unknown": ("?", "warn"),
    "ok": ("✔", "good"),
}
#: What an estimate contains if the memory does not suffice, and how it begins if there is no
#: estimate.
_TOO_MUCH, _NONE = "DOES NOT FIT", "Not estimated"


def summary(checks: Sequence[Check], memory: Sequence[str]) -> Line:
    """Return the result in one line, for example "✖ 1 forbids it  ▲ 2 warnings  ✔ 14 ok   ✔ memory
    fits". It stands above the plan however long that is.
    """
    line: Line = []
    for state, one in (
        ("blocking", "forbids it"),
        ("warning", "warning"),
        ("unknown", "not known"),
        ("ok", "ok"),
    ):
        count = sum(check.state == state for check in checks)
        if count:
            sign, role = _SIGN[state]  # type: ignore[index]
            if state == "warning" and count > 1:
                said = f"{one}s"
            elif count > 1:
                said = one.replace("forbids", "forbid")
            else:
                said = one
            line += [(f"{sign} {count} {said}", role), ("   ", "")]
    if any(_TOO_MUCH in text for text in memory):
        line.append(("✖ memory does not fit", "bad bold"))
    elif any(text.strip().startswith(_NONE) for text in memory):
        line.append(("? memory not estimated", "warn"))
    elif memory:
        line.append(("✔ memory fits", "good"))
    return line


def lines(checks: Sequence[Check], width: int) -> list[Line]:
    """Return a block of lines for each check that is not ok, in the given order."""
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
            first, *rest = fold(check.fix, width - 4)
            found += [[("  → ", "dim"), *first], *([("    ", ""), *line] for line in rest)]
    return found


def heading(checks: Sequence[Check]) -> Line:
    """Return the heading with the number of checks that are ok."""
    good = sum(check.state == "ok" for check in checks)
    return [
        ("BEFORE THE START ", "head"),
        (f"{good} of {words.count(len(checks), 'check')} ok", "dim"),
    ]


def memory_lines(memory: Sequence[str], width: int) -> list[Line]:
    """Return the memory estimate in lines of at most `width` cells, with its sums and verdicts
    emphasised.
    """
    found: list[Line] = []
    for number, text in enumerate(memory):
        if number == 0 and text.endswith(":"):
            found.append([("MEMORY ", "head"), (text.rstrip(":").removeprefix("memory "), "dim")])
            continue
        indent = len(text) - len(text.lstrip())
        if _TOO_MUCH in text:
            role = "bad bold"
        elif text.endswith("fits"):
            role = "good"
        elif _NONE in text:
            role = "warn"
        else:
            role = ""
        first, *rest = fold(
            text.strip(),
            max(20, width - indent),
            role or ("bold" if "GPU" in text and "GiB" not in text else ""),
        )
        found += [
            [(" " * indent, ""), *first],
            *([(" " * (indent + 4), ""), *line] for line in rest),
        ]
    return found
