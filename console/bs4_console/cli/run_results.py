"""The commands `runs bench` and `runs truncation`: results of evaluations."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from bs4_console.cli import run_records
from bs4_console.cli.output import emit, finding_code
from bs4_console.errors import UsageError
from bs4_console.run_log import evals


def bench(options: argparse.Namespace) -> int:
    """Print how the results of evaluations at several training steps (STEP=FILE) compare with the
    result before the training, `options.baseline`. Return 1 if one of them is behind what is
    expected at its step, is worse than the baseline, or shows no progress any more; else 0. Raises
    UsageError if the options do not name results.
    """
    baseline = evals.read(Path(options.baseline))
    results: dict[int, evals.Result] = {}
    for word in options.results:
        step, _, file = word.partition("=")
        if not step.isdecimal() or not file:
            raise UsageError(
                f"{word!r} names no result.", "Write STEP=FILE, for example 100=results_100.json."
            )
        results[int(step)] = evals.read(Path(file))
    verdicts = []
    for number in sorted(results):
        verdicts.append(evals.judge(baseline, number, results[number], results.get(500)))
    if options.json:
        emit("run-bench", verdicts=verdicts)
    else:
        for v in verdicts:
            print(f"step {v.step}: {v.points:+.1f} points, {v.word}. {v.advice}")
            for name, change in v.archetypes.items():
                print(f"  {change:+.3f}  {name}")
    return finding_code(any(v.word in ("behind", "worse", "standstill") for v in verdicts))


def truncation(options: argparse.Namespace) -> int:
    """Print how many tool calls in the log of an evaluation (`options.file`) could not be parsed,
    and why, for example because they were cut off. Return 1 if there are such calls, else 0.
    """
    found = evals.truncation(run_records.text_of(options.file))
    if options.json:
        emit("run-truncation", **dataclasses.asdict(found))
    else:
        causes = ", ".join(f"{count} {name}" for name, count in found.causes.items() if count)
        print(
            f"{found.malformed} malformed tool calls, {found.unrepaired} not repaired: "
            f"{causes or 'no known cause'}. {found.advice}".rstrip()
        )
    return finding_code(found.malformed)
