"""How commands print: text for people on standard output, errors on standard error, JSON objects
that name their schema.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bs4_console.errors import FINDING
from bs4_console.pods.gate.plans import plan_of
from bs4_console.printable import escaped, one_line
from bs4_console.secret import redacted_values

if TYPE_CHECKING:
    from bs4_console.checks.diagnose import EvidenceRow
    from bs4_console.pods.state import PlanView


def emit(schema: str, **fields: Any) -> None:
    """Print one JSON object on one line of standard output. Its key `schema` is "bs4.NAME/1", where
    NAME is the argument `schema`; `fields` are its other keys. Several such lines are NDJSON. A
    value in `fields` that has a method `as_dict` is printed as what that returns, and a dataclass
    as a dictionary of its fields. A number that is not finite is printed as null.
    """
    body = json.dumps({"schema": f"bs4.{schema}/1", **fields}, ensure_ascii=False, default=_plain)
    # Redacted before the escapes of JSON stand in front of a secret or within it.
    # JSON has no NaN and no infinity: such a number is null.
    plain = json.loads(body, parse_constant=lambda _: None)
    body = json.dumps(redacted_values(plain), ensure_ascii=False, allow_nan=False)
    sys.stdout.write(escaped(body) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """Return a record as a dictionary, and a date or time (of a TOML file) as text. Raises
    TypeError for anything else.
    """
    if isinstance(value, datetime.date | datetime.time):
        return str(value)
    if hasattr(value, "as_dict"):
        return value.as_dict()
    return dataclasses.asdict(value)


def finding_code(found: object) -> int:
    """Return the exit code of a command that looks for problems. `found` is what it found: if that
    is empty, None, 0 or False, the code is 0, else 1.
    """
    return FINDING if found else 0


def complain(message: str) -> None:
    """Print a message on standard error, with the program's name before it."""
    sys.stderr.write(f"bs4-console: {message}\n")


def table(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> None:
    """Print `rows` as left-aligned columns under the headings `heads`, one line for each row. Each
    row has one text for each heading.
    """
    shown = [[head.upper() for head in heads]]
    for row in rows:
        shown.append([one_line(text) for text in row])
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def evidence_place(item: EvidenceRow) -> str:
    """Return the place of the piece of evidence `item` (a log line or reading behind a finding):
    its `file` and `line` as "FILE:LINE"; its `file` alone if it has no line number; or, if it has
    no file, its `source`, the name of the log. Return "" if `item` has none of these.
    """
    if item["line"]:
        return f"{item['file']}:{item['line']}"
    return item["file"] or item["source"]


def cell(text: str) -> str:
    """Return `text` in the form for one cell of a Markdown table: each vertical bar in it, which
    would end the cell, is escaped.
    """
    return text.replace("|", "\\|")


def clock(seconds: float) -> str:
    """Return `seconds`, a Unix time in seconds, as HH:MM:SS in the time zone of this machine."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def gib(size: float | None) -> str:
    """Return `size`, a number of bytes, as text in GiB, such as "9.8G", or "?" if it is None."""
    if size is None:
        return "?"
    return f"{size / (1 << 30):.1f}G"


def plan_text(view: PlanView) -> str:
    """Return the plan `view` as text that a person reads before confirming it: each step with its
    exact command and what the step would touch, how success is verified, and the plan's hash, by
    which the plan is confirmed.
    """
    plan = plan_of(view)
    lines = [
        f"{plan['title']}",
        f"  run {plan['run']}, attempt {plan['attempt']}, danger: {plan['danger']}",
    ]
    for number, step in enumerate(plan["steps"], 1):
        lines.append(f"  {number}. {step['title']}")
        if step["command"]:
            lines.append(f"       $ {step['command']}")
        shown = step["shown"] or {}
        for process in shown.get("processes") or ():
            if isinstance(process, str):
                text = process
            else:
                text = f"pid {process['pid']} {process['component'] or '?'}: {process['command']}"
            lines.append(f"       - {text[:150]}")
        for entry in shown.get("directories") or ():
            if not isinstance(entry, str):
                entry = f"{entry['path']} ({entry['bytes']} bytes)"
            lines.append(f"       - {entry}")
        for text in shown.get("left_alone") or ():
            lines.append(f"       - left alone: {text[:140]}")
    for kind, parameters in plan["verify"].items():
        words = ", ".join(
            f"{name} {value:g}" + (" s" if name == "within" else "")
            for name, value in parameters.items()
        )
        lines.append(f"  then verify: {kind.replace('_', ' ')} ({words})")
    lines.append(f"  plan {view.plan_hash}")
    return "\n".join(lines)
