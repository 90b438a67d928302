"""Single NVML calls and the fields of one GPU: which call is in flight, and which errors only mean
"there is no such field".
"""

from __future__ import annotations

from typing import Any

import pynvml

# This GPU, driver or container has no such field: null, and not worth a word.
_NO_SUCH_FIELD = frozenset(
    (
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_NOT_FOUND,
        pynvml.NVML_ERROR_NO_DATA,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    )
)
GPU_GONE = frozenset(
    (
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
    )
)
DRIVER_GONE = frozenset(
    (
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    )
)

# Names as nvidia-smi prints them. gpu_idle (bit 0) is left out: an idle GPU is not throttled.
_THROTTLE = (
    (0x002, "applications_clocks_setting"),
    (0x004, "sw_power_cap"),
    (0x008, "hw_slowdown"),
    (0x010, "sync_boost"),
    (0x020, "sw_thermal_slowdown"),
    (0x040, "hw_thermal_slowdown"),
    (0x080, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
)

_PCIE_LINK = (
    ("gen", "nvmlDeviceGetCurrPcieLinkGeneration"),
    ("gen_max", "nvmlDeviceGetMaxPcieLinkGeneration"),
    ("width", "nvmlDeviceGetCurrPcieLinkWidth"),
    ("width_max", "nvmlDeviceGetMaxPcieLinkWidth"),
)
# Totals over all links: flow control and data CRC, replays, recoveries.
_LINK_ERRORS = [
    pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
]

_RECOVERY = {1: "reset", 2: "reboot", 3: "drain", 4: "drain and reset"}


class NvmlCalls:
    """Calls into pynvml by name. `where` (" of GPU 3") is set by the caller and completes what
    `in_flight` and `failed` say.
    """

    def __init__(self) -> None:
        self.in_flight = ""
        self.failed = ""
        self.where = ""

    def invoke(self, name: str, *args: Any) -> Any:
        """The call itself; pynvml.NVMLError rises, with `failed` naming it."""
        self.in_flight = name + self.where
        try:
            return getattr(pynvml, name)(*args)
        except pynvml.NVMLError:
            self.failed = name
            raise
        finally:
            self.in_flight = ""

    def field(self, name: str, *args: Any) -> Any:
        """The value, or None where no such field exists here; other errors rise."""
        try:
            return self.invoke(name, *args)
        except pynvml.NVMLError as error:
            if error.value in _NO_SUCH_FIELD:
                return None
            raise


def utilization(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    rates = nvml.field("nvmlDeviceGetUtilizationRates", handle)
    if rates is not None:
        row["util"], row["mem_util"] = rates.gpu, rates.memory


def memory(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    """Version 2 leaves out what the driver reserves for itself (0.6 GiB on an H100); version 1
    (drivers before 510) counts it as used.
    """
    info = nvml.field("nvmlDeviceGetMemoryInfo", handle, pynvml.nvmlMemory_v2)
    if info is None:
        info = nvml.field("nvmlDeviceGetMemoryInfo", handle)
    if info is not None:
        row["mem_used"], row["mem_total"] = info.used, info.total


def temperature(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    row["temp"] = nvml.field("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU)


def power(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    row["power"] = _watts(nvml.field("nvmlDeviceGetPowerUsage", handle))


def clocks(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    row["sm_clock"] = nvml.field("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM)
    row["mem_clock"] = nvml.field("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_MEM)


def throttle(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    reasons = nvml.field("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:  # the name before driver 535
        reasons = nvml.field("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    if reasons is None:
        row["throttle"] = None
    else:
        row["throttle"] = [name for bit, name in _THROTTLE if reasons & bit]


def processes(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    """Compute and graphics processes, one entry a pid. `mem` null where the driver does not tell
    (MIG, some containers).
    """
    used: dict[int, int | None] = {}
    for kind in ("Compute", "Graphics"):
        listed = nvml.field(f"nvmlDeviceGet{kind}RunningProcesses_v3", handle)
        if listed is None:  # drivers before 510
            listed = nvml.field(f"nvmlDeviceGet{kind}RunningProcesses_v2", handle)
        for process in listed or ():
            known, more = used.get(process.pid), process.usedGpuMemory
            if known is None:
                used[process.pid] = more
            else:
                used[process.pid] = max(known, more or 0)
    row["procs"] = [{"pid": pid, "mem": mem} for pid, mem in used.items()]


def power_limit(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    row["power_limit"] = _watts(nvml.field("nvmlDeviceGetEnforcedPowerLimit", handle))


def ecc(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    kind, counter = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    row["ecc"] = nvml.field("nvmlDeviceGetTotalEccErrors", handle, kind, counter)


def remapping(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    """`remap` "pending" or "failed", only where there is something to say: bad memory rows wait for
    a reset, or cannot be replaced.
    """
    rows = _optional(nvml, "nvmlDeviceGetRemappedRows", handle)
    if rows is not None and rows[3]:
        row["remap"] = "failed"
    elif (rows is not None and rows[2]) or (
        rows is None and _optional(nvml, "nvmlDeviceGetRetiredPagesPendingStatus", handle) == 1
    ):
        row["remap"] = "pending"


def recovery(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    """`recovery`: what the driver (from 570 on) asks for, only where it asks for something."""
    action = getattr(pynvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
    values = None
    if action is not None:
        values = _optional(nvml, "nvmlDeviceGetFieldValues", handle, [action])
    if (
        values is not None
        and values[0].nvmlReturn == pynvml.NVML_SUCCESS
        and (number := values[0].value.uiVal)
    ):
        row["recovery"] = _RECOVERY.get(number, f"recovery (action {number})")


def _optional(nvml: NvmlCalls, name: str, *args: Any) -> Any:
    """As `field`, and None also where the call fails in a way of its own: what is nice to know
    never makes a GPU look broken.
    """
    try:
        return nvml.field(name, *args)
    except pynvml.NVMLError as error:
        if error.value in DRIVER_GONE or error.value in GPU_GONE:
            raise
        return None


def pcie(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    """`pcie` {"gen", "gen_max", "width", "width_max", "tx", "rx"}: the link as it is and as it
    could be, KB/s of the 20 ms of the reading; null as a whole where nothing of it is known. An
    idle GPU lowers its generation to save power, its width stays.
    """
    found = {key: _optional(nvml, name, handle) for key, name in _PCIE_LINK}
    for key, counter in (
        ("tx", pynvml.NVML_PCIE_UTIL_TX_BYTES),
        ("rx", pynvml.NVML_PCIE_UTIL_RX_BYTES),
    ):
        found[key] = _optional(nvml, "nvmlDeviceGetPcieThroughput", handle, counter)
    if any(value is not None for value in found.values()):
        row["pcie"] = found
    else:
        row["pcie"] = None


def nvlink(nvml: NvmlCalls, handle: Any, row: dict[str, Any]) -> None:
    """`nvlink` {"active", "links", "errors"}: how many links are up, of how many there are, and the
    errors that they counted since the driver was loaded (null where it does not count them); null
    as a whole where the GPU has no NVLink, or does not tell.
    """
    states = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            states.append(nvml.invoke("nvmlDeviceGetNvLinkState", handle, link))
        except pynvml.NVMLError as error:
            if error.value in DRIVER_GONE or error.value in GPU_GONE:
                raise
            break  # behind the last link, or none at all
    active = sum(state == 1 for state in states)
    if states:
        row["nvlink"] = {
            "active": active,
            "links": len(states),
            "errors": _link_errors(nvml, handle),
        }
    else:
        row["nvlink"] = None


def _link_errors(nvml: NvmlCalls, handle: Any) -> int | None:
    """All that NVML counts over all links, in one call; which counters there are depends on GPU and
    driver.
    """
    values = _optional(nvml, "nvmlDeviceGetFieldValues", handle, _LINK_ERRORS)
    known = []
    for value in values or ():
        if value.nvmlReturn == pynvml.NVML_SUCCESS:
            known.append(value.value.ullVal)
    return sum(known) if known else None


#: What changes every second, what does not, and (with the seconds in between) what costs too much
#: for that: each of PCIe's two counters blocks for 20 ms, and NVLink takes a call for each of its
#: links (18 on an H100).
FAST = (utilization, memory, temperature, power, clocks, throttle, processes)
SLOW = (power_limit, ecc, remapping, recovery)
SELDOM = ((pcie, 10.0), (nvlink, 60.0))


def text(value: str | bytes | None) -> str | None:
    """Strings were bytes in older bindings."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value


def _watts(milliwatts: int | None) -> float | None:
    if milliwatts is None:
        return None
    return round(milliwatts / 1000, 1)
