"""Every failure that can be practised without a GPU, and one try of it: broken by its mechanism,
named, mended, training again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bs4_console.errors import NotApplicableError, UsageError
from bs4_practice.breaks import checkpoints, inference, orchestration, outside, training, verl
from bs4_practice.scenario import Scenario
from bs4_practice.scenarios import SCENARIOS

TRIES: dict[str, Scenario] = {
    **SCENARIOS,
    **{
        s.name: s
        for s in (
            *inference.ALL,
            *training.ALL,
            *orchestration.ALL,
            *checkpoints.ALL,
            *outside.ALL,
            *verl.ALL,
        )
    },
}

#: verl's own failures that cannot be practised, and why: the miniature would only be able to print
#: the words.
UNTRIED: dict[str, str] = {
    "verl-vllm-arch": (
        "vLLM's loader compares the names of a checkpoint's layers with those of a model it "
        "built; there is no vLLM here."
    ),
    "verl-sglang-import": (
        "One release of sglang lacks a class where verl 0.5 looks for it; a practice pod has "
        "neither of the two."
    ),
    "verl-sglang-tuple": (
        "sglang rebuilds torch's tensors from another process, on a GPU; there is neither torch "
        "nor a GPU here."
    ),
    "ray-not-enough-gpus": (
        "Ray counts the GPUs of its nodes before verl asks for them; a practice pod has no Ray."
    ),
    "ray-node-lost": (
        "Ray's head counts the heartbeats of its nodes; a practice pod has no Ray and one node."
    ),
    "weight-sync-peak-oom": (
        "FSDP gathers its sharded layers on a GPU while the engine holds its own; the miniature "
        "has no layers."
    ),
}


def failures() -> list[str]:
    """Return the ids of the failures that can be practised on a pod without GPUs, each once, in the
    order of the scenarios.
    """
    return list(dict.fromkeys(scenario.failure for scenario in TRIES.values()))


def _step(number: int) -> str:
    """Return a step as the witness has it in words. It has -1 before the first one."""
    if number < 0:
        return "no step"
    return f"step {number}"


def summary(report: Mapping[str, Any]) -> str:
    """Return one line of text for a person about `report`, the result of `play`, which lets a
    failure happen on a practice pod. The line says after how many seconds the agent named the
    failure, whether and by whom the run was recovered, its training steps, and how many files were
    lost.
    """
    words = f"recovered by the {report['fixed_by']}" if report["recovered"] else "not recovered"
    after = f" after {report['recovered_s']} s" if report["recovered_s"] is not None else ""
    before, now = report["steps_before"], report["steps_after"]
    steps = f"{_step(before)} when it broke, {_step(now)} at the end"
    if 0 <= now < before:
        steps += " (the steps between are done again)"
    return (
        f"{report['failure_id']} named after {report['detected_s']} s, {words}{after}; {steps}; "
        f"{report['data_lost']} files lost"
    )


def choose(name: str, trainer: str | None) -> tuple[Scenario, str]:
    """Return (scenario, id of the trainer to play it with). `name` is a scenario's name, "FAILURE"
    or "FAILURE/VARIANT", or the id of a failure that has scenarios. `trainer` is the wanted
    trainer's id; None takes the first trainer that can fail that way. Raises UsageError if there is
    no such scenario, and NotApplicableError if it cannot happen with that trainer.
    """
    scenario = TRIES.get(name) or next((s for s in TRIES.values() if s.failure == name), None)
    if scenario is None:
        why = f" {UNTRIED[name]}" if name in UNTRIED else ""
        raise UsageError(
            f"{name} cannot be practised on a pod without GPUs.{why}",
            f"These can: {', '.join(failures())}.",
        )
    if trainer is not None and trainer not in scenario.trainers:
        raise NotApplicableError(
            f"{name} cannot happen with {trainer}.",
            f"It happens with {', '.join(scenario.trainers)}.",
        )
    return scenario, trainer or scenario.trainers[0]
