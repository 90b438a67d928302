"""The screen on a pod that is far away: how much longer a look at a big log takes than without the
distance.

    .venv/bin/python benchmarks/far_screen.py [--lines 1000000] [--rounds 3]
                                              [--round-trips 0 30 150 300] [--json FILE]

The real console in a real terminal (tmux, 180x50) on a namespaced pod (a real OpenSSH server) whose
agent runs, through the link of benchmarks/distance.py. The log has lines of 95 bytes and is larger
than what a log view holds. Measured are, from the key to the line on the screen, medians,

* end: the newest line, of a log that is opened from the fleet
* line: a line of the middle, by its number, another each round
* first: the nearest match of a text that occurs once, at the other end of the log
* key: `g` at the end of the log, which asks the pod for its first lines

`trips` is how much longer each took than in the same run without the distance, in round trips.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.biglog import ONCE, SIZE, make_log  # noqa: E402 (the root must be importable)
from benchmarks.distance import Far, linked  # noqa: E402
from benchmarks.terminal import Terminal  # noqa: E402
from tests.support.pods import Pods  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "far_screen.json"
CONSOLE = "import sys; from bs4_console.cli.main import main; sys.exit(main())"
#: Where in the log the rounds go to, as parts of it: none is near another.
PLACES = (0.9, 0.1, 0.33, 0.66, 0.25, 0.75)
Times = dict[str, list[float]]


def answered(seconds: float | None, what: str, terminal: Terminal) -> float:
    """Return the seconds. SystemExit, with the screen, if there was no answer (None)."""
    if seconds is None:
        raise SystemExit(f"{what} does not come; the screen shows:\n{terminal.shown()}")
    return seconds


def look(there: Far, pod: str, log: str, lines: int, rounds: int) -> Times:
    """Return the seconds of each round, by what was asked for. The first round is thrown away: in
    it the agent counts the lines of the log.
    """
    newest = rf"Step {lines - 1} "
    times: Times = {"end": [], "line": [], "first": [], "key": []}
    # Our own environment is in it anyway; modules are compiled, as those of an installed console.
    own = {name: value for name, value in there.environment.items() if name.startswith("BS4_")}
    own["PYTHONDONTWRITEBYTECODE"] = ""
    terminal = Terminal([sys.executable, "-c", CONSOLE], SIZE, own)

    def note(what: str, seconds: float | None) -> None:
        times[what].append(answered(seconds, what, terminal))

    try:
        answered(terminal.wait(rf"{pod} .*\dms"), "the pod", terminal)
        for number in range(rounds + 1):
            note("end", terminal.enter(f":open {log}", newest))
            line = int(lines * PLACES[number % len(PLACES)])
            note("line", terminal.enter(f":go {line}", rf"Step {line - 1} "))
            answered(terminal.after("G", newest), "the end", terminal)
            note("key", terminal.after("g", "Step 0 "))
            answered(terminal.after("G", newest), "the end", terminal)
            note("first", terminal.enter(f":find {ONCE}", "Step 7 "))
            answered(terminal.after("Escape", "› fleet"), "the fleet", terminal)
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
    for name in ("TMUX", "TMUX_PANE", "COLUMNS", "LINES", "SSH_CONNECTION", "SSH_TTY"):
        os.environ.pop(name, None)
    pods = Pods()
    rows: dict[str, dict[str, Any]] = {}
    local: dict[str, float] = {}
    try:
        if pods.kind != "namespaced":
            print(f"far_screen: needs namespaced pods. {'; '.join(pods.reasons)}")
            return 2
        (pod,) = pods(1)
        log = f"{pod.home}/big.log"
        make_log(pod.root / log.lstrip("/"), options.lines)
        for milliseconds in sorted({0.0, *options.round_trips}):
            with linked(pod, milliseconds, None) as there:
                seconds = look(there, pod.name, log, options.lines, options.rounds)
            median = {what: statistics.median(values) for what, values in seconds.items()}
            local = local or median
            row: dict[str, Any] = {
                "median_s": {what: round(value, 3) for what, value in median.items()},
                "seconds": {
                    what: [round(one, 3) for one in all_] for what, all_ in seconds.items()
                },
            }
            if milliseconds:
                row["trips"] = {
                    what: round((median[what] - local[what]) * 1000 / milliseconds, 2)
                    for what in median
                }
            rows[f"{milliseconds:g}"] = row
            print(f"{milliseconds:4g} ms  {row['median_s']}  {row.get('trips', '')}", flush=True)
    finally:
        pods.close()
    result = {
        "schema": "bs4.bench-far-screen/1",
        "profile": {what: waits(rows, what) for what in local},
        "lines": options.lines,
        "rounds": options.rounds,
        "round_trip_ms": rows,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
