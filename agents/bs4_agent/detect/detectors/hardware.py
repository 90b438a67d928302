"""Detectors for what the driver reports of a GPU: lost, remapping rows, or asking for a reset.
Lines of the kernel log are signatures in the playbooks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bs4_agent.detect.detectors.words import found, live, told
from bs4_agent.detect.facts import Facts, Finding, RunFacts

Found = Sequence[Finding]


def gpu_off_bus(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """Return a finding if the driver has lost a GPU that it had."""
    lost = {}
    for i, text in facts.gpus.errors.items():
        if any(word in text.lower() for word in ("is lost", "fallen off", "does not list")):
            lost[i] = text
    if not lost or not live(run):
        return []
    evidence = []
    for i, text in sorted(lost.items()):
        evidence.append(told("nvml", f"GPU {i}: {text}"))
    first = min(lost)
    return found(
        "gpu-off-bus", run, f"GPU {first} is gone: {lost[first]}", evidence, f"gpu:{first}"
    )


def gpu_row_remap(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """Return a finding if a GPU has memory rows whose remapping is pending or has failed."""
    if not facts.gpus.remaps or not live(run):
        return []
    evidence = []
    for i, state in sorted(facts.gpus.remaps.items()):
        evidence.append(told("nvml", f"GPU {i}: row remapping {state}"))
    first = min(facts.gpus.remaps)
    return found(
        "gpu-row-remap-pending",
        run,
        f"GPU {first} has bad memory rows to remap ({facts.gpus.remaps[first]}).",
        evidence,
        f"gpu:{first}",
    )


def gpu_recovery_action(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """Return a finding if the driver asks for a recovery action for a GPU, such as a reset or a
    reboot.
    """
    if not facts.gpus.actions or not live(run):
        return []
    evidence = []
    for i, action in sorted(facts.gpus.actions.items()):
        evidence.append(told("nvml", f"GPU {i}: recovery action {action}"))
    first = min(facts.gpus.actions)
    return found(
        "gpu-recovery-action",
        run,
        f"The driver asks for a {facts.gpus.actions[first]} of GPU {first}.",
        evidence,
        f"gpu:{first}",
    )
