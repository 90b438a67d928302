"""Helpers with which detectors write a finding: the finding itself, its evidence, and numbers as
text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bs4_agent.detect.facts import Finding, RunFacts
from bs4_agent.states import Role, Severity

GIB = 1 << 30


def found(
    failure: str,
    run: RunFacts,
    summary: str,
    evidence: Sequence[Mapping[str, Any]],
    anchor: str,
    *,
    coverage: Sequence[str] = (),
    playbook: str | None = None,
    severity: Severity | None = None,
    role: Role | None = None,
) -> list[Finding]:
    """Return a list with one finding. Without a role, the engine takes role and severity from the
    playbook. `playbook` replaces the failure's own.
    """
    return [
        Finding(
            failure=failure,
            run=run.name,
            attempt=run.attempt,
            summary=summary,
            evidence=evidence,
            anchor=anchor,
            severity=severity,
            role=role,
            coverage=coverage,
            playbook=playbook,
        )
    ]


def as_evidence(source: str, text: str, file: str = "") -> dict[str, Any]:
    """Return evidence that is a value and not a line: a setting, a reading of NVML, or a row of the
    provider's list.
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
    """Return evidence for one setting of the run: its key and `text`, in the run's config file."""
    return as_evidence("config", f"{key}: {text}", str(run.spec.config_path))


def size(number: float) -> str:
    """Return a number of bytes as text: `1.5 GiB`, or MiB for small numbers."""
    if number >= GIB / 10:
        return f"{number / GIB:.1f} GiB"
    return f"{number / (1 << 20):.1f} MiB"


def number(value: Any) -> float | None:
    """Return a setting as a number, or None if it is not a number. The command line's values are
    strings.
    """
    try:
        if value is None or isinstance(value, bool):
            return None
        return float(value)
    except (TypeError, ValueError):
        return None


def quiet(run: RunFacts) -> bool:
    """Return True if the run ended well or is being stopped, so that nothing is to be reported of
    it.
    """
    return run.good_end or run.stop_requested


def live(run: RunFacts) -> bool:
    """Return True if the run is starting or running and is to be judged."""
    return run.state in ("starting", "running") and not quiet(run)
