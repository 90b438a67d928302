"""The table of capabilities is whole, and no row claims what no test proves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.seeds.__main__ import Outcomes, main, unproved
from tests.seeds.table import COUNT, Capability, capabilities, exists, problems

ROWS = capabilities()
HERE = "tests/seeds/test_table.py::test_every_row_is_there_once_and_in_order"


def test_every_row_is_there_once_and_in_order() -> None:
    assert [row.row for row in ROWS] == list(range(1, COUNT + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.row))
def test_a_row_claims_only_what_a_test_proves(row: Capability) -> None:
    assert problems(row) == []
    assert row.what
    assert row.command


def test_a_dishonest_row_is_told() -> None:
    good = replace(ROWS[0], status="works", proofs=(HERE,), docs="", missing="")
    assert problems(good) == []
    assert problems(replace(good, proofs=()))
    assert problems(replace(good, proofs=("tests/seeds/test_table.py::test_of_nobody",)))
    assert problems(replace(good, proofs=("tests/seeds/nowhere.py::test_x",)))
    assert problems(replace(good, missing="half of it"))
    assert problems(replace(good, command="runs imagine FILE"))
    assert problems(replace(good, command="runs"))
    assert problems(replace(good, command="none"))
    assert problems(replace(good, status="not-yet"))
    assert problems(replace(good, status="differs"))
    assert problems(replace(good, status="differs", docs="docs/decisions.md#99. No such"))


def test_a_test_that_failed_or_did_not_run_is_no_proof() -> None:
    row = replace(ROWS[0], status="works", proofs=(HERE,), docs="", missing="")
    assert unproved(row, {HERE: "passed"}) == ""
    assert unproved(row, {HERE: "skipped"}) == f"skipped: {HERE}"
    assert unproved(row, {}) == f"did not run: {HERE}"


def test_one_failed_parameter_fails_the_test(pytester_report: list[pytest.TestReport]) -> None:
    outcomes = Outcomes()
    for report in pytester_report:
        outcomes.pytest_runtest_logreport(report)
    assert outcomes.seen["t.py::test_a"] == "failed"
    assert outcomes.seen["t.py::test_a[1]"] == "passed"


@pytest.fixture
def pytester_report() -> list[pytest.TestReport]:
    """Return the reports of a test with two parameters, of which the second fails."""
    reports = []
    for parameter, outcome in (("1", "passed"), ("2", "failed"), ("3", "passed")):
        report = pytest.TestReport(
            nodeid=f"t.py::test_a[{parameter}]",
            location=("t.py", 1, "test_a"),
            keywords={},
            outcome=outcome,  # type: ignore[arg-type]
            longrepr=None,
            when="call",
        )
        reports.append(report)
    return reports


def test_rows_that_do_not_exist_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ninety"]) == 2
    assert "numbers or ranges" in capsys.readouterr().err
    assert main(["90-95"]) == 2


def test_a_name_in_another_file_is_no_proof() -> None:
    assert exists(HERE)
    assert not exists("tests/seeds/table.py::exists")
