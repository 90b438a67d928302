"""Say what a machine is in a few words, from its telemetry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from bs4_console.pods.state import PodState

_LONGEST = 120
_GIB = 1 << 30


def seen(pod: PodState) -> dict[str, str]:
    """Return facts about the machine of a pod, from its newest telemetry, as {name: text}: `gpus`
    (how many of which model), `driver`, `cores` and `memory`. A fact that the telemetry does not
    have is left out.
    """
    gpus, host = _table(pod.latest.get("gpus")), _table(pod.latest.get("host"))
    found = {}
    names: Counter[str] = Counter()
    devices = gpus.get("devices")
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, Mapping):
            names[str(device.get("name") or "GPU of unknown name")[:_LONGEST]] += 1
    if names:
        found["gpus"] = ", ".join(f"{count} x {name}" for name, count in sorted(names.items()))
    if gpus.get("driver"):
        found["driver"] = str(gpus["driver"])[:_LONGEST]
    if host.get("cores"):
        found["cores"] = str(host["cores"])[:_LONGEST]
    total = host.get("mem_total")
    if isinstance(total, int | float):
        found["memory"] = f"{total / _GIB:.0f} GiB"
    return found


def disks(pod: PodState) -> list[str]:
    """Return one text for each disk that a run of the pod writes to: its path, its size and its
    free space, from the pod's newest telemetry. The list is empty if the telemetry names no disk.
    """
    found = []
    told = _table(pod.latest.get("host")).get("disks")
    for disk in told if isinstance(told, list) else ():
        sizes = _table(disk)
        total, free = sizes.get("total"), sizes.get("free")
        if isinstance(total, int | float) and isinstance(free, int | float):
            path = str(sizes.get("path"))[:_LONGEST]
            found.append(f"{path}: {total / _GIB:.0f} GiB, {free / _GIB:.0f} free")
    return found


def _table(value: Any) -> Mapping[str, Any]:
    """Return a table that a pod sent, or an empty one if it is none."""
    if isinstance(value, Mapping):
        return value
    return {}
