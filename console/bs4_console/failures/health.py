"""Read configs/health.toml: the ranges of a healthy training run, as parameters of detectors."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from bs4_console.assets import find
from bs4_console.errors import UsageError

FILE = "health.toml"


def ranges() -> dict[str, dict[str, Any]]:
    """Return the thresholds of the detectors as tables by name, read from the shipped file
    health.toml. Raises UsageError if the file cannot be read, because a detector without its
    threshold would detect nothing.
    """
    path = find("configs") / FILE
    try:
        return tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as bad:
        raise UsageError(
            f"{path} cannot be read: {bad}", "Mend it, or install bs4-console again."
        ) from bad


def with_ranges(detect: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `detect`, the section of a playbook that says how its failure is detected.
    In the copy, each `with: {ranges: NAME}` is replaced by the thresholds of the table NAME in
    health.toml. A parameter that the playbook sets itself is not replaced. Raises UsageError if
    there is no such table or health.toml cannot be read.
    """
    parameters = dict(detect.get("with", {}))
    if "ranges" not in parameters:
        return dict(detect)
    name = parameters.pop("ranges")
    tables = ranges()
    if name not in tables:
        raise UsageError(f"{FILE} has no table {name!r}.", f"It has {', '.join(sorted(tables))}.")
    return {**detect, "with": {**tables[name], **parameters}}


def bands() -> dict[str, tuple[float, float]]:
    """Return the healthy range (least, greatest) of each metric that has one, by the metric's name,
    for the charts of the screen.
    """
    found = {}
    for name, t in ranges().items():
        if "healthy" in t:
            found[name] = (float(t["healthy"][0]), float(t["healthy"][1]))
    return found
