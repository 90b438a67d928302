"""What rounds had in them and how they ended: printed, and one line in a file."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

from tests.chaos.kinds import KINDS, LOG_KINDS, not_possible
from tests.chaos.round import Outcome

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "rounds.ndjson"


def counted(outcomes: list[Outcome]) -> dict[str, int | str]:
    """Return how often each kind of fault was met, those that never were included, or why it is not
    possible on this machine. Rounds with two kinds of log faults are counted too.
    """
    without = not_possible()
    met = Counter(name for outcome in outcomes for name in outcome.met)
    found: dict[str, int | str] = {}
    for kind in KINDS:
        found[kind.name] = met[kind.name]
        if kind.name in without:
            found[kind.name] = f"not possible: {without[kind.name]}"
    found["two-log-kinds"] = sum(map(two_log_kinds, outcomes))
    return found


def two_log_kinds(outcome: Outcome) -> bool:
    """Return whether two kinds of log faults were met in one round."""
    return sum(name in LOG_KINDS for name in outcome.met) > 1


def shown(outcome: Outcome) -> str:
    """Return a round as text: one line, and one for each problem."""
    verdict = "FAILED"
    if not outcome.problems:
        verdict = "good"
    head = f"{outcome.seed} {verdict}: {'; '.join(outcome.drawn)}"
    told = f"  {outcome.lines} lines, {outcome.gaps} gaps, action {outcome.action}"
    if outcome.unmet:
        told += f"; without {', '.join(outcome.unmet)}"
    return "\n".join([head, told, *(f"  - {problem}" for problem in outcome.problems)])


def line(
    outcomes: list[Outcome], seed: str, started: float, seconds: float, before: str = ""
) -> dict[str, object]:
    """Return the line for the file of results."""
    rounds = f"chaos ROUNDS={len(outcomes)} SEED={seed}"
    if before:
        rounds += f" BEFORE={before}"
    failed = [outcome.seed for outcome in outcomes if outcome.problems]
    return {
        "t": round(started),
        "commit": _git("rev-parse", "--short", "HEAD"),
        "changed": bool(_git("status", "--porcelain")),
        "rounds": rounds,
        "passed": len(outcomes) - len(failed),
        "failed": len(failed),
        "skipped": 0,
        "seconds": round(seconds),
        "met": counted(outcomes),
        "failed_seeds": failed,
    }


def record(entry: dict[str, object]) -> None:
    """Add a line to the file of results."""
    with RESULTS.open("a") as results:
        results.write(json.dumps(entry) + "\n")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
