"""The screen on a pod that is far away: how much longer a look at a big log takes than without the
distance.

    .venv/bin/python benchmarks/far_screen.py [--lines 1000000] [--rounds 3]
                                              [--round-trips 0 30 150 300] [--json FILE]

The real console in a real terminal (tmux, 200x60) on a namespaced pod (a real OpenSSH server) with
a run that the console has launched, as in benchmarks/screen.py, through the link of
benchmarks/distance.py. The log of its trainer has lines of about 75 bytes and is larger than what a
log view holds. Measured are, from the key to the line on the screen, medians,

* end: the newest line, of the log that is opened on the page of the run
* line: a line of the middle, by its number, another each round
* key: `g` at the end of the log, which asks the pod for its first lines
* first: the nearest match of a text that occurs once, at the other end of the log

`trips` is how much longer each took than in the same run without the distance, in round trips.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import flood  # noqa: E402 (the checkout's root must be importable)
from benchmarks.distance import Far, linked  # noqa: E402
from benchmarks.screen import CONSOLE, SIZE, World  # noqa: E402
from benchmarks.terminal import Terminal  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "far_screen.json"
#: Where in the log the rounds go to, as parts of it: none is near another.
PLACES = (0.9, 0.1, 0.33, 0.66, 0.25, 0.75)
LOG_PAGE = "› flood › logs"
#: Seconds within which the run must have written its lines.
WRITTEN_S = 120.0
Times = dict[str, list[float]]


def answered(seconds: float | None, what: str, terminal: Terminal) -> float:
    """Return the seconds. SystemExit, with the screen, if there was no answer (None)."""
    if seconds is None:
        raise SystemExit(f"{what} does not come; the screen shows:\n{terminal.shown()}")
    return seconds


def until_written(world: World) -> None:
    """Wait until the log of the run has all of its lines. Raises RuntimeError if it never has."""
    log = world.logs(world.pods[0]) / "trainer.stdout"
    size = len(flood.lines(0, world.first, world.rate))
    began = time.monotonic()
    while not log.exists() or log.stat().st_size < size:
        if time.monotonic() - began > WRITTEN_S:
            raise RuntimeError(f"The run has not written {size} bytes in {WRITTEN_S:.0f} s.")
        time.sleep(0.1)


def look(there: Far, pod: str, lines: int, rounds: int) -> Times:
    """Return the seconds of each round, by what was asked for. The first round is thrown away: in
    it the agent counts the lines of the log.
    """
    # The page of the run shows the newest line too; the log's own page has its name on top.
    newest, oldest = f"(?s){LOG_PAGE}.*rollout {lines - 1} of", "rollout 0 of"
    times: Times = {"end": [], "line": [], "key": [], "first": []}
    # Our own environment is in it anyway; modules are compiled, as those of an installed console.
    own = {name: value for name, value in there.environment.items() if name.startswith("BS4_")}
    own["PYTHONDONTWRITEBYTECODE"] = ""
    terminal = Terminal([sys.executable, "-c", CONSOLE], SIZE, own)

    def note(what: str, seconds: float | None) -> None:
        times[what].append(answered(seconds, what, terminal))

    def to_the_end() -> None:
        answered(terminal.after("G", newest), "the end", terminal)

    try:
        answered(terminal.wait(rf"{pod} .*flood +prime-rl"), "the pod", terminal)
        answered(terminal.enter(f":run {pod}/flood", "› flood"), "the run", terminal)
        for number in range(rounds + 1):
            note("end", terminal.enter(":logs trainer", newest))
            line = int(lines * PLACES[number % len(PLACES)])
            note("line", terminal.enter(f":go {line}", f"rollout {line - 1} of"))
            to_the_end()
            note("key", terminal.after("g", oldest))
            to_the_end()
            note("first", terminal.enter(":find rollout 7 of", "▸.*rollout 7 of"))
            to_the_end()
            terminal.press("Escape")
            answered(terminal.until(lambda now: LOG_PAGE not in now), "the run", terminal)
    finally:
        terminal.close()
    return {what: seconds[1:] for what, seconds in times.items()}


def waits(rows: dict[str, dict[str, Any]], what: str) -> list[str]:
    """Return what each distance adds to a look, as lines."""
    lines = [f"{rows['0']['median_s'][what]:6.3f} s  at 0 ms"]
    for milliseconds, row in rows.items():
        if "trips" in row:
            took, trips = row["median_s"][what], row["trips"][what]
            lines.append(f"{took:6.3f} s  at {milliseconds} ms, {trips:.2f} round trips more")
    return lines


def at_distances(world: World, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return what was measured at each round trip, by its milliseconds, that of 0 first."""
    (pod,) = world.pods
    rows: dict[str, dict[str, Any]] = {}
    local: dict[str, float] = {}
    for milliseconds in sorted({0.0, *options.round_trips}):
        with linked(pod, milliseconds, None) as there:
            seconds = look(there, pod.name, options.lines, options.rounds)
        median = {what: statistics.median(values) for what, values in seconds.items()}
        local = local or median
        row: dict[str, Any] = {
            "median_s": {what: round(value, 3) for what, value in median.items()},
            "seconds": {name: [round(one, 3) for one in taken] for name, taken in seconds.items()},
        }
        if milliseconds:
            row["trips"] = {
                what: round((value - local[what]) * 1000 / milliseconds, 2)
                for what, value in median.items()
            }
        rows[f"{milliseconds:g}"] = row
        print(f"{milliseconds:4g} ms  {row['median_s']}  {row.get('trips', '')}", flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--round-trips", type=float, nargs="+", default=[0.0, 30.0, 150.0, 300.0])
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    if shutil.which("tmux") is None:
        print("far_screen: no tmux on this machine; there is no terminal to look at.")
        return 2
    with tempfile.TemporaryDirectory(prefix="bs4-") as directory:
        world = World(Path(directory), 1000, pods=1, first=options.lines)
        try:
            if world.maker.kind != "namespaced":
                print(f"far_screen: needs namespaced pods. {'; '.join(world.maker.reasons)}")
                return 2
            until_written(world)
            rows = at_distances(world, options)
        finally:
            world.close()
    result = {
        "schema": "bs4.bench-far-screen/1",
        "lines": options.lines,
        "rounds": options.rounds,
        "profile": {what: waits(rows, what) for what in rows["0"]["median_s"]},
        "round_trip_ms": rows,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
