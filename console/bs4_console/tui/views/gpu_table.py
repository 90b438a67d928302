"""Every GPU of every pod as rows, with its processes; or a row for each pod, all its GPUs in one strip."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bs4_console.tui import status, words
from bs4_console.tui.ink import Line
from bs4_console.tui.views.fleet import Column, Row
from bs4_console.tui.views.gpus import HOT_C, marks, owners, recent_xids
from bs4_console.tui.views.run import bar, faded, is_old

if TYPE_CHECKING:
    from bs4_console.core.state import PodState
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
    Column("state", "STATE", 4, 24, 97),
    Column("owner", "HELD BY", 16, 0, 96),
)
#: One cell for each GPU: idle to busy.
_LEVELS = "▁▂▃▄▅▆▇█"


def rows(pods: Iterable[PodState], clock: Clock, *, compact: bool) -> list[Row]:
    """Pods with something wrong first, GPUs in their own order. `key`: (pod, "3" or "3/812"), or (pod, "") for what is of the pod."""
    made = [_pod_row(pod, clock) if compact else _device_rows(pod, clock) for pod in pods]
    made.sort(key=lambda of_pod: (-max(row.rank for row in of_pod), of_pod[0].key))
    return [row for of_pod in made for row in of_pod]


def summary(pods: Iterable[PodState], clock: Clock) -> Line:
    """How many there are and do something, over the pods whose numbers are of now."""
    fresh = [pod for pod in pods if not is_old(pod, clock)]
    devices = [device for pod in fresh for device in _devices(pod)]
    busy = [device["util"] for device in devices if device.get("util") is not None]
    held = sum(any(proc.get("run") for proc in device.get("procs") or []) for device in devices)
    watts = sum(device["power"] for device in devices if device.get("power") is not None)
    line: Line = [(" gpus ", "head"), (f"{len(devices)}", "bold"), (f" on {words.count(len(fresh), 'pod')}", "dim")]
    line += [("   held by runs ", "dim"), (str(held), ""), ("   busy ", "dim")]
    line += [(words.whole_percent(sum(busy) / len(busy) if busy else None), ""), ("   power ", "dim"), (f"{watts / 1000:.1f} kW", "")]
    return line


def _devices(pod: PodState) -> list[dict[str, Any]]:
    return (pod.latest.get("gpus") or {}).get("devices") or []


def _trouble(pod: PodState, clock: Clock) -> Line:
    """Why what is shown of this pod is not the state of now, or why there is nothing."""
    gpus: dict[str, Any] = pod.latest.get("gpus") or {}
    state = gpus.get("state")
    if state is None:
        return [("nothing received yet", "dim")]
    if state == "absent":
        return [("absent: ", "warn"), (gpus.get("detail") or "no NVIDIA driver", "dim")]
    if state == "error":
        return [("ERROR: ", "bad bold"), (gpus.get("detail") or "the driver reports an error", "bad")]
    if state == "stale":
        return [(f"STALE {words.duration(gpus.get('age_s') or 0)}: {gpus.get('detail') or 'the driver does not answer'}", "warn bold")]
    return [(f"seen {words.age(status.age(pod, clock))} ago", "warn")] if is_old(pod, clock) else []


def _device_rows(pod: PodState, clock: Clock) -> list[Row]:
    devices, trouble = _devices(pod), _trouble(pod, clock)
    if not devices:
        return [Row((pod.name, ""), _rank(trouble), {"pod": [(pod.name, "bold")], "owner": trouble})]
    xids = recent_xids(pod.latest["gpus"], clock.wall())
    made: list[Row] = []
    for i, device in enumerate(devices):
        complaints = marks(device, xids)
        procs = device.get("procs") or []
        several = len(procs) > 1
        cells = _cells(device)
        cells["pod"] = [(pod.name, "bold" if i == 0 else "dim")]
        cells["state"] = complaints or trouble or [("ok", "dim")]
        cells["owner"] = [(words.count(len(procs), "process"), "dim")] if several else _named(device)
        made.append(_row((pod.name, str(device.get("index", i))), cells, complaints or trouble, old=bool(trouble)))
        made += [_process(pod.name, device, proc, pod, bool(trouble)) for proc in procs if several]
    return made


def _row(key: tuple[str, str], cells: dict[str, Line], wrong: Line, *, old: bool) -> Row:
    return Row(key, _rank(wrong), {name: faded(line) if old else line for name, line in cells.items()}, old=False)


def _rank(wrong: Line) -> int:
    roles = " ".join(role for _, role in wrong)
    return 4 if "bad" in roles else 2 if "warn" in roles else 0


def _cells(device: dict[str, Any]) -> dict[str, Line]:
    util, temp, power, limit = device.get("util"), device.get("temp"), device.get("power"), device.get("power_limit")
    hot = temp is not None and temp >= HOT_C
    return {
        "gpu": [(f"{device.get('index', '?'):>3}", "bold")],
        "model": [(_model(device), "dim")],
        "util": [*bar((util or 0) / 100, 8), (f" {words.whole_percent(util):>4}", "")],
        "mem": [(f"{words.gib(device.get('mem_used'))}/{words.gib(device.get('mem_total'))}G", "")],
        "power": [(_whole(power), ""), (f"/{_whole(limit)}W" if limit else "W", "dim")],
        "temp": [(f"{_whole(temp)}°C", "warn bold" if hot else "")],
        "clock": [(f"{_whole(device.get('sm_clock'))}/{_whole(device.get('mem_clock'))}", "dim")],
    }


def _model(device: dict[str, Any]) -> str:
    return str(device.get("name") or "").removeprefix("NVIDIA ")


def _named(device: dict[str, Any]) -> Line:
    """The only process with its pid and memory, or why there is none."""
    procs = device.get("procs") or []
    line = owners(device)
    if procs and procs[0].get("run"):
        line.append((f"  pid {procs[0].get('pid')}", "dim"))
    if device.get("unaccounted"):
        line.append((f"  {words.size(device['unaccounted'])} held by what cannot be seen", "warn"))
    return line


def _process(name: str, device: dict[str, Any], proc: dict[str, Any], pod: PodState, old: bool) -> Row:
    pid = proc.get("pid")
    cells: dict[str, Line] = {
        "pod": [(name, "dim")],
        "gpu": [("  └", "dim")],
        "mem": [(words.size(proc["mem"]) if proc.get("mem") is not None else words.NONE, "")],
        "owner": [*owners({"procs": [proc]}), *([(f"  pid {pid}", "dim")] if proc.get("run") else [])],
    }
    if proc.get("run") and proc["run"] not in pod.runs:
        cells["state"] = [("run not known here", "warn")]
    return _row((name, f"{device.get('index')}/{pid}"), cells, [], old=old)


def _whole(value: float | None) -> str:
    return words.NONE if value is None else f"{value:.0f}"


def _pod_row(pod: PodState, clock: Clock) -> list[Row]:
    """▇▇▆▇×▇▇▁: a cell for each GPU, × for one with a complaint; then what is true of all of them together."""
    devices, trouble = _devices(pod), _trouble(pod, clock)
    if not devices:
        return [Row((pod.name, ""), _rank(trouble), {"pod": [(pod.name, "bold")], "state": trouble})]
    xids = recent_xids(pod.latest["gpus"], clock.wall())
    strip: Line = []
    wrong: Line = []
    for device in devices:
        complaints = marks(device, xids)
        level = _LEVELS[min(7, int((device.get("util") or 0) / 12.5))]
        strip.append(("×", "bad bold" if _rank(complaints) == 4 else "warn bold") if complaints else (level, "accent"))
        wrong += [(f"{device.get('index')}: ", "dim"), *complaints] if complaints else []
    names = {_model(device) for device in devices}
    seen: dict[str, Line] = {"".join(text for text, _ in line): line for line in map(owners, devices)}
    held: Line = []
    for line in seen.values():
        held += [(", ", "dim"), *line] if held else line
    temps = [device["temp"] for device in devices if device.get("temp") is not None]
    cells: dict[str, Line] = {
        "pod": [(pod.name, "bold")],
        "gpu": [(f"{len(devices)}×".rjust(3), "bold")],
        "model": [(", ".join(sorted(names)), "dim")],
        "util": strip,
        "mem": [(f"{_sum(devices, 'mem_used') / (1 << 30):.0f}/{_sum(devices, 'mem_total') / (1 << 30):.0f}G", "")],
        "power": [(f"{_sum(devices, 'power') / 1000:.1f}kW", "")],
        "temp": [(f"{_whole(max(temps, default=None))}°C", "warn bold" if max(temps, default=0) >= HOT_C else "")],
        "state": wrong or trouble or [("ok", "dim")],
        "owner": held,
    }
    return [_row((pod.name, ""), cells, [*wrong, *trouble], old=bool(trouble))]


def _sum(devices: Iterable[dict[str, Any]], key: str) -> float:
    return float(sum(device[key] for device in devices if device.get(key) is not None))
