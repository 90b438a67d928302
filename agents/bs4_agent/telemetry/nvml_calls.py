"""Single NVML calls and the fields of one GPU. It is known which call runs now, and which errors
only mean that a field does not exist.

Each reading writes its fields into the `row` of a GPU. A reading raises pynvml.NVMLError if the
call fails for any other reason.
"""

from __future__ import annotations

from typing import Any

import pynvml

from bs4_common.telemetry import Device, Pcie

# This GPU, driver or container has no such field. The value is null, and that is no error.
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

# Totals over all links: flow control and data CRC, replays, recoveries.
_LINK_ERRORS = [
    pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
]

_RECOVERY = {1: "reset", 2: "reboot", 3: "drain", 4: "drain and reset"}


class NvmlCalls:
    """Calls functions of pynvml by name and remembers their names.

    `in_flight` is the name of the call that runs now, or "" if none runs. `failed` is the name of
    the last call that failed, or "". The caller may set `where` to words such as " of GPU 3", which
    are then appended to the name in `in_flight`.
    """

    def __init__(self) -> None:
        self.in_flight = ""
        self.failed = ""
        self.where = ""

    def invoke(self, name: str, *args: Any) -> Any:
        """Call the pynvml function `name` with `args` and return its result. Raises
        pynvml.NVMLError if the call fails; `failed` is then the name of the call.
        """
        self.in_flight = name + self.where
        try:
            return getattr(pynvml, name)(*args)
        except pynvml.NVMLError:
            self.failed = name
            raise
        finally:
            self.in_flight = ""

    def field(self, name: str, *args: Any) -> Any:
        """Call the pynvml function `name` with `args` and return its result. Return None if this
        GPU, driver or container does not support the function. Raises pynvml.NVMLError for every
        other error.
        """
        try:
            return self.invoke(name, *args)
        except pynvml.NVMLError as error:
            if error.value in _NO_SUCH_FIELD:
                return None
            raise


