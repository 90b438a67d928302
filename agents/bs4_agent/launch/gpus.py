"""The GPUs that a launch will use, and whether another run has shared them before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bs4_common.failures.detectors.reporting import number
from bs4_common.failures.facts import RunFacts
from bs4_common.runs.model import Attempt, Run


def gpu_ids(run: RunFacts) -> list[int] | None:
    """Return the indexes of the GPUs that the launch whose facts are `run` will use, sorted, from
    its settings and its trainer's defaults. Return None if the settings are not known, if this
    trainer's settings do not name GPUs, or if the launch starts only a part of the trainer (its
    component is not "rl"). CUDA_VISIBLE_DEVICES is not considered; `device_ids` does that.
    """
    keys = run.trainer.traits.gpus
    if run.config is None or run.spec.component != "rl" or keys is None:
        return None
    if keys.counted:
        count = int(_number(run, keys.train) or 1)
        if serves_itself(run):
            count += int(_number(run, keys.infer) or 1)
        return list(range(count))
    found = _ids(run.setting(keys.train) or "1")
    if serves_itself(run):
        found += _ids(run.setting(keys.infer) or "0")
    return sorted(set(found))


def device_ids(run: RunFacts, environment: Mapping[str, str]) -> list[int] | None:
    """Return the driver's indexes of the GPUs that the launch whose facts are `run` will use, or
    None if they are not certain. `environment` has the environment variables of the launch, the
    agent's own included.

    They are certain for prime-rl on one machine and outside containers. Its version of January 2026
    overrides CUDA_VISIBLE_DEVICES. The current version uses as many GPUs as it needs, from the
    beginning of the list in that variable.
    """
    ids, nodes, keys = gpu_ids(run), run.setting("deployment.type"), run.trainer.traits.gpus
    if run.spec.container or keys is None or nodes not in (None, "single_node"):
        return None
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if ids is None or not keys.counted or visible is None:
        return ids
    words = [word.strip() for word in visible.split(",")]
    if len(words) < len(ids) or not all(word.isdigit() for word in words):
        return None
    return [int(word) for word in words[: len(ids)]]


def serves_itself(run: RunFacts) -> bool | None:
    """Return True if the launch whose facts are `run` starts its own inference server, False if it
    does not, and None if its settings are not known.
    """
    if run.config is None:
        return None
    return run.spec.component == "inference" or bool(
        run.setting("inference") or run.under("inference")
    )


def lived_beside(one: Run, other: Run) -> bool:
    """Return True if an attempt of one run has lived at the same time as an attempt of the other.
    An attempt whose end is not known counts as living.
    """
    for attempt in one.attempts:
        for beside in other.attempts:
            if attempt.started_t < _end_t(beside) and beside.started_t < _end_t(attempt):
                return True
    return False


def _end_t(attempt: Attempt) -> float:
    """Return the Unix time of the attempt's end, or infinity if it is not known."""
    if attempt.end is None:
        return math.inf
    return attempt.end.t


def _number(run: RunFacts, key: str) -> float | None:
    """Return the setting `key` if it is a number, or None."""
    return number(run.setting(key))


def _ids(value: Any) -> list[int]:
    """Return the GPU indexes in a list or in a text like "[0,1]"."""
    if not isinstance(value, (list, tuple)):
        value = str(value or "").strip("[]").split(",")
    words = [str(word).strip() for word in value]
    return [int(word) for word in words if word.isdigit()]
