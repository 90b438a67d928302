"""Where the time goes: the trainer's own numbers, or the two sides' lines; and how busy the GPUs
were.
"""

from __future__ import annotations

from typing import Any

import pytest

from bs4_agent.telemetry.load import WINDOW_S, GpuLoad
from bs4_common.failures.detectors.performance import rollout_share, tp_slow
from tests.agent.facts import facts, healthy
from tests.playbooks.facts.performance import lines, waiting


def test_the_trainers_own_breakdown_comes_first() -> None:
    run = healthy(
        "prime-rl",
        history=[*waiting(30.0), *[r for r in lines(90.0) if r["side"] == "orchestrator"]],
    )
    assert rollout_share(run, 3) == pytest.approx(30.0)


@pytest.mark.parametrize("work_s", [5.0, 50.0, 100.0])
def test_without_it_the_lines_tell(work_s: float) -> None:
    assert rollout_share(healthy(history=lines(work_s)), 3) == pytest.approx(100.0 - work_s)


def test_a_trainer_that_always_has_its_batch_never_waits() -> None:
    assert rollout_share(healthy(history=lines(250.0)), 3) == 0.0


@pytest.mark.parametrize(
    "history", [[], lines(5.0, steps=3), [r for r in lines(5.0) if r["side"] == "trainer"]]
)
def test_what_cannot_be_told_is_not_guessed(history: list[dict[str, Any]]) -> None:
    assert rollout_share(healthy(history=history), 3) is None


@pytest.mark.parametrize(
    ("model", "slow"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", True),
        ("Qwen/Qwen3-0.6B", True),
        ("meta-llama/Llama-3.1-8b", True),
        ("Qwen/Qwen3-14B", False),
        ("zai-org/GLM-4.5-Air-106B-A12B", False),
        ("acme/unknown", False),
        ("acme/v1.5-base", False),
    ],
)
def test_the_size_is_in_the_models_name(model: str, slow: bool) -> None:
    run = healthy(
        "prime-rl", config={"inference.vllm.model": model, "inference.vllm.tensor_parallel_size": 2}
    )
    assert bool(tp_slow(facts(run), run, {"billions": 10})) is slow


def devices(util: float) -> list[dict[str, Any]]:
    return [{"index": 0, "name": "NVIDIA L40S", "util": util, "power": 150.0, "power_limit": 300.0}]


def test_the_mean_use_is_known_after_most_of_its_window() -> None:
    load = GpuLoad()
    for second in range(0, int(WINDOW_S), 2):
        seen = load.of(devices(100.0 if second % 20 < 10 else 0.0), float(second))
        assert (0 in seen["mean_util"]) is (second >= 0.8 * WINDOW_S)
    assert seen["mean_util"][0] == pytest.approx(50.0, abs=2)
    assert (seen["power"], seen["names"]) == ({0: 0.5}, {0: "NVIDIA L40S"})


def test_an_hour_ago_does_not_count() -> None:
    load = GpuLoad()
    for second in range(0, 1000, 2):
        load.of(devices(100.0), float(second))
    assert load.of(devices(0.0), 5000.0)["mean_util"] == {}


def test_unknown_use_is_not_zero() -> None:
    seen = GpuLoad().of(
        [{"index": 0, "name": None, "util": None, "power": None, "power_limit": None}], 0.0
    )
    assert seen == {"names": {}, "util": {}, "power": {}, "mean_util": {}}