def utilization(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `util` and `mem_util` of the GPU `handle` into `row`, its part of a GPU sample. They
    are the percent of the time in which the GPU computed and in which its memory was read or
    written. Both stay as they are in `row` if the GPU does not report them.
    """
    rates = nvml.field("nvmlDeviceGetUtilizationRates", handle)
    if rates is not None:
        row["util"], row["mem_util"] = rates.gpu, rates.memory


def memory(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `mem_used` and `mem_total` of the GPU `handle`, in bytes, into `row`, its part of a GPU
    sample. Both stay as they are in `row` if the GPU does not report them.

    Drivers before version 510 count the memory that they reserve for themselves (0.6 GiB on an
    H100) as used. Later drivers do not.
    """
    info = nvml.field("nvmlDeviceGetMemoryInfo", handle, pynvml.nvmlMemory_v2)
    if info is None:
        info = nvml.field("nvmlDeviceGetMemoryInfo", handle)
    if info is not None:
        row["mem_used"], row["mem_total"] = info.used, info.total


def temperature(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `temp` of the GPU `handle` into `row`, its part of a GPU sample: degrees Celsius, or
    None if the GPU does not report its temperature.
    """
    row["temp"] = nvml.field("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU)


def power(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `power` of the GPU `handle` into `row`, its part of a GPU sample: the watts that the
    GPU draws now, or None if it does not report them.
    """
    row["power"] = _watts(nvml.field("nvmlDeviceGetPowerUsage", handle))


def clocks(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `sm_clock` and `mem_clock` of the GPU `handle`, in MHz, into `row`, its part of a GPU
    sample. Each is None if the GPU does not report it.
    """
    row["sm_clock"] = nvml.field("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM)
    row["mem_clock"] = nvml.field("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_MEM)


def throttle(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `throttle` of the GPU `handle` into `row`, its part of a GPU sample: the list of the
    reasons why its clocks are lowered now, as names such as "hw_slowdown". The list is empty if
    they are not lowered. It is None if the GPU does not report the reasons.
    """
    reasons = nvml.field("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:  # the name before driver 535
        reasons = nvml.field("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    row["throttle"] = None
    if reasons is not None:
        row["throttle"] = [name for bit, name in _THROTTLE if reasons & bit]


def processes(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `procs` of the GPU `handle` into `row`, its part of a GPU sample: a list of `{"pid",
    "mem"}`, one for each process that computes or draws on the GPU. `mem` is the GPU memory of the
    process in bytes, or None if the driver does not report it, as with MIG and in some containers.
    """
    used: dict[int, int | None] = {}
    for kind in ("Compute", "Graphics"):
        listed = nvml.field(f"nvmlDeviceGet{kind}RunningProcesses_v3", handle)
        if listed is None:  # drivers before 510
            listed = nvml.field(f"nvmlDeviceGet{kind}RunningProcesses_v2", handle)
        for process in listed or ():
            known, more = used.get(process.pid), process.usedGpuMemory
            used[process.pid] = more if known is None else max(known, more or 0)
    row["procs"] = [{"pid": pid, "mem": mem} for pid, mem in used.items()]


def power_limit(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `power_limit` of the GPU `handle` into `row`, its part of a GPU sample: the watts that
    the GPU may draw at most, or None if it does not report them.
    """
    row["power_limit"] = _watts(nvml.field("nvmlDeviceGetEnforcedPowerLimit", handle))


def ecc(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `ecc` of the GPU `handle` into `row`, its part of a GPU sample: the number of memory
    errors since the driver was loaded that could not be corrected, or None if the GPU does not
    count them.
    """
    kind, counter = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    row["ecc"] = nvml.field("nvmlDeviceGetTotalEccErrors", handle, kind, counter)


def remapping(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `remap` of the GPU `handle` into `row`, its part of a GPU sample, but only if the GPU
    has broken memory rows: "pending" if spare rows will replace them at the next reset, "failed" if
    they cannot be replaced.
    """
    rows = _optional(nvml, "nvmlDeviceGetRemappedRows", handle)
    if rows is not None and rows[3]:
        row["remap"] = "failed"
    elif (rows is not None and rows[2]) or (
        rows is None and _optional(nvml, "nvmlDeviceGetRetiredPagesPendingStatus", handle) == 1
    ):
        row["remap"] = "pending"


def recovery(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `recovery` of the GPU `handle` into `row`, its part of a GPU sample, but only if the
    driver (version 570 or later) says that a person must do something about the GPU: "reset",
    "reboot", "drain" or "drain and reset".
    """
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
    """Return the same as `field`, and None also if the call fails in another way. A field that is
    only nice to have must not make a GPU look broken. Errors that say that the GPU or the driver is
    gone are raised.
    """
    try:
        return nvml.field(name, *args)
    except pynvml.NVMLError as error:
        if error.value in DRIVER_GONE or error.value in GPU_GONE:
            raise
        return None


def pcie(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `pcie` of the GPU `handle` into `row`, its part of a GPU sample: {"gen", "gen_max",
    "width", "width_max", "tx", "rx"}, or None if none of these values is known.

    "gen" and "width" are the PCIe link's generation and number of lanes now, "gen_max" and
    "width_max" the highest possible ones. "tx" and "rx" are the KB/s that the GPU sends and
    receives, measured for 20 ms each. An idle GPU lowers its generation to save power and keeps its
    width.
    """
    rate = "nvmlDeviceGetPcieThroughput"
    found: Pcie = {
        "gen": _optional(nvml, "nvmlDeviceGetCurrPcieLinkGeneration", handle),
        "gen_max": _optional(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", handle),
        "width": _optional(nvml, "nvmlDeviceGetCurrPcieLinkWidth", handle),
        "width_max": _optional(nvml, "nvmlDeviceGetMaxPcieLinkWidth", handle),
        "tx": _optional(nvml, rate, handle, pynvml.NVML_PCIE_UTIL_TX_BYTES),
        "rx": _optional(nvml, rate, handle, pynvml.NVML_PCIE_UTIL_RX_BYTES),
    }
    row["pcie"] = found if set(found.values()) != {None} else None


def nvlink(nvml: NvmlCalls, handle: Any, row: Device) -> None:
    """Write `nvlink` of the GPU `handle` into `row`, its part of a GPU sample: {"active", "links",
    "errors"}, or None if the GPU has no NVLink or does not report it.

    "active" is the number of links that are up and "links" the number of all links. "errors" is the
    number of errors that all links have counted since the driver was loaded, or None if no link
    counts them.
    """
    states = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            states.append(nvml.invoke("nvmlDeviceGetNvLinkState", handle, link))
        except pynvml.NVMLError as error:
            if error.value in DRIVER_GONE or error.value in GPU_GONE:
                raise
            break  # behind the last link, or none at all
    row["nvlink"] = None
    if states:
        row["nvlink"] = {
            "active": states.count(1),
            "links": len(states),
            "errors": _link_errors(nvml, handle),
        }


def _link_errors(nvml: NvmlCalls, handle: Any) -> int | None:
    """Return the sum of all error counters over all links, read in one call. The counters depend on
    the GPU and the driver; None if there are none.
    """
    values = _optional(nvml, "nvmlDeviceGetFieldValues", handle, _LINK_ERRORS)
    known = [value for value in values or () if value.nvmlReturn == pynvml.NVML_SUCCESS]
    return sum(value.value.ullVal for value in known) if known else None


#: Readings of values that change every second, of values that do not, and of values that cost too
#: much, with the seconds between two readings. Each of PCIe's two counters blocks for 20 ms, and
#: NVLink takes a call for each of its links (18 on an H100).
FAST = (utilization, memory, temperature, power, clocks, throttle, processes)
SLOW = (power_limit, ecc, remapping, recovery)
SELDOM = ((pcie, 10.0), (nvlink, 60.0))


def text(value: str | bytes | None) -> str | None:
    """Return a string from the driver as text. Older bindings return bytes, which are decoded. None
    is returned as None.
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value


def _watts(milliwatts: int | None) -> float | None:
    """Return milliwatts as watts."""
    if milliwatts is None:
        return None
    return round(milliwatts / 1000, 1)
