"""Keep the numbers of an attempt's last steps, enough of them to detect a plateau of rewards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from bs4_common.telemetry import StepRecord

#: Steps kept for each side. The longest condition is "no better reward for 300 steps", which needs
#: some steps before those to compare with.
KEPT = 340
#: The fields that are kept of a record, in this order. A tuple takes 150 bytes, a dictionary 600,
#: and a run has 2 x KEPT of them.
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
    """The numbers (loss, reward, durations and so on) of the last 340 steps of one attempt,
    separately for each side, such as trainer or orchestrator. A later record of the same step and
    side replaces the earlier one.
    """

    def __init__(self) -> None:
        self._sides: dict[str, dict[int, _Row]] = {}
        self._records: Sequence[StepRecord] | None = None

    def add(self, record: StepRecord, m: float | None) -> None:
        """Add a step record, which has the form of the records in the stream steps/<run>. `m` is
        the second of the monotonic clock at which the step finished, or None if it is not known.

        If there is a record of the same side and step already, its numbers are replaced by the new
        ones. If `m` is None, the monotonic second of the replaced record is kept.
        """
        steps = self._sides.setdefault(record["side"], {})
        before = steps.get(record["step"])
        when = m if m is not None or before is None else before[0]
        steps[record["step"]] = (when, *(record.get(name) for name in FIELDS[1:]))
        if len(steps) > KEPT:
            del steps[next(iter(steps))]
        self._records = None

    def copy(self) -> History:
        """Return a copy. Later calls of `add` on the original do not change it."""
        same = History()
        same._sides = {side: dict(steps) for side, steps in self._sides.items()}
        same._records = self.records()
        return same

    def records(self) -> Sequence[StepRecord]:
        """Return one record for each kept training step of each side (a program of the run, such as
        "trainer" or "orchestrator"). All steps of one side come first, in the order in which they
        were added, then those of the next side. A record has `side`, `step`, the numbers that are
        known, and `m` (the second of the monotonic clock at which the step finished) if that is
        known.

        The list is made again only if `add` was called since, because detectors (the agent's
        functions that look for failures) call this every two seconds.
        """
        if self._records is None:
            self._records = list(self._kept())
        return self._records

    def _kept(self) -> Iterator[StepRecord]:
        """Yield the kept steps of all sides as records."""
        for side, steps in self._sides.items():
            for step, row in steps.items():
                fields = zip(FIELDS, row, strict=True)
                values = {name: value for name, value in fields if value is not None}
                yield cast("StepRecord", {"side": side, "step": step, **values})
