"""Who holds a GPU. NVML's pids may be another namespace's numbers: one counts only where our
process of that number has the device open.

A container below us has numbers of its own. Where NVML names those, each is the one holder of that
device which has it there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from typing import Any

from bs4_agent.identity import Identity
from bs4_agent.telemetry.processes import Snapshot

#: (run, component) of a process, or None when it belongs to no known run.
OwnerOf = Callable[[Identity], "tuple[str, str | None] | None"]


def nvml_pids(gpus: Mapping[str, Any]) -> set[int]:
    """Every pid that the driver names: candidates to look at, not yet processes of ours."""
    found = set()
    for device in gpus["devices"]:
        for proc in device.get("procs", ()):
            found.add(proc["pid"])
    return found


def attribute(
    gpus: Mapping[str, Any],
    snapshot: Snapshot,
    holders: Mapping[int, Set[int]],
    owner_of: OwnerOf,
    monitors: Collection[int] = (),
    inner: Mapping[int, Collection[int]] | None = None,
) -> dict[str, Any]:
    """The sample with each process's `visible`, `run` and `component`, and each device's
    `unaccounted` bytes. Pure.

    `holders`: pid -> minor numbers it has open (ProcessTable.holders); `monitors`: those of them
    that only watch; `inner`: the pids that holders have in containers below us. `pids` becomes
    * "local": NVML's pids are proved ours, or a container's and were translated. One that is no
      visible holder (it ended, or hides) stays listed with `visible` false.
    * "foreign": they are another namespace's numbers and are dropped, lest one be taken for the
      innocent process of that number here. In their place stand the visible processes that have the
      device open, `mem` null.
    * "unknown": there is none to judge by. The `pids` of the input, when not "unknown", is what was
      proved earlier and then stands.
    """
    computing = {
        pid
        for pid in holders
        if pid in snapshot and not snapshot[pid].ended and pid not in monitors
    }
    pids = _numbering(gpus, snapshot, computing)
    if (
        pids == "foreign"
        and (translated := _translated(gpus, {pid: holders[pid] for pid in computing}, inner or {}))
        is not None
    ):
        gpus, pids = translated, "local"

    def row(pid: int, mem: int | None, visible: bool) -> dict[str, Any]:
        run, component = (owner_of(snapshot[pid].identity) if visible else None) or (None, None)
        return {"pid": pid, "mem": mem, "visible": visible, "run": run, "component": component}

    devices = []
    for device in gpus["devices"]:
        listed = device.get("procs", ())
        if pids == "foreign":
            minor = device.get("minor", device["index"])
            procs = [
                row(pid, None, True)
                for pid in sorted(computing)
                if minor is not None and minor in holders[pid]
            ]
        else:
            procs = []
            for proc in listed:
                procs.append(row(proc["pid"], proc["mem"], proc["pid"] in computing))
        filled = {
            **device,
            "procs": procs,
            "unaccounted": _unaccounted(device, procs) if pids == "local" else None,
        }
        filled.pop("minor", None)
        devices.append(filled)
    return {**gpus, "pids": pids, "devices": devices}


def _numbering(gpus: Mapping[str, Any], snapshot: Snapshot, computing: Set[int]) -> str:
    """Whose numbers NVML's pids are. One match may be chance (one host pid among many equals a
    holder's), so most of them must match.
    """
    listed = nvml_pids(gpus)
    proved = listed & computing
    before = str(gpus.get("pids", "unknown"))
    if not listed:
        return before
    if proved and 2 * len(proved) >= len(listed):
        return "local"
    if before == "local" and (proved or not computing):
        return "local"  # the others ended, and the driver still lists them
    return "foreign"


def _translated(
    gpus: Mapping[str, Any], holders: Mapping[int, Set[int]], inner: Mapping[int, Collection[int]]
) -> dict[str, Any] | None:
    """The sample under our numbers; None unless it names any, and each is, in its container, the
    pid of just one holder of that device.
    """
    devices = []
    if not nvml_pids(gpus):
        return None
    for device in gpus["devices"]:
        procs = []
        for proc in device.get("procs", ()):
            minor = device.get("minor", device["index"])
            named = []
            for pid, open_minors in holders.items():
                if minor in open_minors and proc["pid"] in inner.get(pid, ()):
                    named.append(pid)
            if len(named) != 1:
                return None
            procs.append({**proc, "pid": named[0]})
        devices.append({**device, "procs": procs})
    return {**gpus, "devices": devices}


def _unaccounted(device: Mapping[str, Any], procs: Collection[Mapping[str, Any]]) -> int | None:
    """Bytes in use that no listed process accounts for: the driver's own, or a leak. Null when a
    part is unknown.
    """
    used = device.get("mem_used")
    if used is None or any(proc["mem"] is None for proc in procs):
        return None
    return max(int(used) - sum(int(proc["mem"]) for proc in procs), 0)
