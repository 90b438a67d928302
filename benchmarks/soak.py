"""Three pods under load for hours: no growth in memory, descriptors, threads or disk.

    .venv/bin/python benchmarks/soak.py [--hours 1] [--json FILE]          (`make soak HOURS=1`)

The real console in a real terminal on three practice pods that train two steps a second. Looked at
every few seconds: resident memory, descriptors, threads and directory of the console and of each
pod's agent. Their curve is in benchmarks/results/soak.json. The last quarter is compared with the
second one (medians): what grew by more than `BOUNDS` fails. The disk of the console may grow by
what it keeps of the pods, up to its ceiling; that of an agent by its day of telemetry.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.hostile import beside  # noqa: E402 (the checkout's root must be importable)

PODS = ("soak-a", "soak-b", "soak-c")
#: How much the median of the last quarter may be above that of the second. An agent's telemetry is
#: some 20 MB an hour, and a console keeps that of three pods and their logs.
BOUNDS = {"resident_mb": 15.0, "descriptors": 8.0, "threads": 4.0}
DISK_MB_AN_HOUR = {"console": 300.0, "agent": 100.0}
#: How many looks there are, whatever the time.
LOOKS = 240


def look(process: psutil.Process, directory: Path) -> dict[str, float]:
    """Return one look at a process and at what it keeps."""
    return {
        "resident_mb": round(process.memory_info().rss / 1e6, 1),
        "descriptors": process.num_fds(),
        "threads": process.num_threads(),
        "disk_mb": round(beside.used(directory), 2),
    }


def agents(here: beside.World) -> dict[str, tuple[psutil.Process, Path]]:
    """Return the agent's process and directory of each pod."""
    found = {}
    for pod in here.honest:
        for process in psutil.Process(pod.pid).children(recursive=True):
            if {"daemon", "serve"} & set(process.cmdline()):
                found[f"agent {pod.name}"] = process, pod.home / ".bs4"
    return found


def growth(curve: list[dict[str, Any]], name: str, key: str) -> float:
    """Return by how much the median of the last quarter is above that of the second."""
    values: list[float] = [row[name][key] for row in curve]
    quarter = max(1, len(curve) // 4)
    second = statistics.median(values[quarter : 2 * quarter])
    return round(statistics.median(values[-quarter:]) - second, 2)


def measure(hours: float) -> dict[str, Any]:
    """Return the curve of everything, and what grew."""
    curve: list[dict[str, Any]] = []
    with beside.world([], PODS) as here:
        watched = {
            "console": (psutil.Process(here.terminal.pid), here.console.data),
            **agents(here),
        }
        began, pause = time.monotonic(), max(1.0, hours * 3600 / LOOKS)
        while (at := time.monotonic() - began) < hours * 3600:
            beside.press_keys(here.terminal, 0.0)
            row = {name: look(*where) for name, where in watched.items()}
            curve.append({"at_s": round(at, 1), **row})
            time.sleep(pause)
        lost = {pod.name: beside.lost(pod, here.console) for pod in here.honest}
    grown = {name: {key: growth(curve, name, key) for key in curve[0][name]} for name in watched}
    return {"hours": hours, "grown": grown, "lost": lost, "curve": curve}


def kept(result: dict[str, Any]) -> dict[str, bool]:
    """Return which bounds hold, by what was watched."""
    found = {}
    for name, grown in result["grown"].items():
        # From the middle of the second quarter to that of the last one is half of the time.
        disk = DISK_MB_AN_HOUR[name.split()[0]] * max(result["hours"] / 2, 0.1)
        within = all(grown[key] <= most for key, most in BOUNDS.items())
        found[name] = within and grown["disk_mb"] <= disk
    found["nothing lost"] = not any(pod["lost"] for pod in result["lost"].values())
    found["three agents"] = len(result["grown"]) == len(PODS) + 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = measure(options.hours)
    about = {"schema": "bs4.bench-soak/1", "cores": os.cpu_count(), "bounds": BOUNDS}
    holds = kept(result)
    text = json.dumps({**about, "kept": holds, **result})
    print(json.dumps({"kept": holds, "grown": result["grown"], "lost": result["lost"]}, indent=2))
    if options.json:
        options.json.write_text(text + "\n")
    return 0 if all(holds.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
