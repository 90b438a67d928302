"""Training health over the numbers of the last steps: each threshold for as many steps as it needs,
and at half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bs4_common.failures.facts import Facts, LogEvent
from bs4_common.trainers.base import Event
from tests.agent.facts import NOW, facts, healthy
from tests.playbooks.facts.case import negative, positive

GOOD = {"loss": 0.001, "entropy": 0.3, "mismatch_kl": 0.0007, "grad_norm": 0.2, "time_s": 30.0}


def trainer(key: str, values: Sequence[Any]) -> Facts:
    records = [{"side": "trainer", "step": n, **GOOD, key: value} for n, value in enumerate(values)]
    return facts(healthy(history=records))


def orchestrator(
    key: str, values: Sequence[Any], trainer_id: str = "prime-rl", **more: Any
) -> Facts:
    records = [
        {"side": "orchestrator", "step": n, "reward": 0.4, key: value}
        for n, value in enumerate(values)
    ]
    return facts(healthy(trainer_id, history=records, **more))


@positive("nan-loss")
def nan_in_one_step() -> Facts:
    return trainer("loss", [0.001, 0.002, "nan"])


@positive("nan-loss")
def infinite_gradient() -> Facts:
    return trainer("grad_norm", [0.2, "inf"])


@negative("nan-loss")
def a_huge_number_is_still_one() -> Facts:
    return trainer("loss", [0.001, 1e30])


@positive("entropy-collapse")
def entropy_low_for_twenty_steps() -> Facts:
    return trainer("entropy", [0.2] * 5 + [0.04] * 20)


@negative("entropy-collapse")
def entropy_low_for_half_as_long() -> Facts:
    return trainer("entropy", [0.2] * 15 + [0.04] * 10)


@negative("entropy-collapse")
def entropy_low_from_the_first_step() -> Facts:
    return trainer("entropy", [0.04] * 30)


@negative("entropy-collapse")
def entropy_low_in_all_that_files_show() -> Facts:
    records = [{"side": "trainer", "step": 40 + n, **GOOD, "entropy": 0.04} for n in range(30)]
    return facts(healthy(history=records, state="files"))


@positive("entropy-collapse")
def entropy_low_since_a_resume() -> Facts:
    records = [{"side": "trainer", "step": 40 + n, **GOOD, "entropy": 0.04} for n in range(20)]
    return facts(healthy(history=records))


@negative("entropy-collapse")
def entropy_recovers_in_between() -> Facts:
    return trainer("entropy", [0.04] * 19 + [0.06] + [0.04] * 10)


@positive("kl-explosion")
def kl_high_for_five_steps() -> Facts:
    return trainer("mismatch_kl", [0.001] * 10 + [0.7] * 5)


@negative("kl-explosion")
def kl_at_half() -> Facts:
    return trainer("mismatch_kl", [0.25] * 30)


@negative("kl-explosion")
def kl_spikes() -> Facts:
    return trainer("mismatch_kl", [0.7, 0.7, 0.01] * 10)


@positive("grad-explosion")
def gradients_large_for_ten_steps() -> Facts:
    return trainer("grad_norm", [0.3] * 3 + [7.0] * 10)


@negative("grad-explosion")
def one_gradient_spike() -> Facts:
    return trainer("grad_norm", [0.3] * 20 + [50.0] + [0.3] * 3)


@positive("reward-zero")
def zero_for_twenty_steps() -> Facts:
    return orchestrator("reward", [0.1] * 3 + [0.0] * 20)


@negative("reward-zero")
def small_but_not_zero() -> Facts:
    return orchestrator("reward", [0.0001] * 40)


@positive("few-trainable")
def hardly_any_trace() -> Facts:
    return orchestrator("trainable", [60.0] + [4.0] * 10)


@positive("few-trainable")
def all_rewards_one_in_a_log_without_ratio() -> Facts:
    return orchestrator("reward", [1.0] * 20, "prime-rl-2026-01")


@negative("few-trainable")
def few_in_single_steps() -> Facts:
    return orchestrator("trainable", [4.0, 4.0, 70.0] * 10)


@positive("reward-plateau")
def flat_for_two_hundred_steps() -> Facts:
    return orchestrator(
        "reward", [0.2 + n / 400 for n in range(80)] + [0.38 + 0.01 * (n % 2) for n in range(220)]
    )


@negative("reward-plateau")
def slow_but_rising() -> Facts:
    return orchestrator("reward", [0.2 + n / 1500 for n in range(330)])


@negative("reward-plateau")
def solved_and_flat() -> Facts:
    return orchestrator("reward", [0.97 + 0.005 * (n % 3) for n in range(330)])


def _evaluations(*rewards: float, env: str = "bench") -> list[LogEvent]:
    return [
        LogEvent(
            event=Event("eval", "orchestrator", {"env": env, "reward": reward}, 10 * n),
            m=NOW - 50 + n,
            text=f"Evaluated {env}",
            source="orchestrator",
        )
        for n, reward in enumerate(rewards, 1)
    ]


@positive("train-eval-gap")
def two_evaluations_far_below() -> Facts:
    return orchestrator("reward", [0.8] * 40, events=_evaluations(0.5, 0.45))


@negative("train-eval-gap")
def one_evaluation_far_below() -> Facts:
    return orchestrator("reward", [0.8] * 40, events=_evaluations(0.7, 0.45))


@negative("train-eval-gap")
def two_environments_once_each() -> Facts:
    return orchestrator(
        "reward", [0.8] * 40, events=[*_evaluations(0.3), *_evaluations(0.3, env="other")]
    )


@positive("no-tool-calls")
def no_call_in_three_batches() -> Facts:
    records = [
        {"side": "orchestrator", "step": n, "reward": 0.01, "tool_calls": 0.0} for n in range(3)
    ]
    return facts(healthy("prime-rl", history=records))


@negative("no-tool-calls")
def good_rewards_without_tools() -> Facts:
    return orchestrator("tool_calls", [0.0] * 10)


@negative("no-tool-calls")
def calls_in_one_batch_of_three() -> Facts:
    records = [
        {"side": "orchestrator", "step": n, "reward": 0.01, "tool_calls": 0.5 * (n == 1)}
        for n in range(3)
    ]
    return facts(healthy("prime-rl", history=records))


def parsed(model: str, parser: str) -> Facts:
    return facts(healthy(config={"model.name": model, "inference.model.tool_call_parser": parser}))


@positive("no-tool-calls")
def a_mistral_parser_for_qwen() -> Facts:
    return parsed("Qwen/Qwen3-8B", "mistral")


@negative("no-tool-calls")
def the_parser_of_the_family() -> Facts:
    return parsed("mistralai/Ministral-8B-Instruct", "mistral")


@negative("no-tool-calls")
def a_model_of_two_names() -> Facts:
    return parsed("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "deepseek_v3")
