"""SECURITY.md: all twenty requirements are there, each with its tests or a decision, and what it
names exists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text()
STATES = ("met", "decided", "partly")
DECISIONS = (ROOT / "docs" / "decisions.md").read_text()


@dataclass(frozen=True)
class Row:
    number: int
    text: str
    state: str
    tests: tuple[str, ...]
    missing: str

    @property
    def decisions(self) -> list[str]:
        """The numbers of the decisions that say why the rest is as it is."""
        return re.findall(r"decision (\d+)", self.missing)


def rows(page: str) -> list[Row]:
    """Return the rows of the table of requirements."""
    found = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 5 and cells[0].isdecimal():
            tests = tuple(re.findall(r"`(tests/[^`]+)`", cells[3]))
            found.append(Row(int(cells[0]), cells[1], cells[2], tests, cells[4]))
    return found


ROWS = rows(PAGE)


def test_there_are_twenty_in_order() -> None:
    assert [row.number for row in ROWS] == list(range(1, 21))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.number))
def test_a_state_is_never_more_than_what_stands_beside_it(row: Row) -> None:
    """What is met has a test and lacks nothing; what is not says what is missing."""
    assert row.state in STATES
    assert row.text.endswith(".")
    assert row.tests
    if row.state == "met":
        assert row.missing == ""
    else:
        assert row.missing.endswith(".")
    assert (row.state == "decided") is bool(row.decisions)


def test_every_decision_that_is_named_is_recorded() -> None:
    named = re.findall(r"decision (\d+)", PAGE)
    assert named
    for number in named:
        assert re.search(rf"^## {number}\. \S", DECISIONS, re.MULTILINE), number


def test_each_decision_has_one_number() -> None:
    """A page that names decision 11 names one and always the same."""
    numbers = [int(number) for number in re.findall(r"^## (\d+)\. ", DECISIONS, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_test_file_that_is_named_exists_and_holds_a_test() -> None:
    named = re.findall(r"`(tests/[^`]+)`", PAGE)
    assert len(named) > 40
    for name in named:
        assert re.search(r"^(async )?def test_", (ROOT / name).read_text(), re.MULTILINE), name


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md", "CONTRIBUTING.md"])
def test_it_is_linked(page: str) -> None:
    targets = re.findall(r"\]\(([^)]*SECURITY\.md)\)", (ROOT / page).read_text())
    assert targets
    for target in targets:
        assert ((ROOT / page).parent / target).resolve() == ROOT / "SECURITY.md"


def test_the_links_of_the_page_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / target).exists(), target
