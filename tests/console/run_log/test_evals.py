"""Evaluation results: read, compared, judged; and why tool calls broke off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bs4_console.errors import UsageError
from bs4_console.run_log import evals

BASE = evals.Result(0.40, archetypes={"tables": 0.5, "links": 0.9, "gone": 1.0})


@pytest.mark.parametrize(
    ("step", "rate", "word"),
    [
        (100, 0.44, "behind"),
        (100, 0.46, "on-track"),
        (100, 0.60, "ahead"),
        (500, 0.54, "behind"),
        (500, 0.56, "on-track"),
        (1000, 0.66, "on-track"),
        (100, 0.39, "worse"),
        (250, 0.50, "measured"),
    ],
)
def test_judged_against_the_baseline(step: int, rate: float, word: str) -> None:
    assert evals.judge(BASE, step, evals.Result(rate)).word == word


def test_a_standstill_between_500_and_1000() -> None:
    verdict = evals.judge(BASE, 1000, evals.Result(0.68), evals.Result(0.65))
    assert verdict.word == "standstill"
    assert verdict.advice.startswith("Stop")
    assert evals.judge(BASE, 1000, evals.Result(0.71), evals.Result(0.65)).word == "ahead"


def test_archetypes_most_fallen_first() -> None:
    verdict = evals.judge(
        BASE, 100, evals.Result(0.5, archetypes={"tables": 0.7, "links": 0.6, "new": 1.0})
    )
    assert list(verdict.archetypes.items()) == [("links", -0.3), ("tables", 0.2)]


def test_read(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(
        json.dumps(
            {
                "pass_rate": 0.5,
                "perfect_rate": 0.25,
                "avg_reward": 0.4,
                "by_archetype": {"tables": 0.5},
            }
        )
    )
    assert evals.read(path) == evals.Result(0.5, 0.25, 0.4, {"tables": 0.5})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"pass_rate": "high"}',
        '{"pass_rate": 50}',
        '{"pass_rate": 0.5, "by_archetype": [1]}',
    ],
)
def test_no_result(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"results\.json"):
        evals.read(path)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        ("Unterminated string starting at: line 1 column 10 (char 9)", "truncated"),
        ("Expecting value: line 1 column 1 (char 0)", "not-json"),
        ("Invalid \\escape: line 1 column 40 (char 39)", "escape"),
    ],
)
def test_why_tool_calls_broke_off(error: str, word: str) -> None:
    log = (
        f"INFO fine\nWARNING Malformed tool arguments from model: {error}\nWARNING Could not "
        "repair JSON, using empty args\n"
    )
    found = evals.truncation(log * 3)
    assert (found.malformed, found.unrepaired, found.word, found.causes[word]) == (3, 3, word, 3)
    assert found.advice


def test_the_same_words_elsewhere_are_no_truncation() -> None:
    found = evals.truncation("the page says: Unterminated string starting at: line 1 column 10\n")
    assert (found.malformed, found.word, found.advice) == (0, "none", "")
