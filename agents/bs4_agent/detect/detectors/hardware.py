"""Detectors for what the driver reports of a GPU: lost, remapping rows, or asking for a reset.
Lines of the kernel log are signatures in the playbooks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bs4_agent.detect.detectors.words import found, live, told
from bs4_agent.detect.facts import Facts, Finding, RunFacts

Found = Sequence[Finding]
_LOST = re.compile(r"is lost|fallen off|does not list", re.IGNORECASE)


def gpu_off_bus(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """Return a finding if the driver has lost a GPU that it had."""
    lost = {i: text for i, text in facts.gpus.errors.items() if _LOST.search(text)}
    return _by_gpu("gpu-off-bus", run, lost, "", "GPU {} is gone: {}")


def gpu_row_remap(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """Return a finding if a GPU has memory rows whose remapping is pending or has failed."""
    summary = "GPU {} has bad memory rows to remap ({})."
    return _by_gpu("gpu-row-remap-pending", run, facts.gpus.remaps, "row remapping ", summary)


def gpu_recovery_action(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """Return a finding if the driver asks for a recovery action for a GPU, such as a reset or a
    reboot.
    """
    summary = "The driver asks for a {1} of GPU {0}."
    return _by_gpu("gpu-recovery-action", run, facts.gpus.actions, "recovery action ", summary)


def _by_gpu(
    failure: str, run: RunFacts, reports: Mapping[int, str], what: str, summary: str
) -> Found:
    """Return a finding if the driver reports something of a GPU. `reports` are by device index.
    `summary` is a template for the index and the report of the first GPU.
    """
    if not reports or not live(run):
        return []
    evidence = [told("nvml", f"GPU {i}: {what}{text}") for i, text in sorted(reports.items())]
    first = min(reports)
    return found(failure, run, summary.format(first, reports[first]), evidence, f"gpu:{first}")
