"""Make one telemetry record a second: GPUs, host, and the processes of the known runs."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_agent.scope import Scope
from bs4_agent.telemetry.background import GuardedGpus
from bs4_agent.telemetry.host import HostSampler
from bs4_agent.telemetry.kernel import KernelLog
from bs4_agent.telemetry.ownership import attribute, nvml_pids
from bs4_agent.telemetry.processes import ProcessTable, Snapshot
from bs4_common.clock import stamp
from bs4_common.errors import SpoolFull
from bs4_common.identity import Identity
from bs4_common.telemetry import Gpus, Process, Telemetry, WatchedRun

_INTERVAL_S = 1.0
# Processes are scanned at every third tick. A cold pass over 60 of them is 1.6 ms, twice the rest
# of a tick with 8 GPUs.
_PROCESSES_S = 2.9
_FIRST_WAIT_S = 0.3


@dataclass(frozen=True)
class RunMembers:
    """The processes of one attempt of a run, each as a pair (identity, component). The component is
    the part of the trainer to which the process belongs, such as "engine", or None if it is not
    known. Processes that have ended may be among them.
    """

    run: str
    attempt: int
    members: Sequence[tuple[Identity, str | None]]


class Sampler:
    """Makes a telemetry record every second and passes it to the function `streams_append`, which
    writes it to the telemetry stream.

    The function `runs` returns the processes of the known runs, and `paths` the directories whose
    disks are measured. `gpus` samples the GPUs; the code that has made it must close it. `close`
    ends everything else that this object has started.
    """

    def __init__(
        self,
        scope: Scope,
        gpus: GuardedGpus,
        table: ProcessTable,
        streams_append: Callable[[Telemetry], object],
        runs: Callable[[], Sequence[RunMembers]],
        paths: Callable[[], Sequence[Path]],
    ) -> None:
        self._scope = scope
        self._gpus = gpus
        self._table = table
        self._append = streams_append
        self._runs = runs
        self._host = HostSampler(paths)
        self._numbering = "unknown"
        self._holders: dict[int, set[int]] = {}
        self._holders_m = 0.0
        self._monitors: set[int] = set()
        self._hidden_files = False
        self.dropped = 0
        """The number of records that could not be written because the agent's disk is full.
        Telemetry is dropped before anything else.
        """
        kernel = KernelLog(scope.dev)
        self._kernel_log = kernel.state
        kernel.close()

    def tick(self) -> Telemetry:
        """Make one telemetry record of this moment and return it, in the form that docs/wire.md
        describes. It is not written to the telemetry stream.
        """
        runs = self._runs()
        snapshot = self._table.snapshot(_PROCESSES_S)
        gpus = self._attributed(snapshot, runs)
        return {
            **stamp(),
            "gpus": gpus,
            "host": self._host.sample(),
            "runs": [_run_row(run, snapshot) for run in runs],
            "coverage": self._coverage(gpus),
        }

    def run(self, stop: threading.Event) -> None:
        """Make a record every second and write it to the telemetry stream, until `stop` is set. If
        making a record takes longer than a second, the seconds that have passed get no record, and
        the next one comes at a full second again.

        If there is no room on the disk, a record is dropped and counted in the attribute `dropped`.
        """
        self._gpus.wait_first(_FIRST_WAIT_S)
        self._host.wait_first(_FIRST_WAIT_S)
        start = time.monotonic()
        number = 0
        while not stop.is_set():
            record = self.tick()
            try:
                self._append(record)
            except (SpoolFull, OSError):
                self.dropped += 1
            elapsed = time.monotonic() - start
            number = max(number + 1, math.ceil(elapsed / _INTERVAL_S))
            stop.wait(number * _INTERVAL_S - elapsed)

    def close(self) -> None:
        """Stop the thread that measures disks. To end `run`, set its `stop` instead. The GPU source
        is not closed, because the caller owns it.
        """
        self._host.close()

    def _attributed(self, snapshot: Snapshot, runs: Sequence[RunMembers]) -> Gpus:
        """Return the newest GPU sample with its processes attributed to runs."""
        gpus = self._gpus.latest()
        gpus["xids"] = self._gpus.take_xids()
        if gpus["pids"] == "unknown":
            gpus["pids"] = self._numbering
        owners = {
            identity: (run.run, component) for run in runs for identity, component in run.members
        }
        self._look_for_holders(snapshot, nvml_pids(gpus) if gpus["devices"] else None)
        result = attribute(
            gpus,
            snapshot,
            self._holders,
            owners.get,
            self._monitors,
            self._table.inner(self._holders),
        )
        self._numbering = str(result["pids"])
        return result

    def _look_for_holders(self, snapshot: Snapshot, named: set[int] | None) -> None:
        """Find the holders of the GPUs, anew with each snapshot. `named` are the pids that the
        driver reports, or None without GPUs.
        """
        if named is None:
            self._holders, self._monitors = {}, set()
        elif snapshot.m != self._holders_m:
            self._holders = self._table.holders(self._scope.dev, named)
            self._monitors = self._table.monitors(self._scope.dev)
            self._hidden_files = self._table.unreadable(self._scope.dev) > 0
            self._holders_m = snapshot.m

    def _coverage(self, gpus: Gpus) -> dict[str, str]:
        """Return what cannot be seen here, so that nobody takes silence for health."""
        return {
            "kernel_log": self._kernel_log,
            "xid_events": "visible" if self._gpus.xid_events else "hidden",
            "gpu_processes": {"local": "by-pid", "foreign": "by-open-device"}.get(
                gpus["pids"], "unknown"
            ),
            "open_files": "partial" if self._hidden_files else "visible",
        }


def _run_row(run: RunMembers, snapshot: Snapshot) -> WatchedRun:
    """Return the processes of a run that the snapshot still has. A zombie is listed with its state
    and counts as dead.
    """
    components: list[Process] = []
    alive = False
    for identity, component in run.members:
        proc = snapshot.find(identity)
        if proc is None:
            continue
        alive = alive or not proc.ended
        components.append(
            {
                "component": component,
                "pid": identity.pid,
                "start_ticks": identity.start_ticks,
                "cpu": proc.cpu,
                "rss": proc.rss,
                "state": proc.state,
            }
        )
    return {"run": run.run, "attempt": run.attempt, "alive": alive, "components": components}
