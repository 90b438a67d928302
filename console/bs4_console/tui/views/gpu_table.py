"""The GPUs of all pods as rows: a row for each GPU with its processes, or a row for each pod with
all its GPUs in one strip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bs4_console.tui import status, words
from bs4_console.tui.ink import Line
from bs4_console.tui.views.fleet import Column, Row
from bs4_console.tui.views.gpus import HOT_C, marks, nvlink_line, owners, pcie_line, recent_xids
from bs4_console.tui.views.run import bar, faded, is_old

if TYPE_CHECKING:
    from bs4_console.pods.state import PodState
    from bs4_console.tui.clock import Clock

COLUMNS = (
    Column("pod", "POD", 6, 18, 99),
    Column("gpu", "GPU", 3, 3, 98),
    Column("model", "MODEL", 5, 16, 40),
    Column("util", "BUSY", 6, 14, 95),
    Column("mem", "MEMORY", 7, 11, 94, "right"),
    Column("power", "POWER", 5, 9, 70, "right"),
    Column("temp", "TEMP", 4, 5, 60, "right"),
    Column("clock", "SM/MEM MHZ", 9, 10, 50, "right"),
    Column("pcie", "PCIE", 4, 17, 45),
    Column("nvlink", "NVLINK", 6, 11, 46),
    Column("state", "STATE", 4, 24, 97),
    Column("owner", "HELD BY", 24, 0, 96),
)
#: Cells for a GPU's utilisation, from idle to busy.
_LEVELS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Seen:
    """A pod's telemetry at the moment that is shown. `t` is that moment in seconds since the epoch.
    `trouble` says why the data is not what it seems, or why there is none. `old` is True if the
    data is not from that moment.
    """

    pod: PodState
    sample: Mapping[str, Any]
    t: float
    trouble: Line
    old: bool

    @property
    def gpus(self) -> dict[str, Any]:
        """Return the sample's record of the GPUs, or {}."""
        return self.sample.get("gpus") or {}

    @property
    def devices(self) -> list[dict[str, Any]]:
        """Return the record of each GPU."""
        return self.gpus.get("devices") or []

    @property
    def xids(self) -> list[dict[str, Any]]:
        """Return the Xid errors of the hour before the moment."""
        return recent_xids(self.gpus, self.t)


def now(pod: PodState, clock: Clock) -> Seen:
    """Return the pod's newest telemetry."""
    old = is_old(pod, clock)
    trouble = _trouble(pod.latest.get("gpus") or {}) or (
        [(f"seen {words.age(status.age(pod, clock))} ago", "warn")] if old else []
    )
    return Seen(pod, pod.latest, clock.wall(), trouble, old)


def then(pod: PodState, sample: Mapping[str, Any] | None, *, reading: bool) -> Seen:
    """Return the pod's telemetry at the time cursor. `sample` is None if there is none of that
    moment; `reading` is True if it is still being read.
    """
    if sample is None:
        return Seen(
            pod, {}, 0.0, [("reading…" if reading else "no sample of then is kept", "dim")], True
        )
    return Seen(pod, sample, float(sample["t"]), _trouble(sample.get("gpus") or {}), False)


def rows(seen: Iterable[Seen], *, compact: bool) -> list[Row]:
    """Return the rows of all pods: pods with problems first, GPUs in their own order."""
    return arrange(pod_rows(one, compact=compact) for one in seen)


def pod_rows(seen: Seen, *, compact: bool) -> list[Row]:
    """Return one pod's rows. A row's key is (pod, GPU) like "3", (pod, GPU/pid) like "3/812", or
    (pod, "") for the pod itself.
    """
    if compact:
        return _pod_row(seen)
    return _device_rows(seen)


def arrange(of_pods: Iterable[list[Row]]) -> list[Row]:
    """Return the rows of all pods in one list, pods with problems first."""
    return [
        row
        for rows in sorted(of_pods, key=lambda rows: (-max(row.rank for row in rows), rows[0].key))
        for row in rows
    ]


