"""Find out who holds a GPU. NVML's pids may be numbers of another namespace, so a pid counts only
if the local process with that number has the device open.

A container on this machine has pid numbers of its own. If NVML reports those, each must be the
number of exactly one holder of that device in its container.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from typing import Any

from bs4_agent.telemetry.processes import Snapshot
from bs4_common.identity import Identity

#: A function that returns the run and the component of a process, or None if it belongs to no known
#: run.
OwnerOf = Callable[[Identity], "tuple[str, str | None] | None"]


def nvml_pids(gpus: Mapping[str, Any]) -> set[int]:
    """Return every pid in `gpus`, a GPU sample as the driver made it. In a container these may be
    pids of the host, so they need not be those of processes that the agent sees. The set is empty
    if there are none.
    """
    return {proc["pid"] for device in gpus["devices"] for proc in device.get("procs", ())}


def attribute(
    gpus: Mapping[str, Any],
    snapshot: Snapshot,
    holders: Mapping[int, Set[int]],
    owner_of: OwnerOf,
    monitors: Collection[int] = (),
    inner: Mapping[int, Collection[int]] | None = None,
) -> dict[str, Any]:
    """Find out to which run each process on a GPU belongs. Return a copy of the GPU sample `gpus`
    in which each process has `visible`, `run` and `component`, and each device has `unaccounted`:
    the used bytes that no listed process has, or None if that is not known. `snapshot` has the
    pod's processes.

    `holders` maps pids to the minor numbers of the GPUs that they have open (see
    ProcessTable.holders), `monitors` are those of these pids whose processes only watch the GPUs,
    and `inner` maps pids to the pids that the same processes have inside containers on this
    machine. `owner_of` is a function that returns the run and the component of a process, or None.
    The result's `pids` says what the driver's pids are:

    * "local": pids of this machine, or translated into them. A pid whose process has ended or is
      hidden stays listed, with `visible` False.
    * "foreign": pids of another namespace. They are dropped, because each could be the number of an
      innocent local process. In their place are the visible processes that have the device open,
      with `mem` None.
    * "unknown": nothing shows what they are. If the `pids` of the input says what was found
      earlier, that is kept.
    """
    computing = {
        pid
        for pid in holders
        if pid in snapshot and not snapshot[pid].ended and pid not in monitors
    }
    pids = _numbering(gpus, snapshot, computing)
    if pids == "foreign":
        translated = _translated(gpus, {pid: holders[pid] for pid in computing}, inner or {})
        if translated is not None:
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
    """Return whose numbers NVML's pids are: "local", "foreign" or "unknown". One match may be
    chance, because one host pid among many equals a holder's, so at least half of them must match.
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
    """Return the sample with local pids. None if it has no pids, or if a pid is not the number, in
    its container, of exactly one holder of that device.
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
    """Return the bytes in use that no listed process accounts for: the driver's own, or a leak.
    None if a part is not known.
    """
    used = device.get("mem_used")
    if used is None or any(proc["mem"] is None for proc in procs):
        return None
    return max(int(used) - sum(int(proc["mem"]) for proc in procs), 0)
