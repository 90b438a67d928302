"""The numbers of the last steps of an attempt, as far back as a plateau of rewards has to be looked
for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Steps kept per side. The longest question is "no better reward for 300 steps"; it needs a stretch
#: before those to compare with.
KEPT = 340
#: What a record keeps, in this order; a tuple takes 150 bytes where a dictionary takes 600, and
#: there are 2 x KEPT of them in a run.
FIELDS = (
    "m",
    "time_s",
    "loss",
    "entropy",
    "mismatch_kl",
    "grad_norm",
    "throughput",
    "reward",
    "trainable",
    "truncation",
    "error",
    "wait_s",
    "compute_s",
    "broadcast_s",
    "save_s",
    "policy_wait_s",
    "tool_calls",
    "not_finite",
)

_Row = tuple[Any, ...]


class History:
    """`add` takes records of steps/<run>; a later record of the same step replaces the earlier
    one.
    """

    def __init__(self) -> None:
        self._sides: dict[str, dict[int, _Row]] = {}
        self._records: Sequence[Mapping[str, Any]] | None = None

    def add(self, record: Mapping[str, Any], m: float | None) -> None:
        """`m`: the monotonic second at which the step was finished, None where it is not known (a
        replaced record keeps its own).
        """
        steps = self._sides.setdefault(record["side"], {})
        before = steps.get(record["step"])
        if m is not None or before is None:
            when = m
        else:
            when = before[0]
        steps[record["step"]] = (when, *(record.get(name) for name in FIELDS[1:]))
        if len(steps) > KEPT:
            del steps[next(iter(steps))]
        self._records = None

    def copy(self) -> History:
        same = History()
        same._sides = {side: dict(steps) for side, steps in self._sides.items()}
        same._records = self.records()
        return same

    def records(self) -> Sequence[Mapping[str, Any]]:
        """Of both sides, each in order of its steps. Made once a step: a look comes every two
        seconds, a step every thirty.
        """
        if self._records is None:
            self._records = [
                record for side, steps in self._sides.items() for record in _records(side, steps)
            ]
        return self._records


def _records(side: str, steps: Mapping[int, _Row]) -> Iterator[dict[str, Any]]:
    for step, row in steps.items():
        yield {
            "side": side,
            "step": step,
            **{name: value for name, value in zip(FIELDS, row, strict=True) if value is not None},
        }