def summary(seen: Iterable[Seen]) -> Line:
    """Return how many GPUs there are and how busy they are, over the pods whose data is from the
    moment that is shown.
    """
    fresh = [one for one in seen if not one.old]
    devices = []
    for one in fresh:
        for device in one.devices:
            devices.append(device)
    busy = []
    for device in devices:
        if device.get("util") is not None:
            busy.append(device["util"])
    held = sum(any(proc.get("run") for proc in device.get("procs") or []) for device in devices)
    watts = sum(device["power"] for device in devices if device.get("power") is not None)
    line: Line = [
        (" gpus ", "head"),
        (f"{len(devices)}", "bold"),
        (f" on {words.count(len(fresh), 'pod')}", "dim"),
    ]
    line += [("   held by runs ", "dim"), (str(held), ""), ("   busy ", "dim")]
    line += [
        (words.whole_percent(sum(busy) / len(busy) if busy else None), ""),
        ("   power ", "dim"),
        (f"{watts / 1000:.1f} kW", ""),
    ]
    return line


def _trouble(gpus: Mapping[str, Any]) -> Line:
    """Return what the source of the GPU data says is wrong with it."""
    state = gpus.get("state")
    if state is None:
        return [("nothing received yet", "dim")]
    if state == "absent":
        return [("absent: ", "warn"), (gpus.get("detail") or "no NVIDIA driver", "dim")]
    if state == "error":
        return [
            ("ERROR: ", "bad bold"),
            (gpus.get("detail") or "the driver reports an error", "bad"),
        ]
    if state == "stale":
        return [
            (
                (
                    f"STALE {words.duration(gpus.get('age_s') or 0)}: "
                    f"{gpus.get('detail') or 'the driver does not answer'}"
                ),
                "warn bold",
            )
        ]
    return []


def _device_rows(seen: Seen) -> list[Row]:
    pod, devices, trouble = seen.pod, seen.devices, seen.trouble
    if not devices:
        return [
            Row(
                key=(pod.name, ""),
                rank=_rank(trouble),
                cells={"pod": [(pod.name, "bold")], "owner": trouble},
            )
        ]
    xids = seen.xids
    made: list[Row] = []
    for i, device in enumerate(devices):
        complaints = marks(device, xids)
        procs = device.get("procs") or []
        several = len(procs) > 1
        cells = _cells(device)
        cells["pod"] = [(pod.name, "bold" if i == 0 else "dim")]
        cells["state"] = complaints or trouble or [("ok", "dim")]
        if several:
            cells["owner"] = [(words.count(len(procs), "process"), "dim")]
        else:
            cells["owner"] = _named(device)
        made.append(
            _row(
                (pod.name, str(device.get("index", i))),
                cells,
                complaints or trouble,
                old=bool(trouble),
            )
        )
        for proc in procs:
            if several:
                made.append(_process(pod.name, device, proc, pod, bool(trouble)))
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


def _cells(device: dict[str, Any]) -> dict[str, Line]:
    util, temp, power, limit = (
        device.get("util"),
        device.get("temp"),
        device.get("power"),
        device.get("power_limit"),
    )
    hot = temp is not None and temp >= HOT_C
    return {
        "gpu": [(f"{device.get('index', '?'):>3}", "bold")],
        "model": [(_model(device), "dim")],
        "util": [*bar((util or 0) / 100, 8), (f" {words.whole_percent(util):>4}", "")],
        "mem": [(f"{words.gib(device.get('mem_used'))}/{words.gib(device.get('mem_total'))}G", "")],
        "power": [(_whole(power), ""), (f"/{_whole(limit)}W" if limit else "W", "dim")],
        "temp": [(f"{_whole(temp)}°C", "warn bold" if hot else "")],
        "clock": [(f"{_whole(device.get('sm_clock'))}/{_whole(device.get('mem_clock'))}", "dim")],
        "pcie": pcie_line(device),
        "nvlink": nvlink_line(device),
    }


