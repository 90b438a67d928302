"""Measure every row of docs/performance.md, one script after the other, and write the page.

    python benchmarks/table.py [--only ROW,MEASUREMENT,...]     measure all, or these, and write it
    python benchmarks/table.py --page [--check]                 only write it, from what is kept
    python benchmarks/table.py --list                           what there is, and how long it takes

`make bench` and `make bench ONLY=...` call it. The rows are in benchmarks/rows.py. The result of
each measurement is kept in benchmarks/results/NAME.json as soon as it is there, with commit, time
and machine, so that an interrupted run loses nothing; a measurement that fails leaves the older
result as it was.

A row that misses its goal needs its reason, a sentence in benchmarks/reasons.toml; without one the
page is not written, and the exit code is 1. With --check nothing is written, and the exit code is 1
if the page is not what the results say.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

# The checkout's root must be importable.
from benchmarks.profiles import compiled  # noqa: E402
from benchmarks.rows import MEASUREMENTS, ROWS, Measurement, Result, Row, Where  # noqa: E402
from tools.rounds import git  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
REASONS = ROOT / "benchmarks" / "reasons.toml"
PAGE = ROOT / "docs" / "performance.md"
#: A measurement that takes so many times as long as it should is given up, but never earlier than
#: after so many minutes.
PATIENCE, PATIENCE_MINUTES = 5.0, 15.0
NOT_MEASURED = "not measured"
INTRODUCTION = """\
# Performance

