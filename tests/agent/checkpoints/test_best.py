"""How good a checkpoint is, from the records of a run's steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bs4_common.checkpoints.best import best_first, values_of, worth


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
    found = worth("reward", values, [10, 20, 30])
    assert found == pytest.approx({10: 0.54, 20: 0.5, 30: 0.56})
    assert best_first(found) == [30, 10, 20]


def test_a_validation_counts_for_the_checkpoint_after_it_and_a_loss_is_best_low() -> None:
    values = {8: 0.3, 10: 0.4, 25: 0.2}
    assert worth("acc", values, [10, 20, 30]) == {10: 0.4, 30: 0.2}
    assert best_first(worth("val/loss", values, [10, 20, 30])) == [30, 10]
