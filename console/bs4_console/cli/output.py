"""How commands speak: text for people on stdout, errors on stderr, JSON objects that name their
schema.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bs4_console.printable import escaped, one_line


def emit(schema: str, **fields: Any) -> None:
    """One JSON object on one line, `schema` as `bs4.NAME/1`. A stream of them is NDJSON."""
    text = json.dumps({"schema": f"bs4.{schema}/1", **fields}, ensure_ascii=False)
    sys.stdout.write(escaped(text) + "\n")
    sys.stdout.flush()


def complain(message: str) -> None:
    sys.stderr.write(f"bs4-console: {message}\n")


def table(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> None:
    """Print rows below their heads in left-aligned columns. Each cell stays on its line."""
    cells = [[head.upper() for head in heads]]
    for row in rows:
        cells.append([one_line(cell) for cell in row])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def clock(seconds: float) -> str:
    """Wall time as HH:MM:SS, here."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def gib(size: float | None) -> str:
    if size is None:
        return "?"
    return f"{size / (1 << 30):.1f}G"


def plan_text(plan: Mapping[str, Any], plan_hash: str) -> str:
    """A plan as it is shown before it is confirmed: each step with its exact command and what it
    would touch.
    """
    lines = [
        f"{plan['title']}",
        f"  run {plan['run']}, attempt {plan['attempt']}, danger: {plan['danger']}",
    ]
    for number, step in enumerate(plan["steps"], 1):
        lines.append(f"  {number}. {step['title']}")
        if step["command"]:
            lines.append(f"       $ {step['command']}")
        for process in step["shown"].get("processes", []):
            if isinstance(process, str):
                text = process
            else:
                text = f"pid {process['pid']} {process['component'] or '?'}: {process['command']}"
            lines.append(f"       - {text[:150]}")
        for entry in step["shown"].get("directories", []):
            if not isinstance(entry, str):
                entry = f"{entry['path']} ({entry['bytes']} bytes)"
            lines.append(f"       - {entry}")
        for text in step["shown"].get("left_alone", []):
            lines.append(f"       - left alone: {text[:140]}")
    for kind, parameters in plan["verify"].items():
        words = ", ".join(
            f"{name} {value:g}" + (" s" if name == "within" else "")
            for name, value in parameters.items()
        )
        lines.append(f"  then verify: {kind.replace('_', ' ')} ({words})")
    lines.append(f"  plan {plan_hash}")
    return "\n".join(lines)
