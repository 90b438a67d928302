"""How long until each known failure is named, and until training moves again, on practice pods; and
the page with all of them.

    python benchmarks/tries.py [--trainer prime-rl-2026-01|prime-rl|verl] [ID ...] run (all that can
    be tried, or these)
    python benchmarks/tries.py --page                                            write docs/tries.md
    from the result file
    --json FILE                                                                 another result file

Each try is one `bs4-console playbook try ID --json` in a process of its own, one after the other,
and replaces that try's older result in the file. Detection counts from the fault to the incident,
recovery from the confirmation (or the person's first move) to the second new step, by the witness.
The incident's own hold is part of the first number; where one is long, so is the time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bs4_console.failures.playbooks import lint
from bs4_practice.tries import TRIES, UNTRIED

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "tries.json"
PAGE = ROOT / "docs" / "tries.md"
LIMIT_S = 600.0
_CLI = "import sys; from bs4_console.cli.main import main; sys.exit(main())"


def attempt(scenario: str, trainer: str) -> dict[str, Any]:
    """One try's report, or why there is none (`error`)."""
    command = [
        sys.executable,
        "-c",
        _CLI,
        "playbook",
        "try",
        scenario,
        "--trainer",
        trainer,
        "--json",
    ]
    started = time.monotonic()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        output, error = done.stdout, done.stderr.strip()
    except subprocess.TimeoutExpired:
        output, error = "", f"no end within {LIMIT_S:.0f} s"
    wall = round(time.monotonic() - started, 1)
    try:
        report: dict[str, Any] = json.loads(output)
    except ValueError:
        report = {"error": error.splitlines()[-1] if error else "no report", "recovered": False}
    return {
        **report,
        "scenario": scenario,
        "trainer": trainer,
        "failure_id": TRIES[scenario].failure,
        "wall_s": wall,
    }


def load(kept: Path) -> dict[str, Any]:
    return json.loads(kept.read_text()) if kept.exists() else {"tries": []}


def record(report: dict[str, Any], kept: Path) -> None:
    """Put one report into the file, in the place of an older one of the same try."""
    results = load(kept)
    others = [
        t
        for t in results["tries"]
        if (t["scenario"], t["trainer"]) != (report["scenario"], report["trainer"])
    ]
    tries = sorted([*others, report], key=lambda t: (t["scenario"], t["trainer"]))
    machine = {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    kept.write_text(json.dumps({"machine": machine, "tries": tries}, indent=1) + "\n")


def page(results: dict[str, Any]) -> str:
    """docs/tries.md: one line a try, made from the result file, and why verl's other failures have
    none.
    """
    titles = {p["id"]: p["title"] for p in lint()[0]}
    tries = results["tries"]
    good = [t for t in tries if t.get("recovered")]
    lines = [
        "# Every failure that can be practised",
        "",
        (
            "Made by `python benchmarks/tries.py --page` from benchmarks/results/tries.json; do "
            "not edit."
        ),
        "",
        "`bs4-console playbook try ID` breaks a practice pod that way by its mechanism, waits for "
        "the incident, and mends it: by the playbook's own plan, or, where the safe fix is a "
        "person's, by what the advice says. *Named* counts from the fault to the incident, "
        "*training* from the confirmation to the second new step, as the witness saw it. A "
        "practice step takes 0.3 s.",
        "",
        f"{len({t['failure_id'] for t in good})} failures in {len(good)} of {len(tries)} tries "
        f"were named and trained again, on {results['machine']['cores']} cores shared with other "
        f"work, {results['machine']['platform']}.",
        "",
        "| failure | what | trainer | named after | mended by | training after | files lost |",
        "|---|---|---|---|---|---|---|",
    ]
    for t in tries:
        head = f"| {t['scenario']} | {titles.get(t['failure_id'], '')} | {t['trainer']} |"
        if t.get("recovered"):
            lines.append(
                f"{head} {t['detected_s']:.1f} s | {t['fixed_by']} | {t['recovered_s']:.1f} "
                f"s | {t['data_lost']} |"
            )
        else:
            named = f"{t['detected_s']:.1f} s" if "detected_s" in t else "not"
            lines.append(
                f"{head} {named} | {t.get('fixed_by', '')} | not: {t.get('error', 'no new step')} "
                f"| {t.get('data_lost', '')} |"
            )
    lines += ["", "These failures of verl's own cannot be practised on a pod without GPUs:", ""]
    lines += [f"* {name} ({titles.get(name, '')}): {why}" for name, why in sorted(UNTRIED.items())]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--trainer", choices=("prime-rl-2026-01", "prime-rl", "verl"))
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--json", type=Path, default=RESULT, help="the result file")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(page(load(options.json)))
        return 0
    failed = 0
    for name in options.ids or TRIES:
        scenario = TRIES[name]
        if missing := scenario.needs():
            print(f"{name:36} skipped: {missing}", flush=True)
            continue
        for trainer in scenario.trainers:
            if options.trainer in (None, trainer):
                report = attempt(name, trainer)
                record(report, options.json)
                failed += not report["recovered"]
                times = (
                    f"named {report.get('detected_s')} s, training {report.get('recovered_s')} "
                    f"s, lost {report.get('data_lost')}"
                )
                print(
                    f"{name:36} {trainer:18} {report.get('fixed_by', '-'):9} {times}  "
                    f"{report.get('error', '')}",
                    flush=True,
                )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
