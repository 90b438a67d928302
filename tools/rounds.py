"""Run the long rounds and write the result down: `python tools/rounds.py [PYTEST WORDS ...]`.

A round is a test marked `rounds`. Words are passed to pytest, such as a file or `-k NAME`. Each
call adds one line to benchmarks/results/rounds.ndjson: when, which commit, whether the tree had
changes that are not in it, which words, how many tests passed, failed and were skipped, and for how
long.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "rounds.ndjson"


def git(*words: str) -> str:
    """Return what a git command prints, without white space around it."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def counts(report: Path) -> dict[str, int]:
    """Return how many tests of a JUnit report passed, failed and were skipped."""
    # Written by our own pytest.
    suite = next(ElementTree.parse(report).iter("testsuite"))  # noqa: S314
    total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped}


def main() -> int:
    """Run the tests marked `rounds` with pytest, and add one line with the result to
    benchmarks/results/rounds.ndjson. The words of the command line are passed to pytest. Return
    pytest's exit code. If pytest wrote no report, no line is added and the code is never 0.
    """
    words = sys.argv[1:]
    commit, changed = git("rev-parse", "--short", "HEAD"), bool(git("status", "--porcelain"))
    started = time.time()
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "rounds", "--timeout", "900", "-n", "2"]
        done = subprocess.run([*command, "--junitxml", str(report), *words], cwd=ROOT, check=False)
        if not report.exists():
            print("rounds: pytest wrote no report; its message is above.", file=sys.stderr)
            return done.returncode or 1
        line = {
            "t": round(started),
            "commit": commit,
            "changed": changed,
            "rounds": " ".join(words) or "all",
            **counts(report),
            "seconds": round(time.time() - started),
        }
    with RESULTS.open("a") as results:
        results.write(json.dumps(line) + "\n")
    print(f"{RESULTS.relative_to(ROOT)}: {line}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
