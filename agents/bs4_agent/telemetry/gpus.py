"""Sources of GPU facts: NVML, a recording, or none. `open_gpus` chooses one."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from bs4_agent.scope import Scope

SOURCE_VARIABLE = "BS4_GPU_SOURCE"

#: One device of a sample before anything was read. Unknown is null, never 0. `minor` is N of
#: /dev/nvidiaN; it serves ownership and is removed afterwards. `pcie` and `nvlink` (see nvml_calls)
#: are read seldom and are in the samples only just after that.
BLANK_DEVICE: Mapping[str, Any] = {
    "index": None,
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
    """A source of GPU samples. `sample` may take as long as the driver does, even for ever, so only
    GuardedGpus calls it.
    """

    @property
    def call(self) -> str:
        """Return the name of the driver call that runs now, or "" between calls."""

    def sample(self) -> dict[str, Any]:
        """Return the `gpus` value of a telemetry record. Its processes are not attributed yet
        (`pids` is "unknown"), and `xids` is empty.

        Never raises for what a driver does: state "absent" or "error" says it.
        """

    def take_xids(self) -> list[dict[str, Any]]:
        """Return the Xid events `{"index", "xid", "t"}` since the last call, oldest first. May be
        called from any thread, and also while `sample` hangs.
        """

    def close(self) -> None:
        """Release the driver."""


class XidQueue:
    """Xid events on their way from the thread that finds them to the thread that records them. It
    keeps the newest 1,000 if nobody takes them.
    """

    def __init__(self) -> None:
        self._events: deque[dict[str, Any]] = deque(maxlen=1000)

    def add(self, event: dict[str, Any]) -> None:
        """Add one event."""
        self._events.append(event)

    def take(self) -> list[dict[str, Any]]:
        """Return all events, oldest first, and forget them."""
        return [self._events.popleft() for _ in range(len(self._events))]


def empty(state: str, detail: str) -> dict[str, Any]:
    """Return a sample without devices, with this `state` ("ok", "absent", "error" or "stale") and
    the reason `detail`.
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
    """The source of a pod without a driver, library or binding. `reason` says what is missing."""

    call = ""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def sample(self) -> dict[str, Any]:
        """Return a sample with state "absent"."""
        return empty("absent", self._reason)

    def take_xids(self) -> list[dict[str, Any]]:
        """Return an empty list."""
        return []

    def close(self) -> None:
        """Do nothing, because nothing is open."""
        return


class RecordedGpus:
    """GPUs from a JSON file `{"driver": str, "devices": [{...}], "xids": [{"index","xid","t"}]}`.
    It is read again whenever it changes.

    Devices have the keys of a telemetry record; a missing key is null. Each Xid event is returned
    once, which is decided by its `t`.
    """

    call = ""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._content: dict[str, Any] = {}
        self._xid_t = 0.0
        self._xids = XidQueue()

    def sample(self) -> dict[str, Any]:
        """Return the sample in the file, or one with state "error" if the file cannot be used."""
        try:
            self._load()
            devices = enumerate(self._content.get("devices", []))
            sample = {
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

    def take_xids(self) -> list[dict[str, Any]]:
        """Return the Xid events since the last call, oldest first."""
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

    def _device(self, index: int, device: dict[str, Any]) -> dict[str, Any]:
        """Return one device of the file with all keys of a telemetry record."""
        listed = device.get("procs", ())
        procs = []
        for proc in listed:
            procs.append({"pid": proc["pid"], "mem": proc.get("mem")})
        return {**BLANK_DEVICE, "index": index, "minor": index, **device, "procs": procs}

    def _note_xids(self) -> None:
        """Queue the events that are newer than the last one."""
        events = [event for event in self._content.get("xids", ()) if event["t"] > self._xid_t]
        self._xid_t = max([self._xid_t, *(event["t"] for event in events)])
        for event in events:
            self._xids.add(event)


def open_gpus(scope: Scope) -> GpuSource:
    """Return the source of this pod: the file that BS4_GPU_SOURCE names, or NVML. NVML itself tries
    a missing driver again later.
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
