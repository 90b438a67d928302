"""The command `diagnose`: what is wrong with a log, a run directory or standard input. It works
offline, with the same engine as on a pod.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bs4_console.checks.diagnose import SOURCES, diagnose
from bs4_console.cli.output import emit, evidence_place, finding_code


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `diagnose` to its parser."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a log, a run's output directory, a crash report, or - for standard input",
    )
    parser.add_argument(
        "--source", choices=SOURCES, help="what wrote the log, when its name does not tell"
    )
    parser.add_argument(
        "--trainer",
        choices=("prime-rl-2026-01", "prime-rl", "verl"),
        help="when the files do not tell",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Read the given logs, run directories and crash reports, print what is wrong in them with the
    evidence, and return the exit code: 1 if there are findings, else 0.
    """
    report = diagnose([Path(p) for p in options.paths], options.source, options.trainer)
    if options.json:
        emit("diagnose", findings=report["findings"], coverage=report["coverage"])
    else:
        for finding in report["findings"]:
            print(
                f"{finding['severity'].upper()} {finding['id']} ({finding['role']}): "
                f"{finding['summary']}"
            )
            for item in finding["evidence"]:
                print(f"    {evidence_place(item)}: {item['text'][:200]}")
            print(f"    `bs4-console playbook show {finding['id']}` says more.")
        if not report["findings"]:
            print("Nothing known is wrong here.")
        for phrase in report["coverage"]:
            print(f"not seen: {phrase}")
    return finding_code(report["findings"])
