"""How good a checkpoint is, from the records of a run's steps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bs4_common.checkpoints.best import Lineage, Start, lineage, quality, records_of

FIRST = Start(1, None, 0.0)
ACC = "eval:acc"


def write(directory: Path, *records: dict[str, Any]) -> Path:
    directory.mkdir(exist_ok=True)
    lines = [json.dumps(record) for record in records]
    (directory / "00000001.ndjson").write_text("\n".join(lines) + "\n")
    return directory


def test_rewards_and_validations_are_read_apart(tmp_path: Path) -> None:
    directory = write(
        tmp_path / "steps",
        {"t": 1.0, "side": "orchestrator", "step": 1, "reward": 0.1},
        {"t": 1.0, "side": "trainer", "step": 1, "reward": 9.0},
        {"t": 1.0, "side": "eval:val-core/gsm8k/acc", "step": 1, "val": 0.5},
        {"t": 1.0, "side": "eval:val-core/gsm8k/acc", "step": 1, "val": 0.6},
        {"t": 1.0, "side": "orchestrator", "step": 2, "reward": "nan"},
        {"t": 1.0, "side": "orchestrator", "step": "x", "reward": 0.2},
    )
    (directory / "00000002.ndjson").write_text('{"half')
    records = list(records_of(directory))
    assert lineage("reward", records, [], {}).values == {1: 0.1}
    assert lineage("val-core/gsm8k/acc", records, [], {}).values == {1: 0.6}
    assert lineage("other", records, [], {}).values == {}
    assert list(records_of(tmp_path / "none")) == []


def said(attempt: int, *steps: int, val: float = 0.5) -> list[dict[str, Any]]:
    return [{"attempt": attempt, "side": ACC, "step": step, "val": val} for step in steps]


def trained(attempt: int, *steps: int) -> list[dict[str, Any]]:
    return [{"attempt": attempt, "side": "trainer", "step": step} for step in steps]


def test_after_a_fresh_start_nothing_counts_that_was_said_before() -> None:
    """Attempt 1 validated every 25 steps at 0.9. Its value of step 175 made 180 of attempt 2 the
    best, and the true best, step 100, was freed.
    """
    records = said(1, *range(25, 301, 25), val=0.9)
    for step, value in ((50, 0.3), (100, 0.6), (150, 0.5), (200, 0.4)):
        records += said(2, step, val=value)
    records += trained(2, *range(1, 201))
    written = {step: 1000.0 + step for step in range(20, 201, 20)}
    way = lineage("acc", records, [FIRST, Start(2, None, 1000.0)], written)
    assert way.values == {50: 0.3, 100: 0.6, 150: 0.5, 200: 0.4}
    found = quality("acc", way, written)
    assert found.best_first()[0] == 100
    assert found.unmeasured == {80, 120, 140, 180}


def test_a_resume_takes_the_place_of_what_was_said_of_later_steps() -> None:
    records = said(1, 25, 50, 75, 100) + trained(2, 51, 52) + said(2, 60, val=0.7)
    way = lineage("acc", records, [FIRST, Start(2, 50, 1000.0)], {50: 50.0})
    assert way.values == {25: 0.5, 50: 0.5, 60: 0.7}
    # A third attempt goes back further, so what the second did is no part of it.
    third = [FIRST, Start(2, 50, 1000.0), Start(3, 25, 2000.0)]
    assert lineage("acc", records, third, {25: 25.0, 50: 2050.0}).values == {25: 0.5}


@pytest.mark.parametrize(
    ("start", "lowest"),
    [
        (None, 51),  # adopted: it may have found its checkpoint itself
        (-1, 51),  # "the latest"
        (50, 1),  # told to resume at 50, and began afresh without a word
    ],
)
def test_where_it_is_not_certain_what_an_attempt_began_with_nothing_before_it_counts(
    start: int | None, lowest: int
) -> None:
    records = said(1, 25, 50, 75) + trained(2, lowest) + said(2, 60)
    written = {25: 25.0, 50: 50.0, 60: 1060.0, 75: 75.0}
    way = lineage("acc", records, [FIRST, Start(2, start, 1000.0)], written)
    assert way.values == {60: 0.5}
    found = quality("acc", way, written)
    assert found.known == {60: 0.5}
    assert all(found.in_doubt(step) for step in (25, 50, 75))


def test_a_restored_checkpoint_is_not_judged_by_what_was_said_of_its_step() -> None:
    """It may be of another attempt than the one that did this step last."""
    records = said(1, 25, 50, 75) + said(2, 60)
    starts = [replace(FIRST, end=100.0), Start(2, 50, 1000.0)]
    written = {25: 25.0, 50: 500.0, 60: 1060.0}
    way = lineage("acc", records, starts, written)
    assert way.values == {60: 0.5}
    assert all(quality("acc", way, written).in_doubt(step) for step in (25, 50))


def test_records_without_an_attempt_are_older_than_all_attempts() -> None:
    [record] = said(0, 25)
    del record["attempt"]
    assert lineage("acc", [*said(1, 50), record], [FIRST], {}).values == {50: 0.5}


def test_an_attempt_whose_start_is_not_known_has_no_checkpoint_for_certain() -> None:
    way = lineage("acc", said(1, 25) + said(2, 50), [FIRST], {})
    assert way.values == {50: 0.5}
    assert not way.has(50, 1e9)


def test_what_a_run_has_left_behind_is_not_judged_by_what_it_did_later() -> None:
    """Set back from 100 to 50: step 90 of before lies between 80 and 100 of now."""
    written = {50: 50.0, 80: 1080.0, 90: 90.0, 100: 1100.0}
    starts = [FIRST, Start(2, 50, 1000.0)]
    records = said(1, 50) + said(2, 85, val=0.9) + trained(2, *range(51, 101))
    way = lineage("acc", records, starts, written)
    found = quality("acc", way, written)
    assert found.known == {50: 0.5, 100: 0.9}
    assert found.in_doubt(90)


def written(*steps: int) -> dict[int, float]:
    """Checkpoints of the first attempt."""
    return dict.fromkeys(steps, 1.0)


def test_a_reward_counts_as_the_mean_of_ten_steps() -> None:
    """One lucky step makes no best checkpoint."""
    values = dict.fromkeys(range(1, 31), 0.5) | {10: 0.9} | dict.fromkeys(range(21, 31), 0.56)
    found = quality("reward", Lineage(values, [FIRST]), written(10, 20, 30))
    assert found.known == pytest.approx({10: 0.54, 20: 0.5, 30: 0.56})
    assert found.best_first() == [30, 10, 20]


def test_a_mean_of_which_a_reward_is_lost_is_no_value() -> None:
    """Of 91 to 99 the rewards were lost. The value of 100 was that of its last step."""
    values = dict.fromkeys((*range(1, 91), *range(100, 121)), 0.5) | {100: 0.1}
    found = quality("reward", Lineage(values, [FIRST]), written(5, 90, 100, 108, 110))
    assert list(found.known) == [5, 90, 110]
    assert all(found.in_doubt(step) for step in (100, 108))


def test_a_mean_that_lacks_its_first_rewards_is_no_value() -> None:
    """Step 55 of an attempt of which it is not certain that it was resumed from 50."""
    of = Lineage(dict.fromkeys(range(51, 71), 0.5), [FIRST])
    found = quality("reward", of, written(55, 60, 65))
    assert (list(found.known), found.in_doubt(55)) == ([60, 65], True)


def test_a_validation_counts_for_the_checkpoint_after_it_and_a_loss_is_best_low() -> None:
    values = {8: 0.3, 10: 0.4, 25: 0.2}
    way = Lineage(values, [FIRST], range(1, 31))
    assert quality("acc", way, written(10, 20, 30)).known == {10: 0.4, 30: 0.2}
    assert quality("val/loss", way, written(10, 20, 30)).best_first() == [30, 10]


def test_without_a_reward_a_checkpoint_may_be_the_best() -> None:
    """Rewards come with each step, so those of steps 41 to 80 were lost. 60 was freed."""
    values = dict.fromkeys((*range(1, 41), *range(81, 121)), 0.1)
    found = quality("reward", Lineage(values, [FIRST]), written(40, 60, 80, 100))
    assert [step for step in (40, 60, 80, 100) if found.in_doubt(step)] == [60, 80]


def test_between_two_validations_no_value_will_come() -> None:
    way = Lineage({50: 0.1, 100: 0.2}, [FIRST], range(1, 121))
    found = quality("acc", way, written(20, 40, 60, 80, 95, 110, 120))
    assert found.known == {60: 0.1, 110: 0.2}
    assert found.unmeasured == {80, 95}
    # 20 may have been validated before what is recorded; 120 may still be.
    assert all(found.in_doubt(step) for step in (20, 40, 120))
    assert quality("acc", Lineage({}, [FIRST]), written(20, 40)).in_doubt(20)


def test_where_records_are_lost_a_value_may_be_lost_too() -> None:
    """Validated every 50 steps, and the line of step 100 is lost: 100 was freed."""
    steps = sorted({*range(1, 201)} - {100})
    records = trained(1, *steps) + said(1, 50, 150)
    way = lineage("acc", records, [FIRST], {})
    found = quality("acc", way, written(50, 80, 100, 130, 150, 200))
    assert found.known == {50: 0.5, 150: 0.5}
    assert all(found.in_doubt(step) for step in (80, 100))
    assert found.unmeasured == {130}
    # An older value is none of 100 either.
    records = trained(1, *steps) + said(1, 50, 90, 150)
    found = quality("acc", lineage("acc", records, [FIRST], {}), written(50, 100, 150))
    assert (list(found.known), found.in_doubt(100)) == ([50, 150], True)


def test_each_log_of_the_training_shows_where_it_has_lost_something() -> None:
    """The trainer's log says nothing of what the orchestrator's, with the validations, has lost."""
    records = trained(1, *range(1, 201)) + said(1, 50, 150)
    for step in sorted({*range(1, 201)} - {100}):
        records.append({"attempt": 1, "side": "orchestrator", "step": step})
    found = quality("acc", lineage("acc", records, [FIRST], {}), written(50, 100, 150))
    assert found.in_doubt(100)
