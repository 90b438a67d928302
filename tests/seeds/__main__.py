"""Run the tests that prove the table of capabilities, and print the table with its count.

`python -m tests.seeds` runs all rows, `python -m tests.seeds 1-20 33` only these. It ends with 1
if a test of a row fails or does not run, and with 2 for rows that do not exist.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.seeds.table import COUNT, Capability, capabilities, problems

#: How a row is printed whose tests ran, by its status.
_WORDS = {"works": "works", "differs": "differs", "practice": "practice", "not-yet": "NOT YET"}


class Outcomes:
    """A pytest plugin that keeps the worst outcome of each test by its id, without parameters and
    with them.
    """

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of one phase of a test."""
        if report.outcome == "passed" and report.when != "call":
            return
        for name in {report.nodeid, report.nodeid.partition("[")[0]}:
            if self.seen.get(name, "passed") == "passed":
                self.seen[name] = report.outcome


def main(words: Sequence[str]) -> int:
    """Run the rows that the words name (all without any), print them, and return the exit code."""
    rows = capabilities()
    try:
        wanted = _numbers(words)
    except ValueError:
        print("Give rows as numbers or ranges, for example `1-20 33`.", file=sys.stderr)
        return 2
    chosen = [row for row in rows if not wanted or row.row in wanted]
    wrong = [sentence for row in rows for sentence in problems(row)]
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    if wrong or not chosen:
        return 2 if not chosen else 1
    outcomes = Outcomes()
    proofs = sorted({proof for row in chosen for proof in row.proofs})
    if proofs:
        pytest.main(["-q", "--timeout", "900", *proofs], plugins=[outcomes])
    return _print(chosen, outcomes.seen)


def _numbers(words: Sequence[str]) -> set[int]:
    """Return the numbers that words like `7` and `1-20` mean. Raises ValueError for any other."""
    numbers: set[int] = set()
    for word in words:
        first, _, last = word.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def unproved(row: Capability, seen: dict[str, str]) -> str:
    """Return the first test of the row that did not pass with its outcome, or "" if all passed."""
    for proof in row.proofs:
        outcome = seen.get(proof, "did not run")
        if outcome != "passed":
            return f"{outcome}: {proof}"
    return ""


def _print(rows: Sequence[Capability], seen: dict[str, str]) -> int:
    """Print the table and its count. Returns 1 if a test of a row did not pass, else 0."""
    counts: Counter[str] = Counter()
    for row in rows:
        word, more = _WORDS[row.status], row.missing
        if row.docs:
            more = f"{row.docs} {more}".strip()
        failed = unproved(row, seen)
        if failed:
            word, more = "FAILED", failed
        counts[word] += 1
        print(f"{row.row:2}  {word:8}  {row.what}")
        print(f"              {row.command}")
        if more:
            print(f"              {more}")
    whole = counts["works"] + counts["differs"] + counts["practice"]
    print(
        f"\n{whole} of {len(rows)} ({COUNT} in all): {counts['works']} work, "
        f"{counts['practice']} proved against a practice server, "
        f"{counts['differs']} differ by decision, {counts['NOT YET']} not yet, "
        f"{counts['FAILED']} failed"
    )
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
