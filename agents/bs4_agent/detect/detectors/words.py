"""How a detector says what it found: the finding, its evidence, and numbers in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bs4_agent.detect.facts import Finding, RunFacts

GIB = 1 << 30


def found(
    failure: str,
    run: RunFacts,
    summary: str,
    evidence: Sequence[Mapping[str, Any]],
    anchor: str,
    coverage: Sequence[str] = (),
    playbook: str | None = None,
) -> list[Finding]:
    """One finding; role and severity are left to the playbook, which the engine fills in."""
    return [
        Finding(
            failure=failure,
            run=run.name,
            attempt=run.attempt,
            summary=summary,
            evidence=evidence,
            anchor=anchor,
            severity=None,
            role=None,
            coverage=coverage,
            playbook=playbook,
        )
    ]


def told(source: str, text: str, file: str = "") -> dict[str, Any]:
    """Evidence that is a value, not a line: a setting, a reading of NVML, a row of the provider's
    list.
    """
    return {
        "source": source,
        "stream": "",
        "cursor": "",
        "file": file,
        "offset": 0,
        "line": 0,
        "text": text,
    }


def setting(run: RunFacts, key: str, text: str) -> dict[str, Any]:
    return told("config", f"{key}: {text}", str(run.spec.config_path))


def size(number: float) -> str:
    """`1.5 GiB`; small numbers in MiB."""
    if number >= GIB / 10:
        return f"{number / GIB:.1f} GiB"
    return f"{number / (1 << 20):.1f} MiB"


def number(value: Any) -> float | None:
    """A setting as a number; None for what is none. The command line's values are strings."""
    try:
        if value is None or isinstance(value, bool):
            return None
        return float(value)
    except (TypeError, ValueError):
        return None


def quiet(run: RunFacts) -> bool:
    """Nothing is to be said of a run that ended well or that we are stopping."""
    return run.good_end or run.stop_requested


def live(run: RunFacts) -> bool:
    return run.state in ("starting", "running") and not quiet(run)
