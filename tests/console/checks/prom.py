"""A strict reader of Prometheus' text format 0.0.4, written from its description: whatever it does
not allow is an error.
"""

from __future__ import annotations

import re

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)")


def parse(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """(metric, labels) -> value. ValueError names the line."""
    if text and not text.endswith("\n"):
        raise ValueError("the last line has no line feed")
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    typed: dict[str, str] = {}
    helped: set[str] = set()
    closed: set[str] = set()
    current = ""
    for number, line in enumerate(text.split("\n")[:-1], 1):
        if line.startswith("#"):
            match = re.fullmatch(rf"# (HELP|TYPE) ({_NAME}) (.+)", line)
            if match is None:
                raise ValueError(f"line {number}: neither HELP nor TYPE: {line}")
            kind, name, rest = match.groups()
            if (kind == "HELP" and name in helped) or (
                kind == "TYPE" and (name in typed or rest != "gauge")
            ):
                raise ValueError(f"line {number}: {kind} again, or an unknown type: {line}")
            helped |= {name} if kind == "HELP" else set()
            typed |= {name: rest} if kind == "TYPE" else {}
        else:
            match = _SAMPLE.fullmatch(line)
            if match is None:
                raise ValueError(f"line {number}: no sample: {line}")
            name, inside, value = match.groups()
            if name not in typed or name not in helped:
                raise ValueError(f"line {number}: {name} has no HELP and TYPE before it")
            key = (name, frozenset(_labels(inside, number).items()))
            if key in found:
                raise ValueError(f"line {number}: the same sample again")
            found[key] = float(value)
        if name != current:
            if name in closed:
                raise ValueError(f"line {number}: {name} does not stand together")
            closed |= {current}
            current = name
    return found


def _labels(inside: str | None, number: int) -> dict[str, str]:
    labels: dict[str, str] = {}
    at = 0
    while inside and at < len(inside):
        match = _LABEL.match(inside, at)
        if match is None or match[1] in labels:
            raise ValueError(f"line {number}: labels are malformed at {inside[at:]}")
        labels[match[1]] = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), match[2])
        at = match.end()
        if at < len(inside):
            if inside[at] != ",":
                raise ValueError(f"line {number}: no comma at {inside[at:]}")
            at += 1
    return labels
