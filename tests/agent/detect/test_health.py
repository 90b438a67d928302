"""Training health: the ranges that are shipped, and what each detector asks of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from bs4_common.failures.detectors import DETECTORS
from bs4_common.failures.facts import Finding, LogEvent
from bs4_common.runs.history import KEPT, History
from bs4_common.trainers import registry
from bs4_common.trainers.base import Event
from bs4_console.errors import UsageError
from bs4_console.failures import health
from tests.agent.facts import NOW, facts, healthy
from tests.playbooks.library import library

TABLES = {
    "entropy-collapse": "entropy",
    "kl-explosion": "mismatch_kl",
    "grad-explosion": "grad_norm",
    "reward-zero": "reward",
    "reward-plateau": "reward",
    "few-trainable": "trainable",
    "train-eval-gap": "evaluation",
    "no-tool-calls": "tool_calls",
    "rollout-latency-bound": "step_time",
    "inference-bottleneck": "step_time",
}


def found(failure: str, side: str, key: str, values: list[Any], **more: Any) -> list[Finding]:
    """With the parameters that the compiled playbook has."""
    # What is low from the first step of a run on has not collapsed.
    start = 2 if failure == "entropy-collapse" else 0
    history = [{"side": side, "step": n, key: value} for n, value in enumerate(values, start)]
    run = healthy("prime-rl", history=history, **more)
    return list(DETECTORS[failure](facts(run), run, library().get(failure).parameters))


@pytest.mark.parametrize("failure", TABLES)
def test_the_compiled_parameters_are_the_files_ranges(failure: str) -> None:
    table = health.ranges()[TABLES[failure]]
    table.pop("healthy", None)
    assert library().get(failure).parameters == table


def test_a_playbooks_own_number_wins() -> None:
    detect = health.with_ranges({"detector": "x", "with": {"ranges": "entropy", "low": 0.01}})
    assert detect["with"]["low"] == 0.01
    assert detect["with"]["steps"] == health.ranges()["entropy"]["steps"]


def test_a_table_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UsageError, match="no table 'entropie'"):
        health.with_ranges({"detector": "x", "with": {"ranges": "entropie"}})


def test_a_broken_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "health.toml").write_text("[entropy\n")
    monkeypatch.setattr(health, "find", lambda kind: tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        health.ranges()


@pytest.mark.parametrize(
    ("failure", "side", "key", "bad", "good", "steps"),
    [
        ("entropy-collapse", "trainer", "entropy", 0.049, 0.05, 20),
        ("kl-explosion", "trainer", "mismatch_kl", 0.51, 0.5, 5),
        ("grad-explosion", "trainer", "grad_norm", 5.1, 5.0, 10),
        ("reward-zero", "orchestrator", "reward", 0.0, 0.0001, 20),
        ("few-trainable", "orchestrator", "trainable", 10.0, 10.1, 10),
    ],
)
def test_every_one_of_the_last_steps_counts(
    failure: str, side: str, key: str, bad: float, good: float, steps: int
) -> None:
    assert not found(failure, side, key, [bad] * (steps - 1))
    assert found(failure, side, key, [bad] * steps)
    assert not found(failure, side, key, [bad] * steps + [good])
    assert not found(failure, side, key, [good] + [bad] * (steps - 1))


def test_the_words_do_not_change_while_it_lasts() -> None:
    (first,), (later,) = (
        found("entropy-collapse", "trainer", "entropy", [0.01] * n) for n in (20, 300)
    )
    assert (first.summary, first.anchor, len(first.evidence)) == (
        later.summary,
        later.anchor,
        len(later.evidence),
    )


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", math.nan])
def test_one_step_without_a_number_is_enough(value: Any) -> None:
    (finding,) = found("nan-loss", "trainer", "loss", [0.1, value])
    assert "step 1" in finding.summary
    assert (finding.role, finding.severity) == ("root", "critical")


def test_the_evidence_is_the_steps_own_line() -> None:
    line = LogEvent(
        event=Event("step", "trainer", {}, 1),
        m=NOW,
        text="Step 1 | Loss nan",
        source="trainer",
        stream="log/demo/trainer",
        cursor="1:7",
    )
    (finding,) = found("nan-loss", "trainer", "loss", [0.1, "nan"], events=[line])
    assert finding.evidence[0]["cursor"] == "1:7"


def test_a_plateau_is_measured_against_the_best_before() -> None:
    rise = [n / 200 for n in range(100)]
    assert found("reward-plateau", "orchestrator", "reward", rise + [0.45] * 200)
    assert not found("reward-plateau", "orchestrator", "reward", rise + [0.45] * 180), (
        "not for long enough"
    )
    assert not found(
        "reward-plateau", "orchestrator", "reward", rise + [0.45] * 150 + [0.52] * 50
    ), "it got better"
    assert found("reward-plateau", "orchestrator", "reward", rise + [0.3] * 200), (
        "and worse is no better"
    )


def test_a_plateau_of_three_hundred_steps_reaches_check() -> None:
    """400 flat steps were an info that `check` does not show."""
    rise = [n / 200 for n in range(40)]
    (early,) = found("reward-plateau", "orchestrator", "reward", rise + [0.15] * 290)
    assert early.severity == "info"
    (late,) = found("reward-plateau", "orchestrator", "reward", rise + [0.15] * 300)
    assert late.severity == "warning"
    assert "300 steps" in late.summary
    assert late.anchor != early.anchor
    assert not found("reward-plateau", "orchestrator", "reward", [*rise, *([0.95] * 300)])


def test_the_history_holds_what_a_plateau_needs() -> None:
    ranges = health.ranges()["reward"]
    assert ranges["stop_steps"] + ranges["window"] <= KEPT
    history = History()
    for step in range(2 * KEPT):
        for side in ("trainer", "orchestrator"):
            history.add({"side": side, "step": step, "reward": 0.5, "at": {"cursor": "1:0"}}, None)
    assert len(history.records()) == 2 * KEPT
    assert set(history.records()[0]) == {"side", "step", "reward"}


def test_a_better_record_replaces_the_first() -> None:
    history = History()
    history.add({"side": "trainer", "step": 1, "loss": 0.1}, 5.0)
    before = history.copy()
    history.add({"side": "trainer", "step": 1, "loss": 0.123}, None)
    assert list(history.records()) == [{"side": "trainer", "step": 1, "m": 5.0, "loss": 0.123}]
    assert before.records()[0]["loss"] == 0.1, "a copy does not change"


@pytest.mark.parametrize("agent", ["agent", "solver"])
def test_tool_calls_come_from_the_metrics_file(agent: str) -> None:
    row = {
        "step": 3,
        "time": 1.0,
        "progress/tokens": 5,
        f"train/agg/effective/{agent}/metrics/total_tool_calls/mean": 0.0,
    }
    record = registry.get("prime-rl").metrics_record(json.dumps(row).encode())
    assert record is not None
    assert record["tool_calls"] == 0.0
