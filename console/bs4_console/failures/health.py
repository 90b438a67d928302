"""Read configs/health.toml: the ranges of a healthy training run, as parameters of detectors."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any, TypedDict

from bs4_console.assets import find
from bs4_console.errors import UsageError
from bs4_console.failures.playbook_file import DetectFile

FILE = "health.toml"


class Range(TypedDict, total=False):
    """One table of health.toml, the shipped file with the numbers from which a training counts as
    unhealthy. Only those that the console itself reads have a name here; the others are parameters
    of detectors, the functions that recognise failures.
    """

    healthy: Sequence[float]
    """The least and the greatest healthy value."""
    min_gain: float
    """A reward that rises by less than this counts as not rising any more."""
    solved: float
    """A reward of at least this need not rise any more."""


def ranges() -> dict[str, Range]:
    """Return the numbers from which a training counts as unhealthy, as tables by name, read from
    the shipped file health.toml. The detectors of failures compare with them. Raises UsageError if
    the file cannot be read. Raises ConsoleError if a file of this console's own installation is
    missing.
    """
    path = find("configs") / FILE
    try:
        tables: dict[str, Range] = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as bad:
        raise UsageError(
            f"{path} cannot be read: {bad}", "Mend it, or install bs4-console again."
        ) from bad
    return tables


def with_ranges(detect: DetectFile) -> DetectFile:
    """Return a copy of `detect`, the section of a playbook (the description of a known failure)
    that says how the failure is detected. In the copy, each `with: {ranges: NAME}` is replaced by
    the thresholds of the table NAME in health.toml. A parameter that the playbook sets itself is
    not replaced. Raises UsageError if there is no such table or health.toml cannot be read.
    """
    parameters = dict(detect.get("with", {}))
    if "ranges" not in parameters:
        return detect.copy()
    name = str(parameters.pop("ranges"))
    tables = ranges()
    if name not in tables:
        raise UsageError(f"{FILE} has no table {name!r}.", f"It has {', '.join(sorted(tables))}.")
    whole: Any = {**tables[name], **parameters}
    return {**detect, "with": whole}


def bands() -> dict[str, tuple[float, float]]:
    """Return {name of a metric: (least, greatest)} with the healthy range of each metric that has
    one, such as "entropy". The charts of the screen show these ranges.
    """
    found = {}
    for name, t in ranges().items():
        if "healthy" in t:
            low, high = t["healthy"]
            found[name] = (float(low), float(high))
    return found
