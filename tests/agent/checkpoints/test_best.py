"""How good a checkpoint is, from the records of a run's steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bs4_common.checkpoints.best import quality, values_of


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
    assert values_of(directory, "reward") == {1: 0.1}
    assert values_of(directory, "val-core/gsm8k/acc") == {1: 0.6}
    assert values_of(directory, "other") == {}
    assert values_of(tmp_path / "none", "reward") == {}


def test_a_reward_counts_as_the_mean_of_ten_steps() -> None:
    """One lucky step makes no best checkpoint."""
    values = dict.fromkeys(range(1, 31), 0.5) | {10: 0.9} | dict.fromkeys(range(21, 31), 0.56)
    found = quality("reward", values, [10, 20, 30])
    assert found.known == pytest.approx({10: 0.54, 20: 0.5, 30: 0.56})
    assert found.best_first() == [30, 10, 20]


def test_a_validation_counts_for_the_checkpoint_after_it_and_a_loss_is_best_low() -> None:
    values = {8: 0.3, 10: 0.4, 25: 0.2}
    assert quality("acc", values, [10, 20, 30]).known == {10: 0.4, 30: 0.2}
    assert quality("val/loss", values, [10, 20, 30]).best_first() == [30, 10]


def test_without_a_reward_a_checkpoint_may_be_the_best() -> None:
    """Rewards come with each step, so those of steps 41 to 80 were lost. 60 was freed."""
    values = dict.fromkeys((*range(1, 41), *range(81, 121)), 0.1)
    found = quality("reward", values, [40, 60, 80, 100])
    assert [step for step in (40, 60, 80, 100) if found.in_doubt(step)] == [60, 80]


def test_between_two_validations_no_value_will_come() -> None:
    found = quality("acc", {50: 0.1, 100: 0.2}, [20, 40, 60, 80, 95, 110, 120])
    assert found.known == {60: 0.1, 110: 0.2}
    assert found.unmeasured == {80, 95}
    # 20 may have been validated before what is recorded; 120 may still be.
    assert all(found.in_doubt(step) for step in (20, 40, 120))
    assert quality("acc", {}, [20, 40]).in_doubt(20)
