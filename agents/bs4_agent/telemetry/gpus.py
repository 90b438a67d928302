"""Sources of GPU facts: NVML, a recording, or none. `open_gpus` chooses one."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import Any, Protocol

from bs4_agent.scope import Scope
from bs4_common.states import GpuState
from bs4_common.telemetry import Device, GpuProcess, Gpus, Xid

SOURCE_VARIABLE = "BS4_GPU_SOURCE"

#: One device of a sample before anything was read. Unknown is null, never 0. `minor` is N of
#: /dev/nvidiaN; it serves ownership and is removed afterwards. `pcie` and `nvlink` (see nvml_calls)
#: are read seldom and are in the samples only just after that.
BLANK_DEVICE: Device = {
    "minor": None,
    "uuid": None,
    "name": None,
    "util": None,
    "mem_util": None,
    "mem_used": None,
    "mem_total": None,
    "temp": None,
    "power": None,
    "power_limit": None,
    "sm_clock": None,
    "mem_clock": None,
    "ecc": None,
    "throttle": None,
    "error": None,
}


class GpuSource(Protocol):
    """The interface of an object that returns GPU samples. Its method `sample` may take as long as
    the driver does, even for ever, so only GuardedGpus calls it, in a thread of its own.
    """

    @property
    def call(self) -> str:
        """Return the name of the driver call that runs now, or "" if none runs."""

    def sample(self) -> Gpus:
        """Return a sample of the GPUs for this moment, a dictionary that becomes the value of
        `gpus` in a telemetry record. `pids` in it is "unknown", because a GPU source does not find
        out to which run each process belongs, and `xids` (the driver's error events) is empty,
        because `take_xids` returns those.

        An error of the driver raises nothing. If the driver is missing, `state` is "absent", and if
        it fails, "error"; `detail` says why, and there are no devices.
        """

    def take_xids(self) -> list[Xid]:
        """Return the Xid events (the driver's reports of GPU faults) since the last call, oldest
        first, as `{"index", "xid", "t"}`: the GPU's index (or None), the number of the fault, and
        the Unix time in seconds. The list is empty if there are none. This may be called from any
        thread, also while `sample` hangs.
        """

    def close(self) -> None:
        """Release what this object holds to read the GPUs, such as the driver's library or an open
        file.
        """


class XidQueue:
    """A queue of Xid events (the driver's reports of GPU faults). One thread adds the events that
    it finds, and another takes them and records them. If nobody takes them, only the newest 1,000
    are kept. It is thread-safe.
    """

    def __init__(self) -> None:
        self._events: deque[Xid] = deque(maxlen=1000)

    def add(self, event: Xid) -> None:
        """Add one event, `{"index", "xid", "t"}`: the GPU's index (or None), the number of the
        fault, and the Unix time in seconds.
        """
        self._events.append(event)

    def take(self) -> list[Xid]:
        """Return all events, oldest first, and remove them. The list is empty if there are none."""
        return [self._events.popleft() for _ in range(len(self._events))]


def empty(state: GpuState, detail: str) -> Gpus:
    """Return a GPU sample without devices. `state` is "ok", "absent", "error" or "stale", and
    `detail` is a text for a person that says why there are none, or "".
    """
    return {
        "state": state,
        "detail": detail,
        "age_s": 0.0,
        "driver": None,
        "pids": "unknown",
        "devices": [],
        "xids": [],
    }


class AbsentGpus:
    """The GPU source of a pod on which something that is needed is missing, such as NVIDIA's Python
    binding. `reason` is a sentence about what is missing. Its samples have no devices.
    """

    call = ""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def sample(self) -> Gpus:
        """Return a sample without devices, with state "absent". Its `detail` says what is missing
        on this pod.
        """
        return empty("absent", self._reason)

    def take_xids(self) -> list[Xid]:
        """Return an empty list, because without a driver nothing reports Xid events
        (GPU faults).
        """
        return []

    def close(self) -> None:
        """Do nothing, because nothing is open."""
        return


class RecordedGpus:
    """A GPU source that reads the GPUs from the JSON file `path`, `{"driver": str, "devices":
    [{...}], "xids": [{"index", "xid", "t"}]}`. It is for tests and practice pods (simulated ones).
    The file is read again whenever it has changed.

    Devices have the keys that they have in a telemetry record; a key that is missing in the file is
    null. `xids` are Xid events (the driver's reports of GPU faults). One is returned only if its
    `t`, a Unix time in seconds, is later than that of all events that were returned before.
    """

    call = ""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._content: dict[str, Any] = {}
        self._xid_t = 0.0
        self._xids = XidQueue()

    def sample(self) -> Gpus:
        """Return a GPU sample with the devices in the JSON file of recorded GPUs. If the file
        cannot be used, return a sample without devices, with state "error" and the reason in
        `detail`.
        """
        try:
            self._load()
            devices = enumerate(self._content.get("devices", []))
            sample: Gpus = {
                **empty("ok", ""),
                "driver": self._content.get("driver"),
                "devices": [self._device(index, device) for index, device in devices],
            }
            self._note_xids()
            return sample
        except (
            OSError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
        ) as error:  # unreadable, not JSON, or JSON of another shape
            self._stamp = None
            detail = f"{type(error).__name__}: {error}"
            return empty(
                "error",
                f"the GPU recording {self._path} cannot be used ({detail}); point "
                f"{SOURCE_VARIABLE} at a valid one.",
            )

    def take_xids(self) -> list[Xid]:
        """Return the Xid events (the driver's reports of GPU faults) that were added to the JSON
        file of recorded GPUs since the last call, oldest first, as `{"index", "xid", "t"}`: the
        GPU's index, the number of the fault, and the Unix time in seconds. The list is empty if
        there are none.
        """
        return self._xids.take()

    def close(self) -> None:
        """Do nothing, because no file is held open."""
        return

    def _load(self) -> None:
        """Read the file if it has changed."""
        status = self._path.stat()
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp == self._stamp:
            return
        self._content = json.loads(self._path.read_text("utf-8"))
        self._stamp = stamp

    def _device(self, index: int, device: Any) -> Device:
        """Return one device of the file with all keys of a telemetry record."""
        listed = device.get("procs", ())
        procs: list[GpuProcess] = []
        for proc in listed:
            procs.append({"pid": proc["pid"], "mem": proc.get("mem")})
        return {"index": index, **BLANK_DEVICE, "minor": index, **device, "procs": procs}

    def _note_xids(self) -> None:
        """Queue the events that are newer than the last one."""
        events = [event for event in self._content.get("xids", ()) if event["t"] > self._xid_t]
        self._xid_t = max([self._xid_t, *(event["t"] for event in events)])
        for event in events:
            self._xids.add(event)


def open_gpus(scope: Scope) -> GpuSource:
    """Return the GPU source of this pod. If the environment variable BS4_GPU_SOURCE names a file
    with recorded GPUs, the source reads that file. Otherwise it uses NVIDIA's library NVML, or, if
    the Python binding for NVML is missing, it has no GPUs. `scope` is not used.

    If the driver is missing now, the source for NVML looks for it again later, whenever it is
    sampled.
    """
    if path := os.environ.get(SOURCE_VARIABLE):
        return RecordedGpus(Path(path))
    try:
        # Loaded here, because a pod that replays a recording needs no binding.
        from bs4_agent.telemetry.nvml import NvmlGpus
    except ImportError as error:
        return AbsentGpus(
            f"NVIDIA's Python binding is missing from the agent ({error}); deploy the agent again."
        )
    return NvmlGpus()
