"""The GPUs of one pod, one or two to a line, with the runs that hold them and the complaints of the
driver.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from bs4_console.tui import formatting, status
from bs4_console.tui.styled_text import Line, cut, fitted, joined, pad
from bs4_console.tui.views.run import bar, is_old

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bs4_console.pods.samples import Device, Gpus, Telemetry, Xid
    from bs4_console.pods.state import PodState
    from bs4_console.tui.clock import Clock

#: Seconds for which an Xid error is shown. The driver reports it only once.
XID_S = 3600.0
HOT_C = 85
#: What the driver may complain about -> how it is said before the value.
_COMPLAINTS = {
    "ecc": "ECC ",
    "remap": "row remap ",
    "recovery": "driver asks for ",
    "error": "",
}
#: Throttle reasons that are normal for an H100 under load.
_NORMAL_THROTTLE = {"idle", "none", "sw_power_cap", "applications_clocks_setting", "gpu_idle"}


def lines(pod: PodState, clock: Clock, width: int, *, compact: bool) -> list[Line]:
    """Return a heading, then a line for each of the pod's GPUs as they are now, or, with `compact`,
    a line for every two GPUs. The lines have at most `width` cells. The heading says if the GPU
    data is absent, stale or an error, or if it cannot be told which run holds a GPU.
    """
    gpus: Gpus = pod.latest.get("gpus") or {}
    old = is_old(pod, clock)
    head = _heading(gpus)
    if old and gpus.get("devices"):
        head.append((f"  as seen {formatting.age(status.age(pod, clock))} ago", "warn"))
    return _lines(gpus, head, clock.wall(), width, compact, stale=old or gpus.get("state") != "ok")


def lines_then(
    sample: Telemetry | None, width: int, *, compact: bool, reading: bool = False
) -> list[Line]:
    """Return a heading and the lines about a pod's GPUs at the time cursor (a past moment), in at
    most `width` cells. `sample` is the telemetry record of that moment. With None a single line
    says that this console has none, or, with `reading`, that it is still being read from a file.
    `compact` puts two GPUs on a line.
    """
    if sample is None:
        why = "no sample of that moment is kept here"
        if reading:
            why = "reading what was kept of that moment…"
        return [[(" gpus", "head"), (f"  {why}", "dim")]]
    gpus: Gpus = sample.get("gpus") or {}
    t = float(sample["t"])
    head = [*_heading(gpus), ("  ", ""), (f" at {formatting.of_day(t, seconds=True)} ", "caution")]
    return _lines(gpus, head, t, width, compact, stale=gpus.get("state") != "ok")


def _lines(
    gpus: Gpus, head: Line, now: float, width: int, compact: bool, *, stale: bool
) -> list[Line]:
    devices = gpus.get("devices") or []
    if not devices:
        return [cut(head, width)]
    xids = recent_xids(gpus, now)
    if compact:
        return [cut(head, width), *_compact(devices, xids, width, stale)]
    return fitted([head, *(_device(device, xids, width, stale) for device in devices)], width)


def recent_xids(gpus: Gpus, now: float) -> list[Xid]:
    """Return the records of the Xid errors (errors of a GPU that the NVIDIA driver numbers) that
    the driver reported later than one hour before `now`, which is a Unix time in seconds. `gpus` is
    the part of a telemetry record that is about the GPUs.
    """
    found = []
    for x in gpus.get("xids") or []:
        if now - float(x.get("t") or 0.0) < XID_S:
            found.append(x)
    return found


def stale_words(gpus: Gpus) -> str:
    """Return for how long the GPU data has been stale and why, for example "STALE 1m12s: the driver
    does not answer". `gpus` is the part of a telemetry record that is about the GPUs.
    """
    why = gpus.get("detail") or "the driver does not answer"
    return f"STALE {formatting.duration(gpus.get('age_s') or 0)}: {why}"


def temperature(celsius: float | None, role: str) -> Line:
    """Return a temperature as a styled line, for example "71°C", or "–°C" for None. It is drawn in
    the style `role`, but from HOT_C (85) degrees Celsius on as a warning.
    """
    if celsius is not None and celsius >= HOT_C:
        role = "warn bold"
    return [(f"{formatting.whole(celsius)}°C", role)]


def _heading(gpus: Gpus) -> Line:
    state, detail = gpus.get("state"), gpus.get("detail")
    line: Line = [(" gpus", "head")]
    if state is None:
        return [*line, ("  nothing received yet", "dim")]
    if state == "absent":
        why = detail or "no NVIDIA driver on this pod"
        return [*line, ("  absent: ", "warn"), (why, "dim")]
    if count := len(gpus.get("devices") or []):
        line.append((f" {count}", ""))
    if gpus.get("driver"):
        line.append((f"  driver {gpus['driver']}", "dim"))
    if state == "stale":
        line.append((f"  {stale_words(gpus)}", "warn bold"))
    if state == "error":
        line.append((f"  ERROR: {detail or 'the driver reports an error'}", "bad bold"))
    if gpus.get("pids") == "foreign":
        line.append(("  process ids are the host's: owners cannot be proved here", "warn"))
    elif gpus.get("pids") == "unknown":
        line.append(("  owners unknown", "warn"))
    return line


def _device(device: Device, xids: Sequence[Xid], width: int, stale: bool) -> Line:
    util, used, total = device.get("util"), device.get("mem_used"), device.get("mem_total")
    faded = "dim" if stale else ""
    blocks = 12 if width >= 100 else 6
    line: Line = [(f" {device.get('index', '?'):>2} ", faded or "bold")]
    if width >= 150:
        line.append((f"{formatting.clip(str(device.get('name') or ''), 22):<22} ", "dim"))
    line += bar((util or 0) / 100, blocks, faded or "accent")
    line.append((f" {formatting.whole_percent(util):>4}  ", faded))
    line += bar((used or 0) / (total or 1), blocks, faded or "head")
    [(degrees, role)] = temperature(device.get("temp"), "dim")
    line += [
        (f" {formatting.gib(used):>3}/{formatting.gib(total)}G ", faded),
        (f" {formatting.whole(device.get('power'))}W".rjust(6), "dim"),
        (f" {degrees}", role),
    ]
    if width >= 150:
        line.append((f" {formatting.whole(device.get('sm_clock'))}MHz".rjust(9), "dim"))
    return [*line, ("  ", ""), *marks(device, xids), *owners(device)]


def _compact(devices: Sequence[Device], xids: Sequence[Xid], width: int, stale: bool) -> list[Line]:
    """Return the GPUs two to a line, the second half of them on the right: eight fit in four lines
    of 80 cells.
    """
    half = (len(devices) + 1) // 2
    cell = (width - 2) // 2 if len(devices) > 1 else width
    made = [pad(_small(device, xids, stale), cell) for device in devices]
    nothing: Line = []
    pairs = zip_longest(made[:half], made[half:], fillvalue=nothing)
    return [[*left, ("  ", ""), *right] for left, right in pairs]


def _small(device: Device, xids: Sequence[Xid], stale: bool) -> Line:
    util, used, total = device.get("util"), device.get("mem_used"), device.get("mem_total")
    faded = "dim" if stale else ""
    line: Line = [(f" {device.get('index', '?'):>2} ", faded or "bold")]
    line += bar((util or 0) / 100, 5, faded or "accent")
    line += [
        (f" {formatting.whole_percent(util):>4}", faded),
        (f" {formatting.gib(used):>3}/{formatting.gib(total)}G ", faded),
    ]
    return [*line, *marks(device, xids), *owners(device)]


def marks(device: Device, xids: Sequence[Xid]) -> Line:
    """Return what is wrong with one GPU as a styled line: Xid errors (errors that the NVIDIA driver
    numbers), other complaints of the driver, bad links, and throttling that is not normal under
    load. `device` is the GPU's record in telemetry; `xids` are the records of the Xid errors of all
    GPUs of the pod. The result is empty if nothing is wrong.
    """
    line: Line = []
    for xid in xids:
        if xid.get("index") == device.get("index"):
            line.append((f"Xid {xid.get('xid')} ", "bad bold"))
    for key, what in _COMPLAINTS.items():
        if complaint := device.get(key):
            line.append((f"{what}{complaint} ", "bad bold"))
    line += link_marks(device)
    reasons = device.get("throttle") or []
    if isinstance(reasons, str):
        reasons = [reasons]
    slow = []
    for reason in reasons:
        if str(reason).lower() not in _NORMAL_THROTTLE:
            slow.append(str(reason))
    if slow:
        line.append((f"throttled: {', '.join(slow).replace('_', ' ')} ", "warn bold"))
    return line


def link_marks(device: Device) -> Line:
    """Return what is wrong with the links of one GPU as a styled line: PCIe with fewer lanes than
    possible, or only some of its NVLinks up. `device` is the GPU's record in telemetry. The result
    is empty if nothing is wrong. It is not wrong that the PCIe generation is low, because an idle
    GPU lowers it, nor that all NVLinks are down, because such a GPU has no partner.
    """
    line: Line = []
    pcie, nvlink = device.get("pcie") or {}, device.get("nvlink") or {}
    width, most = pcie.get("width"), pcie.get("width_max")
    if width and most and width < most:
        line.append((f"PCIe x{width} of x{most} ", "warn bold"))
    # If all links are down, the GPU has no partner on this machine (PCIe cards without a bridge).
    # That is how it was built.
    if nvlink.get("links") and 0 < nvlink.get("active", 0) < nvlink["links"]:
        line.append((f"NVLink {nvlink['active']} of {nvlink['links']} ", "warn bold"))
    return line


def pcie_line(device: Device) -> Line:
    """Return the PCIe link of one GPU as a styled line, for example "5x16 ↓812M ↑96M": its
    generation, its lanes, and the bytes per second to (↓) and from (↑) the GPU. `device` is the
    GPU's record in telemetry. Return "–" if the record has no PCIe readings.
    """
    pcie = device.get("pcie")
    if not pcie:
        return [(formatting.NONE, "dim")]
    gen, lanes = pcie.get("gen") or formatting.NONE, pcie.get("width") or formatting.NONE
    return [
        (f"{gen}x{lanes}", ""),
        (f" ↓{formatting.rate(pcie.get('rx'))} ↑{formatting.rate(pcie.get('tx'))}", "dim"),
    ]


def nvlink_line(device: Device) -> Line:
    """Return how many NVLinks of one GPU are active and how many it has, for example "18/18", as a
    styled line, with the number of errors if there are any. `device` is the GPU's record in
    telemetry. Return "–" if the record has no NVLink readings.
    """
    nvlink = device.get("nvlink")
    if not nvlink:
        return [(formatting.NONE, "dim")]
    line: Line = [(f"{nvlink.get('active')}/{nvlink.get('links')}", "")]
    if nvlink.get("errors"):
        return [*line, (f" {nvlink['errors']:,} err", "warn")]
    return line


def owners(device: Device) -> Line:
    """Return which processes hold a GPU, as a styled line: the run and component of each, such as
    "math-7b trainer", without repeating equal names. `device` is the GPU's record in telemetry. A
    process that belongs to no run is named by its pid. Without processes the line says "free", or
    "no process visible" if memory is in use.
    """
    procs = device.get("procs") or []
    if not procs:
        used = device.get("mem_used")
        if used is not None and used < 1e9:
            return [("free", "dim")]
        return [("no process visible", "warn")]
    roles: dict[str, str] = {}
    for proc in procs:
        if proc.get("run"):
            roles.setdefault(f"{proc['run']} {proc.get('component') or ''}".strip(), "")
        else:
            why = "of no run" if proc.get("visible") else "not visible"
            roles.setdefault(f"pid {proc.get('pid')} {why}", "warn bold")
    return joined(([owner] for owner in roles.items()), (", ", "dim"))
