"""How good each checkpoint of a run is by a metric, from the run's recorded steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bs4_common.streams.segments import parse
from bs4_common.telemetry import EVAL

#: The reward of one step says little, so a checkpoint counts with the mean of its last steps.
WINDOW = 10
REWARD = "reward"


def values_of(directory: Path, metric: str) -> dict[int, float]:
    """Return the value of the metric at each training step that has one, as {step: value}.
    `directory` has the run's recorded steps (`state/steps/RUN` in the agent's home directory on the
    pod). `metric` is "reward", which is the training reward, or the name of a validation. For a
    step that was done twice, the later value counts. The result is empty if nothing is recorded.
    Raises OSError if the records cannot be read.
    """
    side, key = EVAL + metric, "val"
    if metric == REWARD:
        side, key = "orchestrator", REWARD
    found: dict[int, float] = {}
    for path in sorted(directory.glob("*.ndjson")):
        with path.open("rb") as handle:
            for line in handle:
                record = parse(line)
                if record is None or record.get("side") != side:
                    continue
                step, value = record.get("step"), record.get(key)
                if type(step) is int and isinstance(value, (int, float)) and math.isfinite(value):
                    found[step] = float(value)
    return found


def worth(metric: str, values: Mapping[int, float], steps: Iterable[int]) -> dict[int, float]:
    """Return how good the checkpoint of each of `steps` is, as {step: number}; a higher number is
    better. `values` is the result of `values_of` for the same metric.

    For the metric "reward", the number is the mean reward of the ten training steps up to the
    checkpoint. For a validation, it is the newest value of the steps after the previous checkpoint,
    up to this one; it is negated if the name of the metric ends with "loss", because a lower value
    is then better. A checkpoint without any value is left out.
    """
    sign = -1.0 if metric.endswith("loss") else 1.0
    found: dict[int, float] = {}
    before = -1
    for step in sorted(steps):
        since = step - WINDOW if metric == REWARD else before
        own = [values[at] for at in sorted(values) if since < at <= step]
        if own and metric == REWARD:
            found[step] = sum(own) / len(own)
        elif own:
            found[step] = sign * own[-1]
        before = step
    return found


def best_first(found: Mapping[int, float]) -> Sequence[int]:
    """Return the training steps of `found` (the result of `worth`), the best checkpoint first. Of
    equally good ones, the earlier step comes first, because it needed less training.
    """
    return sorted(found, key=lambda step: (-found[step], step))
