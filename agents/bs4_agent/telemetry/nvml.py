"""NVIDIA's management library as a GpuSource. Every field may be missing, every GPU may be lost,
and the driver may disappear and come back.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pynvml

from bs4_agent.telemetry.gpus import BLANK_DEVICE, XidQueue, empty
from bs4_agent.telemetry.nvml_calls import (
    DRIVER_GONE,
    FAST,
    GPU_GONE,
    SELDOM,
    SLOW,
    NvmlCalls,
    text,
)
from bs4_agent.telemetry.xids import XidWatch

_ABSENT = frozenset((pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
_SLOW_S = 5.0
# Values that are read seldom are in the samples for this many seconds afterwards, so that the
# sampler, which has its own rhythm, gets them. They are not in all samples: that would be a third
# more bytes on the pod's disk, and a day of 8 GPUs fills the telemetry's cap as it is.
_TOLD_S = 2.5
_RETRY_S, _RETRY_LAST_S = 1.0, 60.0
# Opening NVML again calls every GPU of the machine, and a lost GPU rarely comes back, so this is
# not done every second.
_LOST_RETRY_S, _LOST_RETRY_LAST_S = 15.0, 300.0


class _Device:
    """One GPU handle and what changes rarely. `handle` is None if the driver has, or had, this GPU
    but returns no handle; `error` says so.
    """

    def __init__(self, index: int, handle: Any, error: str | None = None) -> None:
        self.index = index
        self.handle = handle
        self.error = error
        self.minor: int | None = None
        self.name: str | None = None
        self.uuid: str | None = None
        self.slow: dict[str, Any] = {}
        self.slow_m = float("-inf")
        self.seldom: dict[str, Any] = {}
        self.read_m: dict[Any, float] = {}
        """The monotonic second at which each reading of SELDOM was made."""
        self.seldom_m = float("-inf")


class NvmlGpus:
    """The GPU source that reads the GPUs through NVIDIA's library NVML (the Python binding pynvml).
    Its calls may hang, so GuardedGpus runs it in a thread of its own, and only that thread may call
    `sample`.

    After an error of the driver, NVML is opened again after a pause of `retry_s` seconds, and after
    an error of one GPU after `lost_retry_s` seconds. Each further pause is twice as long, up to 60
    and 300 seconds.
    """

    def __init__(self, retry_s: float = _RETRY_S, lost_retry_s: float = _LOST_RETRY_S) -> None:
        self._calls = NvmlCalls()
        self._open = False
        self._devices: list[_Device] = []
        self._driver: str | None = None
        self._unavailable = empty("absent", "not tried yet")
        self._first_retry_s = self._retry_s = retry_s
        self._retry_m = float("-inf")
        self._first_lost_s = self._lost_s = lost_retry_s
        self._reopen_m = float("inf")
        self._watch: XidWatch | None = None
        self._xids = XidQueue()

    @property
    def call(self) -> str:
        """Return the name of the driver call that runs now, or "" if none runs."""
        return self._calls.in_flight

    @property
    def xid_events(self) -> bool:
        """Return True if Xid events (the driver's reports of GPU faults) can be received, because
        at least one GPU supports them.
        """
        watch = self._watch
        return watch is not None and watch.listening

    def sample(self) -> dict[str, Any]:
        """Return a sample of the GPUs for this moment, a dictionary that becomes the value of
        `gpus` in a telemetry record. If the driver is missing or fails, return a sample without
        devices, with state "absent" or "error" and the reason in `detail`; a later call tries to
        open the driver again. An error of the driver raises nothing.
        """
        now = time.monotonic()
        if now >= self._reopen_m:
            self._reopen_m = float("inf")
            self.close()
            self._retry_m = now
        if not self._open and (now < self._retry_m or not self._try_open(now)):
            return self._unavailable
        try:
            rows = [self._row(device, now) for device in self._devices]
            self._read_seldom(rows, now)
        except pynvml.NVMLError as error:
            self.close()
            self._back_off(error, now)
            return self._unavailable
        self._plan_reopening(rows, now)
        return {**empty("ok", ""), "driver": self._driver, "devices": rows}

    def take_xids(self) -> list[dict[str, Any]]:
        """Return the Xid events (the driver's reports of GPU faults) since the last call, oldest
        first, and forget them. Each is `{"index", "xid", "t"}`: the GPU's index (None if the event
        names no known GPU), the number of the fault, and the time at which the agent fetched it, as
        Unix time in seconds. The list is empty if there are none.
        """
        return self._xids.take()

    def close(self) -> None:
        """Release the driver; a later `sample` opens it again. If the thread that waits for Xid
        events hangs in a driver call, the library NVML stays open, because closing it during that
        call would crash the agent. Do nothing if the driver is not open.
        """
        if not self._open:
            return
        self._open = False
        watch, self._watch = self._watch, None
        if watch is not None and not watch.stop():
            return
        try:
            self._calls.invoke("nvmlShutdown")
        except pynvml.NVMLError:
            return  # the driver went first; there is nothing left to close

    def _try_open(self, now: float) -> bool:
        """Open NVML and list the GPUs. Return False if that fails."""
        try:
            self._calls.invoke("nvmlInit")
            self._open = True
            self._find_devices()
        except pynvml.NVMLError as error:
            self.close()
            self._back_off(error, now)
            return False
        self._retry_s = self._first_retry_s
        there = [device for device in self._devices if device.handle is not None]
        self._watch = XidWatch([(device.index, device.handle) for device in there], self._xids)
        return True

    def _back_off(self, error: Any, now: float) -> None:
        """Note why NVML is not available, and when to try again."""
        state = "absent" if error.value in _ABSENT else "error"
        self._unavailable = empty(state, f"NVML: {error}")
        self._retry_m = now + self._retry_s
        self._retry_s = min(self._retry_s * 2, _RETRY_LAST_S)

    def _plan_reopening(self, rows: Sequence[dict[str, Any]], now: float) -> None:
        """Plan to open NVML again if a GPU has an error. A GPU that was lost answers again only
        through a new handle.
        """
        if not any(row["error"] for row in rows):
            self._reopen_m, self._lost_s = float("inf"), self._first_lost_s
        elif self._reopen_m == float("inf"):
            self._reopen_m = now + self._lost_s
            self._lost_s = min(self._lost_s * 2, _LOST_RETRY_LAST_S)

    def _find_devices(self) -> None:
        """List the GPUs. A GPU that was there before and is not any more stays in the list with an
        error, because its disappearance is a fact.
        """
        self._driver = text(self._calls.field("nvmlSystemGetDriverVersion"))
        count = self._calls.invoke("nvmlDeviceGetCount")
        found = [self._describe(index) for index in range(count)]
        listed = {device.uuid for device in found}
        missing = [
            device
            for device in self._devices
            if device.uuid is not None and device.uuid not in listed
        ]
        for device in found:
            known = next(
                (old for old in missing if device.uuid is None and old.index == device.index), None
            )
            if known is not None:  # without a handle its place must tell which one it is
                device.uuid, device.name, device.minor = known.uuid, known.name, known.minor
                missing.remove(known)
        for old in missing:
            gone = _Device(
                old.index,
                None,
                f"the driver does not list this GPU any more (it was GPU {old.index})",
            )
            gone.uuid, gone.name = old.uuid, old.name
            found.append(gone)
        self._devices = found

    def _describe(self, index: int) -> _Device:
        """Return the GPU with this index, with its handle or an error."""
        self._calls.where = f" of GPU {index}"
        try:
            device = _Device(index, self._calls.invoke("nvmlDeviceGetHandleByIndex", index))
            device.minor = self._calls.field("nvmlDeviceGetMinorNumber", device.handle)
            device.name = text(self._calls.field("nvmlDeviceGetName", device.handle))
            device.uuid = text(self._calls.field("nvmlDeviceGetUUID", device.handle))
        except pynvml.NVMLError as error:
            if error.value in DRIVER_GONE:
                raise
            return _Device(index, None, f"{error} ({self._calls.failed})")
        finally:
            self._calls.where = ""
        if device.minor is None:
            device.minor = index
        return device

    def _row(self, device: _Device, now: float) -> dict[str, Any]:
        """Return the values of one GPU."""
        row = {
            **BLANK_DEVICE,
            "index": device.index,
            "minor": device.minor,
            "uuid": device.uuid,
            "name": device.name,
        }
        row.update(procs=[], error=device.error)
        if device.handle is None:
            return row
        self._calls.where = f" of GPU {device.index}"
        self._read(FAST, device, row)
        if now - device.slow_m >= _SLOW_S and row["error"] is None:
            device.slow = {}
            self._read(SLOW, device, device.slow)
            row["error"] = device.slow.pop("error", None)
            device.slow_m = now
        self._calls.where = ""
        row.update(device.slow)
        return row

    def _read_seldom(self, rows: Sequence[dict[str, Any]], now: float) -> None:
        """Read the slow counters of one GPU at most, the one that has waited longest. Its counters
        block, and no sample may wait for those of all GPUs.

        The values are in the samples for 2.5 s. A row without `pcie` or `nvlink` says that they
        were not read now.
        """
        pairs = zip(self._devices, rows, strict=True)
        asked = [
            (device, row)
            for device, row in pairs
            if device.handle is not None and row["error"] is None
        ]
        if asked:
            device, row = min(asked, key=lambda pair: pair[0].seldom_m)
            due = []
            for reading, seconds in SELDOM:
                if now - device.read_m.get(reading, float("-inf")) >= seconds:
                    due.append(reading)
            if due:
                self._calls.where = f" of GPU {device.index}"
                device.seldom = {}
                self._read(due, device, device.seldom)
                self._calls.where = ""
                row["error"] = device.seldom.pop("error", None)
                device.read_m.update(dict.fromkeys(due, now))
                device.seldom_m = now
        for device, row in asked:
            if now - device.seldom_m < _TOLD_S:
                row.update(device.seldom)

    def _read(self, readings: Sequence[Any], device: _Device, row: dict[str, Any]) -> None:
        """Fill `row` with these readings. The first error is kept under "error". The other fields
        are still read, unless the GPU itself is gone.
        """
        for reading in readings:
            try:
                reading(self._calls, device.handle, row)
            except pynvml.NVMLError as error:
                if error.value in DRIVER_GONE:
                    raise
                row["error"] = row.get("error") or f"{error} ({self._calls.failed})"
                if error.value in GPU_GONE:
                    return
