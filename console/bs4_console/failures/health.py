"""configs/health.toml: the ranges of a healthy training run, as the detectors' parameters."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from bs4_console.assets import find
from bs4_console.errors import UsageError

FILE = "health.toml"


def ranges() -> dict[str, dict[str, Any]]:
    """All tables by name. UsageError when the file is broken: a detector without its threshold
    would be no detector.
    """
    path = find("configs") / FILE
    try:
        return tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as bad:
        raise UsageError(
            f"{path} cannot be read: {bad}", "Mend it, or install bs4-console again."
        ) from bad


def with_ranges(detect: Mapping[str, Any]) -> dict[str, Any]:
    """`detect` with `with: {ranges: NAME}` replaced by the numbers of that table; the playbook's
    own parameters win.

    UsageError for a table that does not exist.
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
    """Metric -> its healthy (least, greatest), of those that have one; for charts."""
    found = {}
    for name, t in ranges().items():
        if "healthy" in t:
            found[name] = (float(t["healthy"][0]), float(t["healthy"][1]))
    return found
