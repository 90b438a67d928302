"""Detectors for GPU memory that is held by a process of no live run, so that a run cannot start;
and for what the driver reports of a GPU: lost, remapping rows, or asking for a reset.

Lines of the kernel log are signatures in the playbooks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bs4_common.credentials.forms import shown_command
from bs4_common.failures.compiled import Parameters
from bs4_common.failures.detectors.reporting import found, live
from bs4_common.failures.evidence import as_evidence, process_evidence
from bs4_common.failures.facts import Facts, Finding, Holder, LogEvent, RunFacts

Found = Sequence[Finding]
GIB = 1 << 30
_LOST = re.compile(r"is lost|fallen off|does not list", re.IGNORECASE)


def stale_gpu_process(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if this run found
    too little free GPU memory while a process of no live run holds GPU memory, more than
    `parameters["min_mb"]` megabytes (10^6 bytes, default 1000) or an unknown amount. Else, or if
    the trainer has made a step, return an empty list. If only the files of a finished run are read,
    a log line of vLLM which says that memory was taken before its start is enough.
    """
    gpus = facts.gpus
    if run.stop_requested or run.good_end or run.trainer_side.steps:
        return []
    if run.state == "files":
        return _said(run)
    min_bytes = int(parameters.get("min_mb", 1000)) * 1_000_000
    refused = run.events_of("gpu-memory")
    if gpus.state != "ok" or not refused:
        return []
    stale, evidence = [], [refused[0].evidence()]
    for holder in gpus.holders:
        big = holder.mem is None or holder.mem > min_bytes
        if holder.run is None and big and gpus.used.get(holder.gpu, 0) > min_bytes:
            stale.append(holder)
            evidence.append(process_evidence(holder.identity, _describe(holder)))
    if not stale:
        return []
    first = min(stale, key=lambda holder: holder.dead_run is None)
    known = "of no run known here"
    if first.dead_run is not None:
        known = f"left behind by {first.dead_run}"
    holds = f"holds {_size(first, gpus.used)} on GPU {first.gpu}"
    coverage = []
    if gpus.pids == "foreign":
        coverage = ["NVML reports pids of another namespace: memory per process is unknown"]
    return [
        Finding(
            failure="stale-gpu-process",
            run=run.name,
            attempt=run.attempt,
            summary=f"{run.name} finds no free GPU memory: pid {first.identity.pid} ({known}) "
            f"{holds}.",
            evidence=evidence,
            anchor=f"pid:{first.identity.pid}:{first.identity.start_ticks}",
            coverage=coverage,
        )
    ]


def _said(run: RunFacts) -> Sequence[Finding]:
    """Return a finding from finished files if vLLM found memory taken before it had taken any
    itself. No finding if the server became ready later.
    """
    refused: LogEvent | None = None
    for event in run.events:
        if refused is not None and event.event.kind == "ready":
            return []
        if event.event.kind == "gpu-memory" and "free_gib" in event.event.values:
            refused = refused or event
    if refused is None:
        return []
    return [
        Finding(
            failure="stale-gpu-process",
            run=run.name,
            attempt=run.attempt,
            summary=refused.text[:300],
            evidence=[refused.evidence()],
            anchor=f"{refused.file}:{refused.offset}",
            coverage=["files do not tell which process held the memory"],
        )
    ]


def _size(holder: Holder, used: Mapping[int, int]) -> str:
    """Return a phrase for how much GPU memory a process holds."""
    if holder.mem is not None:
        return f"{holder.mem / GIB:.1f} GiB"
    return f"some of the {used.get(holder.gpu, 0) / GIB:.1f} GiB in use"


def _describe(holder: Holder) -> str:
    """Return a phrase for a process: its command, its GPU and its run."""
    owner = f"belonged to {holder.dead_run}" if holder.dead_run else "belongs to no run known here"
    return f"{shown_command(holder.cmdline, 120)} on GPU {holder.gpu}, {owner}"


def gpu_off_bus(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the run lives and
    the NVIDIA driver reports that it has lost a GPU of the pod, else an empty list. `parameters` is
    not used.
    """
    lost = {}
    for i, text in facts.gpus.errors.items():
        if _LOST.search(text):
            lost[i] = text
    return _by_gpu("gpu-off-bus", run, lost, "", "GPU {} is gone: {}")


def gpu_row_remap(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the run lives and
    the driver reports a GPU of the pod with bad memory rows whose replacement by spare rows is
    pending or has failed, else an empty list. `parameters` is not used.
    """
    summary = "GPU {} has bad memory rows to remap ({})."
    return _by_gpu("gpu-row-remap-pending", run, facts.gpus.remaps, "row remapping ", summary)


def gpu_recovery_action(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the run lives and
    the driver asks for the recovery of a GPU of the pod, such as a reset or a reboot, else an empty
    list. `parameters` is not used.
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
    evidence = []
    for i, text in sorted(reports.items()):
        evidence.append(as_evidence("nvml", f"GPU {i}: {what}{text}"))
    first = min(reports)
    return found(failure, run, summary.format(first, reports[first]), evidence, f"gpu:{first}")