Made by `make bench` from benchmarks/results/*.json; do not edit.

Each row is measured beside what a user would pick instead, in turn in the same run, on practice
pods (real OpenSSH servers in namespaces) of one machine. A distance is a link that hands every
byte on half a round trip late, with a limit of bandwidth for each connection. Whole logs are
compared by their SHA-256. A ratio of whole logs and of `check` is the median of the pairs' ratios;
the seconds beside it are medians. What a link that drops in the middle of such a read must not
lose is held by tests: tests/console/pods/reading/test_ahead_link.py and `make chaos`.

`make bench` measures all and writes this page; `make bench ONLY=ROW,...` measures some rows and
keeps the others. A row says which commit was measured, when and on which machine; with a `+`, the
tree had changes that were in no commit. "As it is" is a goal that says to stay: what was measured
when it was set, and a tenth more.
"""
#: Where a result was kept before `make bench` was there.
FROM_HISTORY = """\
Of the results with a `*` the commit is the one that added them, and its day: they did not say
themselves what was measured.
"""
LINK_TESTS = ROOT / "tests" / "console" / "pods" / "reading" / "test_ahead_link.py"


class NoReason(Exception):
    """Raised when rows miss their goals and nothing says why."""


@dataclass(frozen=True)
class Shown:
    """A row with what is known of it: its result, and its figures in it. None is not measured."""

    row: Row
    result: Result | None
    figure: float | None
    ours: float | None
    theirs: float | None

    @property
    def verdict(self) -> str:
        """Return "kept", "missed", "no goal" or "not measured"."""
        if self.figure is None:
            return NOT_MEASURED
        words = {None: "no goal", True: "kept", False: "missed"}
        return words[self.row.kept(self.figure)]


# Measuring


def machine() -> dict[str, Any]:
    """Return a description of this machine: cores, CPU, Python and kernel."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "cores": os.cpu_count(),
        "cpu": model,
        "python": platform.python_version(),
        "kernel": f"{platform.system()} {platform.release()}",
    }


def chosen(words: Sequence[str]) -> list[Measurement]:
    """Return the measurements of these rows and names of measurements, all without a word. Raises
    SystemExit if there is no such row or measurement.
    """
    if not words:
        return list(MEASUREMENTS)
    wanted = {}
    for row in ROWS:
        wanted[row.id] = row.measurement
    names = {measurement.name for measurement in MEASUREMENTS}
    unknown = [word for word in words if word not in wanted and word not in names]
    if unknown:
        raise SystemExit(f"There is no row {', '.join(unknown)}; see `--list`.")
    found = {wanted.get(word, word) for word in words}
    return [measurement for measurement in MEASUREMENTS if measurement.name in found]


def measure(measurement: Measurement, results: Path, scripts: Path) -> bool:
    """Run a measurement's script, keep its result with commit, time and machine, and return whether
    there is one. What the script prints is printed.
    """
    began, load = time.time(), os.getloadavg()[0]
    commit, changed = git("rev-parse", "--short=8", "HEAD"), _changed()
    limit = 60 * max(PATIENCE_MINUTES, PATIENCE * measurement.minutes)
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "result.json"
        argv = [sys.executable, str(scripts / measurement.script), *measurement.arguments]
        try:
            done = subprocess.run(
                [*argv, "--json", str(target)],
                cwd=ROOT,
                env=compiled(None),
                stdin=subprocess.DEVNULL,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"{measurement.name}: no end within {limit / 60:.0f} minutes.", flush=True)
            return False
        if not target.exists():
            print(f"{measurement.name}: no result (exit code {done.returncode}).", flush=True)
            return False
        result: dict[str, Any] = json.loads(target.read_text())
    at = datetime.datetime.fromtimestamp(began, datetime.UTC)
    result["measured"] = {
        "commit": commit,
        "changed": changed,
        "at": at.strftime("%Y-%m-%d %H:%M"),
        "seconds": round(time.time() - began),
        "load1": round(load, 2),
        "command": measurement.command,
        "machine": machine(),
    }
    keep(result, results / f"{measurement.name}.json")
    return True


def _changed() -> bool:
    """Return whether the tree has changes, beside results and page, that are not in the commit."""
    made = [f":!{path.relative_to(ROOT)}" for path in (RESULTS, PAGE, REASONS)]
    return bool(git("status", "--porcelain", "--", ".", *made))


def keep(result: Result, path: Path) -> None:
    """Write a result in one move: an older one is there, or the new one as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".new")
    half.write_text(json.dumps(result, indent=1) + "\n")
    half.rename(path)


# The page


def load(results: Path) -> dict[str, Result]:
    """Return the results that are kept, by the name of the measurement."""
    found = {}
    for measurement in MEASUREMENTS:
        path = results / f"{measurement.name}.json"
        if path.exists():
            found[measurement.name] = json.loads(path.read_text())
    return found


def number(result: Result | None, where: Where) -> float | None:
    """Return what stands at a place of a result, or None if nothing does."""
    if result is None or where == "":
        return None
    try:
        found: Any = where(result) if callable(where) else at(result, where)
    except (KeyError, ZeroDivisionError):
        return None
    return None if found is None else float(found)


def at(result: Result, path: str) -> Any:
    """Return what stands at a path of keys with slashes. Raises KeyError if nothing does."""
    found: Any = result
    for key in path.split("/"):
        found = found[key]
    return found


def shown(results: Mapping[str, Result]) -> list[Shown]:
    """Return every row with what the results say of it."""
    found = []
    for row in ROWS:
        result = results.get(row.measurement)
        figures = [number(result, where) for where in (row.figure, row.ours, row.theirs)]
        found.append(Shown(row, result, *figures))
    return found


def amount(value: float | None, unit: str) -> str:
    """Return a number as it is shown, with three digits, or a dash."""
    if value is None:
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def goal_of(row: Row) -> str:
    """Return a row's goal in words."""
    if row.goal is None:
        return "–"
    return f"{'at least' if row.least else 'at most'} {row.goal:g}"


def when(result: Result | None, machines: Sequence[Mapping[str, Any]]) -> str:
    """Return the commit, the day and the machine of a result."""
    if result is None or "measured" not in result:
        return "–"
    measured = result["measured"]
    more = "+" if measured["changed"] else ""
    if measured.get("from_history"):
        more = "*"
    letter = _letter(machines.index(measured["machine"]))
    return f"{measured['commit']}{more}, {measured['at'][:10]}, {letter}"


def _letter(index: int) -> str:
    return chr(ord("A") + index)


def machines_of(results: Mapping[str, Result]) -> list[Mapping[str, Any]]:
    """Return the machines on which the results were taken, each once."""
    found: list[Mapping[str, Any]] = []
    for result in results.values():
        if "measured" in result and result["measured"]["machine"] not in found:
            found.append(result["measured"]["machine"])
    return found


def profile_of(one: Shown) -> list[str]:
    """Return where the time of a row goes, as lines, as far as its result says it."""
    if one.result is None or not one.row.profile:
        return []
    try:
        found = at(one.result, one.row.profile)
    except KeyError:
        return []
    if isinstance(found, Mapping):
        return [f"{value!s:>8}  {key}" for key, value in found.items()]
    return [str(line) for line in found]


def page(results: Mapping[str, Result], reasons: Mapping[str, str]) -> str:
    """Return the text of docs/performance.md. Raises NoReason if a row misses its goal and
    `reasons` does not say why.
    """
    rows = shown(results)
    missed = [one for one in rows if one.verdict == "missed"]
    silent = [one.row.id for one in missed if not reasons.get(one.row.id)]
    if silent:
        raise NoReason(
            f"{', '.join(silent)}: over the goal, and nothing says why. Write a sentence for each "
            "into benchmarks/reasons.toml, from its profile in benchmarks/results, then call "
            "`python benchmarks/table.py --page`."
        )
    machines = machines_of(results)
    parts = [INTRODUCTION, _summary(rows), _machines(machines)]
    if any(result.get("measured", {}).get("from_history") for result in results.values()):
        parts.append(FROM_HISTORY)
    for group in dict.fromkeys(row.group for row in ROWS):
        parts.append(_table(group, [one for one in rows if one.row.group == group], machines))
    parts.append(_missed(missed, reasons))
    parts.append(_measurements(results, machines))
    return "\n".join(parts)


def _summary(rows: Sequence[Shown]) -> str:
    verdicts = [one.verdict for one in rows]
    counts = [f"{verdicts.count(word)} {word}" for word in ("kept", "missed", NOT_MEASURED)]
    return f"Of {len(rows)} rows: {', '.join(counts)}.\n"


def _machines(machines: Iterable[Mapping[str, Any]]) -> str:
    lines = []
    for index, about in enumerate(machines):
        words = [
            f"{about['cores']} cores",
            about["cpu"],
            f"Python {about['python']}",
            about["kernel"],
        ]
        lines.append(f"* Machine {_letter(index)}: {', '.join(words)}.")
    return "\n".join(lines) + "\n"


def _table(group: str, rows: Iterable[Shown], machines: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        f"## {group}",
        "",
        "| what | command | beside | ours | theirs | figure | goal | | measured |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        row = one.row
        cells = [
            row.what,
            f"`make bench ONLY={row.id}`",
            row.peer or "–",
            amount(one.ours, row.absolute),
            amount(one.theirs, row.absolute),
            amount(one.figure, row.unit),
            goal_of(row),
            one.verdict,
            when(one.result, machines),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _missed(missed: Sequence[Shown], reasons: Mapping[str, str]) -> str:
    lines = ["## Rows that miss their goals, and where the time goes", ""]
    if not missed:
        lines += ["There is none.", ""]
    for one in missed:
        figure, goal = amount(one.figure, one.row.unit), goal_of(one.row)
        lines += [f"**{one.row.what}** ({one.row.id}): {figure}, {goal}. {reasons[one.row.id]}", ""]
        profile = profile_of(one)
        if profile:
            lines += ["```", *profile, "```", ""]
        else:
            lines += ["No profile was kept with this result.", ""]
    return "\n".join(lines)


def _measurements(results: Mapping[str, Result], machines: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "## Measurements",
        "",
        "| result | command | took | load before | measured |",
        "|---|---|---|---|---|",
    ]
    for measurement in MEASUREMENTS:
        result = results.get(measurement.name)
        measured = {} if result is None else result.get("measured", {})
        cells = [
            measurement.name,
            f"`{measured.get('command', measurement.command)}`",
            amount(measured.get("seconds"), "s"),
            amount(measured.get("load1"), ""),
            when(result, machines) if measured else NOT_MEASURED,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def printed(rows: Iterable[Shown]) -> str:
    """Return the table as it is printed at the end of a run."""
    lines = []
    for one in rows:
        figure = amount(one.figure, one.row.unit)
        lines.append(f"{one.verdict:12} {one.row.id:24} {figure:>22}  {goal_of(one.row):14} ")
        lines[-1] += f"{one.row.what}, beside {one.row.peer or 'nothing'}"
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="rows or measurements, with commas")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--check", action="store_true", help="with --page: write nothing")
    parser.add_argument("--list", action="store_true", help="what there is")
    options = parser.parse_args(argv)
    if options.list:
        for one in MEASUREMENTS:
            rows = ", ".join(row.id for row in ROWS if row.measurement == one.name)
            print(f"{one.name:14} about {one.minutes:g} min  {one.command}\n{'':15}{rows}")
        print(f"{'all':14} about {sum(one.minutes for one in MEASUREMENTS):g} min")
        return 0
    failed = []
    if not options.page:
        for one in chosen([word for word in options.only.split(",") if word]):
            print(f"== {one.name}, about {one.minutes:g} min: {one.command}", flush=True)
            if not measure(one, RESULTS, ROOT / "benchmarks"):
                failed.append(one.name)
    results = load(RESULTS)
    code = write_page(results, check=options.check)
    if not options.page:
        print(printed(shown(results)))
    if failed:
        print(f"Without a result: {', '.join(failed)}.")
        return 1
    return code


def write_page(results: Mapping[str, Result], *, check: bool) -> int:
    """Write the page, or with `check` only compare it. Return 1, and say why, if it cannot be
    written or is out of date, and 0 otherwise.
    """
    try:
        text = page(results, tomllib.loads(REASONS.read_text()))
    except NoReason as error:
        print(f"The page is not written. {error}")
        return 1
    if not check:
        PAGE.write_text(text)
        return 0
    if not PAGE.exists() or PAGE.read_text() != text:
        print(f"{PAGE.name} is out of date. Run `python benchmarks/table.py --page`.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
