"""How good each checkpoint of a run is by a metric, from the run's recorded steps."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from bs4_common.foreign_json import finite
from bs4_common.streams.segments import parse
from bs4_common.telemetry import EVAL, StepRecord

#: The reward of one step says little, so a checkpoint counts with the mean of its last steps.
WINDOW = 10
REWARD = "reward"
#: Seconds after the end of an attempt within which what it has written may be dated.
_LATE_S = 5.0
#: The sides whose steps are steps of the training, unlike those of a validation.
_TRAINING = ("trainer", "orchestrator")


@dataclass(frozen=True)
class Start:
    """The start of one attempt of a run. `resume` is the step from which it was resumed; None means
    that it began afresh, or that nobody knows where it began. The attempt ran from `t` to `end`,
    Unix times in seconds; `end` is infinite while it runs.
    """

    attempt: int
    resume: int | None
    t: float
    end: float = math.inf

    def wrote(self, t: float) -> bool:
        """Return True if what was written at `t`, a Unix time in seconds, was written while the
        attempt ran.
        """
        return self.t <= t <= self.end + _LATE_S


@dataclass(frozen=True)
class Lineage:
    """What a run has recorded of one metric on the way to its present weights. `values` has it by
    training step. `starts` are the starts on that way, the newest first. `trained` are the steps of
    which each side of the training has left a record; around any other step, values may be lost.
    """

    values: Mapping[int, float]
    starts: Sequence[Start]
    trained: Collection[int] = frozenset()

    def has(self, step: int, t: float) -> bool:
        """Return True if it is certain that the checkpoint of `step` is of this lineage, so that
        the values around that step are its own. `t` is the Unix time in seconds at which its files
        were written. That was while the attempt ran that has done this step. Older files were left
        behind when the run was set back, and younger ones were restored or copied.
        """
        for start in self.starts:
            if start.resume is None or start.resume < step:
                return start.wrote(t)
        return False

    def complete(self, after: int, before: int) -> bool:
        """Return True if the records show that no value between the steps `after` and `before` is
        lost: of each step between them there is a record.
        """
        return all(step in self.trained for step in range(after + 1, before))


def records_of(directory: Path) -> Iterator[StepRecord]:
    """Yield the recorded steps of a run, oldest first. `directory` has them (`state/steps/RUN` in
    the agent's home directory on the pod). Raises OSError if they cannot be read.
    """
    for path in sorted(directory.glob("*.ndjson")):
        with path.open("rb") as handle:
            for line in handle:
                if (record := parse(line)) is not None:
                    yield cast("StepRecord", record)


def lineage(
    metric: str,
    records: Iterable[StepRecord],
    starts: Iterable[Start],
    written: Mapping[int, float],
) -> Lineage:
    """Return what `records`, the recorded steps of a run, say of the metric. `metric` is "reward",
    which is the training reward, or the name of a validation. `starts` are the starts of all known
    attempts of the run. `written` has the Unix time in seconds at which the files of each
    checkpoint were written, by step. The values are empty if nothing is recorded.

    An attempt that was resumed from a step takes the place of what earlier attempts have said of
    later steps. If it began afresh, or if it is not certain what it began with, nothing that
    earlier attempts have said counts any more. For a step that an attempt did twice, the later
    value counts. A record that names no attempt counts as older than all attempts.
    """
    side, key = EVAL + metric, "val"
    if metric == REWARD:
        side, key = "orchestrator", REWARD
    said: dict[int, dict[int, float]] = {}
    done: dict[int, dict[str, set[int]]] = {}
    for record in records:
        step, number = record.get("step"), record.get("attempt")
        attempt = number if type(number) is int else 0
        if type(step) is not int:
            continue
        own = said.setdefault(attempt, {})
        if record.get("side") in _TRAINING:
            done.setdefault(attempt, {}).setdefault(record["side"], set()).add(step)
        if record.get("side") == side and (value := finite(record.get(key))) is not None:
            own[step] = value
    known = {start.attempt: start for start in starts}
    values: dict[int, float] = {}
    trained: dict[str, set[int]] = {}
    way: list[Start] = []
    for attempt in sorted(said.keys() | known.keys(), reverse=True):
        # Nothing on the disk is known to be of an attempt whose start is not known.
        start = known.get(attempt, Start(attempt, None, math.inf))
        own_steps = done.get(attempt, {})
        lowest = min((min(steps) for steps in own_steps.values()), default=None)
        start = replace(start, resume=_certain(start.resume, lowest))
        until = way[-1].resume if way else None
        if until is not None:
            if start.resume is not None and start.resume >= until:
                continue  # the run was set back below all that this attempt has done
            if until in written and not start.wrote(written[until]):
                # Another attempt's checkpoint lies there, so it is not certain what was resumed.
                way[-1] = replace(way[-1], resume=None)
                break
        for step, value in said.get(attempt, {}).items():
            if until is None or step <= until:
                values.setdefault(step, value)
        for name, steps in own_steps.items():
            ours = (step for step in steps if until is None or step <= until)
            trained.setdefault(name, set()).update(ours)
        way.append(start)
        if start.resume is None:
            break
    both = set.intersection(*trained.values()) if trained else set()
    return Lineage(values, way, both)


def _certain(resume: int | None, lowest: int | None) -> int | None:
    """Return the step from which an attempt was resumed, or None if that is not certain. `lowest`
    is the lowest step that it has done. If this is below the step from which it should have been
    resumed, the trainer began somewhere else.
    """
    if resume is None or resume < 0 or (lowest is not None and lowest < resume):
        return None
    return resume


@dataclass(frozen=True)
class Quality:
    """How good the checkpoints of a run are by a metric. `known` has a number for each checkpoint
    that has a value, by step; a higher number is better. `unmeasured` has the steps of those that
    lie between two validations of which none is lost, so that a value of them will never come.
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


def quality(metric: str, of: Lineage, written: Mapping[int, float]) -> Quality:
    """Return how good each checkpoint is. `written` has the Unix time in seconds at which the files
    of each were written, by step. `of` is the result of `lineage` for the same metric. Nothing is
    known of a checkpoint of which it is not certain that it is of the lineage.

    For the metric "reward", the number is the mean reward of the ten training steps up to the
    checkpoint; if one of these rewards is lost, nothing is known. For a validation, it is the
    newest value of the steps after the previous checkpoint, up to this one; it is negated if the
    name of the metric ends with "loss", because a lower value is then better. If a step after this
    value has no record, a newer value may be lost, and nothing is known. A checkpoint without any
    value lies between two validations if an older one has a value, a later step was validated, and
    each step between them has a record.
    """
    sign = -1.0 if metric.endswith("loss") else 1.0
    known: dict[int, float] = {}
    unmeasured: set[int] = set()
    values = of.values
    validated = sorted(values)
    # The steps of one trainer begin with 0, those of another with 1.
    first = min((1, *values))
    before = -1
    for step in sorted(written):
        if not of.has(step, written[step]):
            continue
        if metric == REWARD:
            window = range(max(first, step - WINDOW + 1), step + 1)
            # A mean of which some rewards are lost is no fair comparison.
            if window and all(at in values for at in window):
                known[step] = sum(values[at] for at in window) / len(window)
            continue
        place = bisect_right(validated, step)
        newest = validated[place - 1] if place else -1
        following = validated[place] if place < len(validated) else None
        end = step + 1 if following is None else following
        if newest == step or of.complete(max(newest, before), end):
            if newest > before:
                known[step] = sign * values[newest]
            elif known and following is not None:
                unmeasured.add(step)
        before = step
    return Quality(known, frozenset(unmeasured))
