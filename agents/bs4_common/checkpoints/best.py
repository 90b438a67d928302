"""How good each checkpoint of a run is by a metric, from the run's recorded steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Quality:
    """How good the checkpoints of a run are by a metric. `known` has a number for each checkpoint
    that has a value, by step; a higher number is better. `unmeasured` has the steps of those that
    lie between two validations, so that a value of them will never come.
    """

    known: Mapping[int, float] = field(default_factory=dict)
    unmeasured: frozenset[int] = frozenset()

    def best_first(self) -> Sequence[int]:
        """Return the training steps with a value, the best checkpoint first. Of equally good ones,
        the earlier step comes first, because it needed less training.
        """
        return sorted(self.known, key=lambda step: (-self.known[step], step))

    def in_doubt(self, step: int) -> bool:
        """Return True if the checkpoint of `step` may be the best for all that is known: it has no
        value, and it is not certain that it was never measured.
        """
        return step not in self.known and step not in self.unmeasured


def quality(metric: str, values: Mapping[int, float], steps: Iterable[int]) -> Quality:
    """Return how good the checkpoint of each of `steps` is. `values` is the result of `values_of`
    for the same metric.

    For the metric "reward", the number is the mean reward of the ten training steps up to the
    checkpoint. For a validation, it is the newest value of the steps after the previous checkpoint,
    up to this one; it is negated if the name of the metric ends with "loss", because a lower value
    is then better. A checkpoint without any value lies between two validations if an older one has
    a value and a later step was validated.
    """
    sign = -1.0 if metric.endswith("loss") else 1.0
    known: dict[int, float] = {}
    unmeasured: set[int] = set()
    newest = max(values, default=-1)
    before = -1
    for step in sorted(steps):
        since = step - WINDOW if metric == REWARD else before
        own = [values[at] for at in sorted(values) if since < at <= step]
        if own and metric == REWARD:
            known[step] = sum(own) / len(own)
        elif own:
            known[step] = sign * own[-1]
        elif metric != REWARD and known and step < newest:
            unmeasured.add(step)
        before = step
    return Quality(known, frozenset(unmeasured))
