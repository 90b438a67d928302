"""Say what a machine is in a few words, from its telemetry."""

from __future__ import annotations

from collections import Counter

from bs4_console.pods.state import PodState

_LONGEST = 120
_GIB = 1 << 30


def seen(pod: PodState) -> dict[str, str]:
    """Return facts about the machine of a pod, from its newest telemetry, as {name: text}: `gpus`
    (how many of which model), `driver`, `cores` and `memory`. A fact that the telemetry does not
    have is left out.
    """
    gpus, host = pod.latest.get("gpus") or {}, pod.latest.get("host") or {}
    found = {}
    names: Counter[str] = Counter()
    for device in gpus.get("devices") or ():
        names[(device.get("name") or "GPU of unknown name")[:_LONGEST]] += 1
    if names:
        found["gpus"] = ", ".join(f"{count} x {name}" for name, count in sorted(names.items()))
    if driver := gpus.get("driver"):
        found["driver"] = driver[:_LONGEST]
    if host.get("cores"):
        found["cores"] = str(host["cores"])[:_LONGEST]
    total = host.get("mem_total")
    if total is not None:
        found["memory"] = f"{total / _GIB:.0f} GiB"
    return found


def disks(pod: PodState) -> list[str]:
    """Return one text for each disk that a run of the pod writes to: its path, its size and its
    free space, from the pod's newest telemetry. The list is empty if the telemetry names no disk.
    """
    found = []
    host = pod.latest.get("host") or {}
    for disk in host.get("disks") or ():
        total, free = disk.get("total"), disk.get("free")
        if total is not None and free is not None:
            path = disk["path"][:_LONGEST]
            found.append(f"{path}: {total / _GIB:.0f} GiB, {free / _GIB:.0f} free")
    return found
