"""What is told: changes that stayed, once each."""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.checks.transitions import Notice, Transitions
from bs4_console.checks.verdict import CRITICAL, OK, UNKNOWN, WARNING, WORDS, Verdict

LETTERS = {"o": OK, "w": WARNING, "u": UNKNOWN, "c": CRITICAL}


def sample(level: int, *failures: str) -> Verdict:
    incidents: list[dict[str, Any]] = [
        {"run": "r", "failure": f, "id": f, "severity": "critical"} for f in failures
    ]
    return Verdict(pod="p", level=level, sentences=[f"it is {WORDS[level]}"], incidents=incidents)


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        ("oooo", ""),
        ("c", ""),
        ("cc", "-c"),
        ("ococo", ""),
        ("occcc", "--c--"),
        ("occo", "--co"),
        ("occoo", "--co-"),
        ("ouco", "--uo"),  # both at least UNKNOWN: that much is told, and the recovery with it
        ("ouccc", "--uc-"),
        ("owcc", "--wc"),
        ("ccww", "-c-w"),
        ("ccwo", "-c-o"),
        ("ccuu", "-c-u"),
        ("ccucc", "-c---"),
        ("wwcw", "-w--"),
    ],
)
def test_two_bad_samples_and_one_good(samples: str, told: str) -> None:
    transitions = Transitions()
    said = ""
    for letter in samples:
        notices = transitions.observe([sample(LETTERS[letter])])
        said += next(
            (key for key, level in LETTERS.items() if notices and notices[0].level == level), "-"
        )
    assert said.rstrip("-") == told.rstrip("-")


def test_a_second_failure_is_told_though_the_level_stays() -> None:
    transitions = Transitions()
    told: list[Notice] = []
    for failures in (
        ["a"],
        ["a"],
        ["a", "b"],
        ["a", "b"],
        ["a", "b"],
        ["b"],
        ["a", "b"],
        ["a", "b"],
    ):
        told += transitions.observe([sample(CRITICAL, *failures)])
    assert [(n.was, len(n.incidents)) for n in told] == [(OK, 1), (CRITICAL, 2), (CRITICAL, 2)]


def test_a_pod_that_cannot_be_read_for_a_while_has_not_lost_its_incidents() -> None:
    transitions = Transitions()
    told: list[Notice] = []
    for verdict in (
        sample(CRITICAL, "a"),
        sample(CRITICAL, "a"),
        sample(UNKNOWN),
        sample(CRITICAL, "a"),
        sample(CRITICAL, "a"),
    ):
        told += transitions.observe([verdict])
    assert len(told) == 1


def test_each_pod_for_itself_and_the_worst_of_all() -> None:
    transitions = Transitions()
    a, b = sample(CRITICAL), Verdict(pod="q", level=OK, sentences=["fine"])
    transitions.observe([a, b])
    assert transitions.level == OK
    (notice,) = transitions.observe([a, b])
    assert (notice.title, transitions.level) == ("CRITICAL: p", CRITICAL)
    assert transitions.observe([b]) == []
    assert transitions.level == OK
    assert Notice("p", OK, CRITICAL, "").title == "RECOVERED: p"
