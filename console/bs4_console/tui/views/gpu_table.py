"""The GPUs of all pods as rows: a row for each GPU with its processes, or a row for each pod with
all its GPUs in one strip.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from bs4_console.tui import formatting, status
from bs4_console.tui.styled_text import Line, joined, text_of
from bs4_console.tui.views.fleet import Column, Reading, Row, known, mean, worst
from bs4_console.tui.views.gpus import (
    marks,
    nvlink_line,
    owners,
    pcie_line,
    recent_xids,
    stale_words,
    temperature,
)
from bs4_console.tui.views.run import bar, faded, is_old

if TYPE_CHECKING:
    from bs4_console.pods.samples import Device, GpuProcess, Gpus, Telemetry, Xid
    from bs4_console.pods.state import PodState
    from bs4_console.tui.clock import Clock

COLUMNS = (
    Column("pod", "POD", 7, 18, 99),
    Column("gpu", "GPU", 3, 3, 98),
    Column("model", "MODEL", 5, 16, 40),
    Column("util", "BUSY", 14, 14, 95),
    Column("mem", "MEMORY", 8, 11, 94, "right"),
    Column("power", "POWER", 9, 9, 59, "right"),
    Column("temp", "TEMP", 4, 5, 60, "right"),
    Column("clock", "SM/MEM MHZ", 9, 10, 50, "right"),
    Column("pcie", "PCIE", 17, 17, 45),
    Column("nvlink", "NVLINK", 6, 11, 46),
    Column("state", "STATE", 10, 24, 97),
    Column("owner", "HELD BY", 20, 0, 96),
)
#: Cells for a GPU's utilisation, from idle to busy.
_LEVELS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Seen:
    """The telemetry of `pod` at the moment that the screens show, which is now or a past moment.
    `sample` is the telemetry record, or {} if there is none. `t` is the moment as a Unix time in
    seconds; for a past moment without a record it is 0.0. `trouble` says as a styled line what is
    wrong with the GPU data or why there is none, and is [] if all is well. `old` is True if there
    is no data of that moment, or only older data.
    """

    pod: PodState
    sample: Telemetry
    t: float
    trouble: Line
    old: bool

    @property
    def gpus(self) -> Gpus:
        """Return the part "gpus" of the telemetry record, or {} if there is none."""
        return self.sample.get("gpus") or {}

    @property
    def devices(self) -> Sequence[Device]:
        """Return the record of each GPU from the telemetry record, or [] if no GPU is known."""
        return self.gpus.get("devices") or []

    @property
    def xids(self) -> list[Xid]:
        """Return the records of the Xid errors (errors of a GPU that the NVIDIA driver numbers)
        that the driver reported in the hour before the moment that is shown.
        """
        return recent_xids(self.gpus, self.t)


def now(pod: PodState, clock: Clock) -> Seen:
    """Return the pod's newest telemetry as a Seen, the form that the GPU table shows: the record,
    its time, and what is wrong with it. If the record is old and nothing else is wrong, `trouble`
    says how old it is.
    """
    old, trouble = is_old(pod, clock), _trouble(pod.latest.get("gpus") or {})
    if old and not trouble:
        trouble = [(f"seen {formatting.age(status.age(pod, clock))} ago", "warn")]
    return Seen(pod, pod.latest, clock.wall(), trouble, old)


def then(pod: PodState, sample: Telemetry | None, *, reading: bool) -> Seen:
    """Return the pod's telemetry at the time cursor (a past moment) as a Seen. `sample` is the
    telemetry record of that moment, or None if this console has none. `reading` is True while it is
    still being read from a file; the `trouble` of the result then says so.
    """
    if sample is None:
        why = "reading…" if reading else "no sample of then is kept"
        return Seen(pod, {}, 0.0, [(why, "dim")], True)
    return Seen(pod, sample, float(sample["t"]), _trouble(sample.get("gpus") or {}), False)


def rows(seen: Iterable[Seen], *, compact: bool) -> list[Row]:
    """Return the table rows of the GPUs of all pods; `seen` has the telemetry of each pod. Pods
    with problems come first, and the GPUs of a pod in the order of their numbers. With `compact`
    each pod is one row.
    """
    return arrange(pod_rows(one, compact=compact) for one in seen)


def pod_rows(seen: Seen, *, compact: bool) -> list[Row]:
    """Return the table rows of the pod of `seen`: a row for each GPU, and, below a GPU with several
    processes, a row for each of these. With `compact` the pod is a single row. A row's key is
    (pod's name, "3") for GPU 3, (pod's name, "3/812") for process 812 on it, or (pod's name, "")
    for the pod itself.
    """
    if compact:
        return _pod_row(seen)
    return _device_rows(seen)


def arrange(of_pods: Iterable[list[Row]]) -> list[Row]:
    """Return the rows of all pods in one list. `of_pods` gives the rows of each pod as a list. Pods
    with more severe problems come first; pods with equally severe ones are sorted by name.
    """
    return list(chain(*sorted(of_pods, key=lambda rows: (-worst(rows), rows[0].key))))


def summary(seen: Iterable[Seen]) -> Line:
    """Return one styled line about the GPUs of all pods: how many there are, how many of them are
    held by runs, the mean of their utilisation and the sum of their power. `seen` has the telemetry
    of each pod; pods whose data is old do not count.
    """
    fresh = [one for one in seen if not one.old]
    devices: list[Device] = []
    held = 0
    for one in fresh:
        devices += one.devices
    for device in devices:
        held += any(proc.get("run") for proc in device.get("procs") or [])
    return [
        (" gpus ", "head"),
        (f"{len(devices)}", "bold"),
        (f" on {formatting.count(len(fresh), 'pod')}", "dim"),
        (f"   {held}", ""),
        (" held by runs", "dim"),
        ("   busy ", "dim"),
        (formatting.whole_percent(mean(devices, "util")), ""),
        ("   power ", "dim"),
        (f"{_sum(devices, 'power') / 1000:.1f} kW", ""),
    ]


def _trouble(gpus: Gpus) -> Line:
    """Return what the source of the GPU data says is wrong with it."""
    state, detail = gpus.get("state"), gpus.get("detail")
    if state is None:
        return [("nothing received yet", "dim")]
    if state == "absent":
        return [("absent: ", "warn"), (detail or "no NVIDIA driver", "dim")]
    if state == "error":
        return [("ERROR: ", "bad bold"), (detail or "the driver reports an error", "bad")]
    if state == "stale":
        return [(stale_words(gpus), "warn bold")]
    return []


def _device_rows(seen: Seen) -> list[Row]:
    pod, devices, trouble = seen.pod, seen.devices, seen.trouble
    if not devices:
        cells = {"pod": [(pod.name, "bold")], "owner": trouble}
        return [Row(key=(pod.name, ""), rank=_rank(trouble), cells=cells)]
    xids, old = seen.xids, bool(trouble)
    made: list[Row] = []
    for i, device in enumerate(devices):
        wrong = marks(device, xids) or trouble
        procs = device.get("procs") or []
        cells = _cells(device)
        cells["pod"] = [(pod.name, "bold" if i == 0 else "dim")]
        cells["state"] = wrong or [("ok", "dim")]
        cells["owner"] = _named(device)
        if len(procs) > 1:
            cells["owner"] = [(formatting.count(len(procs), "process"), "dim")]
        made.append(_row((pod.name, str(device.get("index", i))), cells, wrong, old=old))
        if len(procs) > 1:
            made += [_process(device, proc, pod, old) for proc in procs]
    return made


def _row(key: tuple[str, str], cells: dict[str, Line], wrong: Line, *, old: bool) -> Row:
    return Row(
        key=key,
        rank=_rank(wrong),
        cells={name: faded(line) if old else line for name, line in cells.items()},
        old=False,
    )


def _rank(wrong: Line) -> int:
    roles = " ".join(role for _, role in wrong)
    if "bad" in roles:
        return 4
    if "warn" in roles:
        return 2
    return 0


def _cells(device: Device) -> dict[str, Line]:
    util, limit = device.get("util"), device.get("power_limit")
    used, total = formatting.gib(device.get("mem_used")), formatting.gib(device.get("mem_total"))
    clocks = (
        f"{formatting.whole(device.get('sm_clock'))}/{formatting.whole(device.get('mem_clock'))}"
    )
    return {
        "gpu": [(f"{device.get('index', '?'):>3}", "bold")],
        "model": [(_model(device), "dim")],
        "util": [*bar((util or 0) / 100, 8), (f" {formatting.whole_percent(util):>4}", "")],
        "mem": [(f"{used}/{total}G", "")],
        "power": [
            (formatting.whole(device.get("power")), ""),
            (f"/{formatting.whole(limit)}W" if limit else "W", "dim"),
        ],
        "temp": temperature(device.get("temp"), ""),
        "clock": [(clocks, "dim")],
        "pcie": pcie_line(device),
        "nvlink": nvlink_line(device),
    }


def _model(device: Device) -> str:
    return str(device.get("name") or "").removeprefix("NVIDIA ")


def _named(device: Device) -> Line:
    """Return the only process with its pid and memory, or why there is none."""
    procs = device.get("procs") or []
    line = owners(device)
    if procs and procs[0].get("run"):
        line.append((f"  pid {procs[0].get('pid')}", "dim"))
    if device.get("unaccounted"):
        line.append(
            (f"  {formatting.size(device['unaccounted'])} held by what cannot be seen", "warn")
        )
    return line


def _process(device: Device, proc: GpuProcess, pod: PodState, old: bool) -> Row:
    pid = proc.get("pid")
    cells: dict[str, Line] = {
        "pod": [(pod.name, "dim")],
        "gpu": [("  └", "dim")],
        "mem": [(formatting.size(proc.get("mem")), "")],
        "owner": owners({"procs": [proc]}),
    }
    if proc.get("run"):
        cells["owner"].append((f"  pid {pid}", "dim"))
        if proc["run"] not in pod.runs:
            cells["state"] = [("run not known here", "warn")]
    return _row((pod.name, f"{device.get('index')}/{pid}"), cells, [], old=old)


def _pod_row(seen: Seen) -> list[Row]:
    """Return one row for the pod: a cell for each GPU like "▇▇▆▇×▇▇▁", with × for one with a
    complaint, then the sums over all GPUs.
    """
    pod, devices, trouble = seen.pod, seen.devices, seen.trouble
    if not devices:
        cells = {"pod": [(pod.name, "bold")], "state": trouble}
        return [Row(key=(pod.name, ""), rank=_rank(trouble), cells=cells)]
    xids = seen.xids
    strip: Line = []
    wrong: Line = []
    holders: dict[str, Line] = {}
    for device in devices:
        if complaints := marks(device, xids):
            strip.append(("×", "bad bold" if _rank(complaints) == 4 else "warn bold"))
            wrong += [(f"{device.get('index')}: ", "dim"), *complaints]
        else:
            strip.append((_LEVELS[min(7, int((device.get("util") or 0) / 12.5))], "accent"))
        holder = owners(device)
        holders[text_of(holder)] = holder
    hottest = max(known(devices, "temp"), default=None)
    used, memory = _sum(devices, "mem_used"), _sum(devices, "mem_total")
    cells = {
        "pod": [(pod.name, "bold")],
        "gpu": [(f"{len(devices)}×".rjust(3), "bold")],
        "model": [(", ".join(sorted({_model(device) for device in devices})), "dim")],
        "util": strip,
        "mem": [(f"{formatting.gib(used)}/{formatting.gib(memory)}G", "")],
        "power": [(f"{_sum(devices, 'power') / 1000:.1f}kW", "")],
        "temp": temperature(hottest, ""),
        "state": wrong or trouble or [("ok", "dim")],
        "owner": joined(holders.values(), (", ", "dim")),
    }
    return [_row((pod.name, ""), cells, [*wrong, *trouble], old=bool(trouble))]


def _sum(devices: Iterable[Device], key: Reading) -> float:
    return float(sum(known(devices, key)))
