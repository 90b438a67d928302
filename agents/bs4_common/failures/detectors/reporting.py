"""Helpers with which detectors write a finding: the finding itself, its evidence, and numbers as
text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bs4_common.failures.evidence import Evidence, as_evidence
from bs4_common.failures.facts import Finding, RunFacts
from bs4_common.states import Role, Severity

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def found(
    failure: str,
    run: RunFacts,
    summary: str,
    evidence: Sequence[Evidence],
    anchor: str,
    *,
    coverage: Sequence[str] = (),
    playbook: str | None = None,
    severity: Severity | None = None,
    role: Role | None = None,
    others: Sequence[str] = (),
) -> list[Finding]:
    """Return a list with one finding of the failure `failure` (a playbook's id) about the run's
    attempt. `summary` is a sentence for people. `anchor` is a text that names the first evidence;
    the incident's id is made from it, so it must stay the same from scan to scan. `coverage` lists
    what could not be seen.

    `severity` and `role` None mean that the failure's playbook decides both. `playbook` is the id
    of another playbook that repairs this case, or None for the failure's own. `others` are the
    names of the other runs without which the failure cannot be seen.
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
            others=others,
        )
    ]


def setting(run: RunFacts, key: str, text: str) -> Evidence:
    """Return the setting `key` of the run in the form of evidence, a dictionary (see
    `as_evidence`). Its text is the key followed by `text`, which says what the value is or what is
    wrong with it; its file is the run's config file.
    """
    return as_evidence("config", f"{key}: {text}", str(run.spec.config_path))


def size(number: float) -> str:
    """Return a number of bytes as text, for example `1.5 GiB`: in MiB below about 0.1 GiB, in KiB
    below about 0.1 MiB, and in bytes below 1 KiB. A size above 0 is never shown as zero.
    """
    for unit, least, name in ((GIB, GIB / 10, "GiB"), (MIB, MIB / 10, "MiB"), (KIB, KIB, "KiB")):
        if number >= least:
            return f"{number / unit:.1f} {name}"
    return f"{number:.0f} B"


def number(value: Any) -> float | None:
    """Return a setting's value as a number. A text such as "20" is converted, because a command
    line's values are texts. Return None for anything that is no number, also for True and False.
    """
    try:
        if value is None or isinstance(value, bool):
            return None
        return float(value)
    except (TypeError, ValueError):
        return None


def quiet(run: RunFacts) -> bool:
    """Return True if the run finished well or somebody has ordered the agent to stop it, so that
    what happens to it is no failure.
    """
    return run.good_end or run.stop_requested


def live(run: RunFacts) -> bool:
    """Return True if the run is starting or running and has neither finished well nor been ordered
    to stop.
    """
    return run.state in ("starting", "running") and not quiet(run)
