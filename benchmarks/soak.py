"""Three pods under load for hours: no growth in memory, descriptors, threads or disk.

    .venv/bin/python benchmarks/soak.py [--hours 1] [--json FILE]          (`make soak HOURS=1`)
    .venv/bin/python benchmarks/soak.py --page                 (docs/soak.md from the kept result)

The real console in a real terminal on three practice pods that train two steps a second. Looked at
every few seconds: resident memory, descriptors, threads and directory of the console and of each
pod's agent. Their curve is in benchmarks/results/soak.json. The last quarter is compared with the
second one (medians): what grew by more than `BOUNDS` fails. The disk of the console may grow by
what it keeps of the pods, up to its ceiling; that of an agent by its day of telemetry. With --json
the result is kept, and docs/soak.md is written from it, with the curve of the memory.
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
from tools.rounds import git  # noqa: E402

PODS = ("soak-a", "soak-b", "soak-c")
#: How much the median of the last quarter may be above that of the second. An agent's telemetry is
#: some 20 MB an hour, and a console keeps that of three pods and their logs.
BOUNDS = {"resident_mb": 15.0, "descriptors": 8.0, "threads": 4.0}
DISK_MB_AN_HOUR = {"console": 300.0, "agent": 100.0}
#: How many looks there are, whatever the time.
LOOKS = 240
RESULT = ROOT / "benchmarks" / "results" / "soak.json"
PAGE = ROOT / "docs" / "soak.md"
PICTURE = ROOT / "docs" / "pictures" / "soak.svg"
#: What the page says of each figure.
WORDS = {
    "resident_mb": "memory, MB",
    "descriptors": "descriptors",
    "threads": "threads",
    "disk_mb": "disk, MB",
}
COLOURS = ("#22aa77", "#cc5500", "#3366cc", "#aa3377")
WIDE, HIGH, MARGIN = 760, 240, 40


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


def quarters(curve: list[dict[str, Any]], name: str, key: str) -> list[str]:
    """Return the median of a figure in each quarter of the time, as text."""
    values: list[float] = [row[name][key] for row in curve]
    size = max(1, len(values) // 4)
    parts = (values[size * part : size * (part + 1)] or values[-1:] for part in range(4))
    return [f"{statistics.median(part):g}" for part in parts]


def page(result: dict[str, Any]) -> str:
    """Return docs/soak.md for a kept result."""
    broken = [name for name, holds in result["kept"].items() if not holds]
    verdict = "Every bound held."
    if broken:
        verdict = f"A bound did not hold: {', '.join(broken)}."
    lines = [
        "# Hours under load",
        "",
        "The console ran in a terminal, with three practice pods that train two steps a second. "
        f"It ran for {result['hours']:g} h on {result['cores']} cores, on commit "
        f"{result['commit']}. `make soak HOURS={result['hours']:g}` repeats it and writes this "
        "page.",
        "",
        f"{verdict} The last quarter is compared with the second one. Memory may grow by "
        f"{BOUNDS['resident_mb']:g} MB, descriptors by {BOUNDS['descriptors']:g} and threads by "
        f"{BOUNDS['threads']:g}. Disk may grow by what is recorded: {DISK_MB_AN_HOUR['console']:g} "
        f"MB an hour on the console, {DISK_MB_AN_HOUR['agent']:g} on a pod.",
        "",
        "![Resident memory over the time](pictures/soak.svg)",
        "",
        "The medians of the four quarters:",
        "",
        "| process | figure | first | second | third | last | grown |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, grown in result["grown"].items():
        for key, words in WORDS.items():
            cells = quarters(result["curve"], name, key)
            lines.append(f"| {name} | {words} | {' | '.join(cells)} | {grown[key]:+g} |")
    lost = sum(pod["lost"] for pod in result["lost"].values())
    held = sum(pod["held"] for pod in result["lost"].values())
    lines += ["", f"The console held {held:,} records of the pods, and {lost:,} were lost."]
    return "\n".join(lines) + "\n"


def picture(result: dict[str, Any]) -> str:
    """Return an SVG image with the resident memory of each process over the time."""
    curve, names = result["curve"], list(result["grown"])
    end = max(row["at_s"] for row in curve) or 1.0
    top = max(row[name]["resident_mb"] for row in curve for name in names) * 1.1
    across, up = (WIDE - 2 * MARGIN) / end, (HIGH - 2 * MARGIN) / top
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" '
        'font-family="sans-serif" font-size="11" fill="#888">',
        f'<path d="M{MARGIN} {MARGIN}V{HIGH - MARGIN}H{WIDE - MARGIN}" stroke="#888" fill="none"/>',
        f'<text x="4" y="{MARGIN - 8}">{top:.0f} MB</text>',
        f'<text x="{WIDE - MARGIN}" y="{HIGH - MARGIN + 14}" text-anchor="end">{end / 60:.0f} min'
        "</text>",
    ]
    for number, (name, colour) in enumerate(zip(names, COLOURS, strict=True)):
        points = " ".join(
            f"{MARGIN + row['at_s'] * across:.1f},"
            f"{HIGH - MARGIN - row[name]['resident_mb'] * up:.1f}"
            for row in curve
        )
        parts.append(f'<polyline fill="none" stroke="{colour}" points="{points}"/>')
        parts.append(
            f'<text x="{MARGIN + 160 * number}" y="{HIGH - 8}" fill="{colour}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", action="store_true", help="only write the page, from the result")
    options = parser.parse_args()
    if options.page:
        write_page(json.loads(RESULT.read_text()))
        return 0
    commit = git("rev-parse", "--short", "HEAD")
    result = measure(options.hours)
    about = {
        "schema": "bs4.bench-soak/1",
        "commit": commit,
        "cores": os.cpu_count(),
        "bounds": BOUNDS,
    }
    holds = kept(result)
    whole = {**about, "kept": holds, **result}
    print(json.dumps({"kept": holds, "grown": result["grown"], "lost": result["lost"]}, indent=2))
    if options.json:
        options.json.write_text(json.dumps(whole) + "\n")
    if options.json and options.json.resolve() == RESULT:
        write_page(whole)
    return 0 if all(holds.values()) else 1


def write_page(result: dict[str, Any]) -> None:
    """Write docs/soak.md and its picture."""
    PAGE.write_text(page(result))
    PICTURE.write_text(picture(result))


if __name__ == "__main__":
    sys.exit(main())
