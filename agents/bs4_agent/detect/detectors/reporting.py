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
    """Return a list with one finding of `failure` about the run. Without `role`, role and severity
    come from the failure's playbook. `playbook` names another playbook that repairs it. `anchor` is
    a text that names the first evidence and keeps the incident's id the same.
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
    """Return a value (a setting, a reading of the driver, a row of the provider's list) in the form
    of evidence. `source` says where it comes from, and `file` is the file, if any.
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
    """Return a setting of the run in the form of evidence: its key, what `text` says about it, and
    the run's config file.
    """
    return as_evidence("config", f"{key}: {text}", str(run.spec.config_path))


def size(number: float) -> str:
    """Return a number of bytes as text, for example `1.5 GiB`, or in MiB below about 0.1 GiB."""
    if number >= GIB / 10:
        return f"{number / GIB:.1f} GiB"
    return f"{number / (1 << 20):.1f} MiB"


def number(value: Any) -> float | None:
    """Return a setting's value as a number. A text such as "20" is converted, because a command
    line's values are texts. Returns None for anything that is no number, also for True and False.
    """
    try:
        if value is None or isinstance(value, bool):
            return None
        return float(value)
    except (TypeError, ValueError):
        return None


def quiet(run: RunFacts) -> bool:
    """Return True if the run finished well or a person is stopping it, so that detectors report
    nothing.
    """
    return run.good_end or run.stop_requested


def live(run: RunFacts) -> bool:
    """Return True if the run is starting or running, has not finished and is not being stopped."""
    return run.state in ("starting", "running") and not quiet(run)
