"""Counts in sentences of plans and actions."""

from __future__ import annotations

from bs4_agent.playbooks import words


def test_one_is_told_in_the_singular() -> None:
    assert [words.directories(n) for n in (0, 1, 2)] == [
        "0 directories",
        "1 directory",
        "2 directories",
    ]
    assert [words.processes(n) for n in (1, 11)] == ["1 process", "11 processes"]
