"""CI runs a failed test a second time (.ci/run): what that forgives is bounded here, and said at the end of the run."""

from __future__ import annotations

from typing import Any

#: Tests start real servers and processes on two cores, where one in several thousand may be late. More than a few are a defect.
FORGIVEN = 5


def tests_run_again(reporter: Any) -> list[str]:
    """Ids of the tests that failed the first time, each once."""
    return sorted({report.nodeid for report in reporter.stats.get("rerun", [])})


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    # Of several processes only the one that reports has it, and it has all of them.
    if reporter is not None and len(tests_run_again(reporter)) > FORGIVEN and exitstatus == 0:
        session.exitstatus = 1


def summary(reporter: Any) -> None:
    if again := tests_run_again(reporter):
        reporter.write_line(
            f"{len(again)} tests failed once and were run a second time (up to {FORGIVEN} are forgiven): {', '.join(again)}"
        )