def _model(device: dict[str, Any]) -> str:
    return str(device.get("name") or "").removeprefix("NVIDIA ")


def _named(device: dict[str, Any]) -> Line:
    """Return the only process with its pid and memory, or why there is none."""
    procs = device.get("procs") or []
    line = owners(device)
    if procs and procs[0].get("run"):
        line.append((f"  pid {procs[0].get('pid')}", "dim"))
    if device.get("unaccounted"):
        line.append((f"  {words.size(device['unaccounted'])} held by what cannot be seen", "warn"))
    return line


def _process(
    name: str, device: dict[str, Any], proc: dict[str, Any], pod: PodState, old: bool
) -> Row:
    pid = proc.get("pid")
    cells: dict[str, Line] = {
        "pod": [(name, "dim")],
        "gpu": [("  └", "dim")],
        "mem": [(words.size(proc["mem"]) if proc.get("mem") is not None else words.NONE, "")],
        "owner": [
            *owners({"procs": [proc]}),
            *([(f"  pid {pid}", "dim")] if proc.get("run") else []),
        ],
    }
    if proc.get("run") and proc["run"] not in pod.runs:
        cells["state"] = [("run not known here", "warn")]
    return _row((name, f"{device.get('index')}/{pid}"), cells, [], old=old)


def _whole(value: float | None) -> str:
    if value is None:
        return words.NONE
    return f"{value:.0f}"


def _pod_row(seen: Seen) -> list[Row]:
    """Return one row for the pod: a cell for each GPU like "▇▇▆▇×▇▇▁", with × for one with a
    complaint, then the sums over all GPUs.
    """
    pod, devices, trouble = seen.pod, seen.devices, seen.trouble
    if not devices:
        return [
            Row(
                key=(pod.name, ""),
                rank=_rank(trouble),
                cells={"pod": [(pod.name, "bold")], "state": trouble},
            )
        ]
    xids = seen.xids
    strip: Line = []
    wrong: Line = []
    for device in devices:
        complaints = marks(device, xids)
        level = _LEVELS[min(7, int((device.get("util") or 0) / 12.5))]
        strip.append(
            ("×", "bad bold" if _rank(complaints) == 4 else "warn bold")
            if complaints
            else (level, "accent")
        )
        if complaints:
            wrong += [(f"{device.get('index')}: ", "dim"), *complaints]
        else:
            wrong += []
    names = {_model(device) for device in devices}
    holders: dict[str, Line] = {
        "".join(text for text, _ in line): line for line in map(owners, devices)
    }
    held: Line = []
    for line in holders.values():
        if held:
            held += [(", ", "dim"), *line]
        else:
            held += line
    temps = [device["temp"] for device in devices if device.get("temp") is not None]
    cells: dict[str, Line] = {
        "pod": [(pod.name, "bold")],
        "gpu": [(f"{len(devices)}×".rjust(3), "bold")],
        "model": [(", ".join(sorted(names)), "dim")],
        "util": strip,
        "mem": [
            (
                (
                    f"{_sum(devices, 'mem_used') / (1 << 30):.0f}/"
                    f"{_sum(devices, 'mem_total') / (1 << 30):.0f}G"
                ),
                "",
            )
        ],
        "power": [(f"{_sum(devices, 'power') / 1000:.1f}kW", "")],
        "temp": [
            (
                f"{_whole(max(temps, default=None))}°C",
                "warn bold" if max(temps, default=0) >= HOT_C else "",
            )
        ],
        "state": wrong or trouble or [("ok", "dim")],
        "owner": held,
    }
    return [_row((pod.name, ""), cells, [*wrong, *trouble], old=bool(trouble))]


def _sum(devices: Iterable[dict[str, Any]], key: str) -> float:
    return float(sum(device[key] for device in devices if device.get(key) is not None))
