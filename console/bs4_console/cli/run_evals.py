"""The command `runs evals`: the results of an evaluation by environment and archetype, alone or
beside an earlier one.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from bs4_console.cli.output import complain, emit, finding_code, table
from bs4_console.run_log import eval_files, evals


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `runs evals` to its parser."""
    parser.add_argument(
        "results",
        metavar="PATH",
        help="what the evaluation left: traces.jsonl, results.jsonl, the directory that holds one, "
        "or a results_*.json with pass_rate",
    )
    parser.add_argument(
        "--against",
        metavar="PATH",
        help="an earlier evaluation of the same examples (traces.jsonl or results.jsonl)",
    )


def run(options: argparse.Namespace) -> int:
    """Print the summary of an evaluation's results, and with --against how they differ from those
    of an earlier one. Return 1 if the result for a whole environment is worse than before, else 0.
    Raises UsageError if a file does not hold results.
    """
    path = Path(options.results)
    if path.suffix == ".json" and options.against is None:
        return _shares(evals.read(path), options)
    found = _read(path)
    rows = eval_files.summaries(found)
    changes, missing = [], []
    if options.against is not None:
        before = _read(Path(options.against))
        changes = eval_files.changes(found, before)
        missing = eval_files.missing(found, before)
    for one in missing:
        complain(
            f"{one.environment or 'The environment'} ({one.archetype or 'all'}) is not compared: "
            f"none of the {one.examples} examples before has a reward now."
        )
    if options.json:
        emit(
            "run-evals",
            file=str(found.file),
            torn=found.is_torn,
            unscored=found.unscored,
            summaries=rows,
            changes=changes,
            missing=missing,
        )
    else:
        _print(rows, changes)
    return finding_code(any(c.word == "worse" and not c.archetype for c in changes))


def _read(path: Path) -> eval_files.Evaluation:
    """Return the evaluation at a path, and say what of it was left out."""
    found = eval_files.read(path)
    if found.is_torn:
        complain(f"The last line of {found.file} is not complete and is left out.")
    if found.unscored:
        complain(
            f"{found.unscored} of the rollouts in {found.file} ended without an error and have no "
            "reward that is a number: they are left out."
        )
    return found


def _print(rows: list[eval_files.Summary], changes: list[eval_files.Change]) -> None:
    cells = []
    for s in rows:
        counts = [str(s.examples), str(s.rollouts), str(s.errors)]
        cells.append(
            [s.environment, s.archetype or "all", *counts, *_interval(s.mean, s.low, s.high)]
        )
    table(cells, ["environment", "archetype", "examples", "rollouts", "errors", "reward", "95 %"])
    if changes:
        print()
        cells = []
        for c in changes:
            where = [c.environment, c.archetype or "all", str(c.examples)]
            cells.append([*where, *_interval(c.mean, c.low, c.high, "+"), c.word])
        table(cells, ["environment", "archetype", "in both", "change", "95 %", "difference"])


def _interval(
    mean: float | None, low: float | None, high: float | None, sign: str = ""
) -> list[str]:
    """Return a mean and its interval as two cells."""
    form = f"{sign}.3f"
    between = "-" if low is None or high is None else f"{low:{form}} to {high:{form}}"
    return ["-" if mean is None else f"{mean:{form}}", between]


def _shares(result: evals.Result, options: argparse.Namespace) -> int:
    """Print a results file that has shares and no rollouts, so that no interval can be told."""
    if options.json:
        emit("run-evals", file=options.results, **asdict(result))
        return 0
    cells = [["pass rate", f"{result.pass_rate:.3f}"]]
    for name, value in (("perfect", result.perfect_rate), ("reward", result.avg_reward)):
        if value is not None:
            cells.append([name, f"{value:.3f}"])
    cells += [[name, f"{value:.3f}"] for name, value in sorted(result.archetypes.items())]
    table(cells, ["", "mean"])
    return 0
