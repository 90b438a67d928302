"""Runs the conformance run, and says how many of its checks ran: `make test-trainer`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest


class Count:
    """What became of each check: passed, failed or skipped."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.outcomes[report.nodeid] = report.outcome


def main(arguments: list[str]) -> int:
    """The exit code: that of pytest, or 1 if no check ran."""
    count = Count()
    here = str(Path(__file__).parent)
    code = int(pytest.main(["-m", "trainer", "-p", "no:xdist", here, *arguments], plugins=[count]))
    done = Counter(count.outcomes.values())
    ran = done["passed"] + done["failed"]
    print(f"{ran} checks ran on the real trainer, {done['failed']} of them failed.")
    return code or (ran == 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
