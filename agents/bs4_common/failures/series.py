"""The numbers of a run's last steps, in the forms that detectors use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from bs4_common.failures.evidence import Evidence, as_evidence
from bs4_common.failures.facts import RunFacts
from bs4_common.telemetry import StepRecord

Point = tuple[int, float]


#: By run: its history and the columns read from it. A dozen detectors read them every two seconds,
#: and the history changes once a step.
_columns: dict[str, tuple[Sequence[StepRecord], dict[tuple[str, str], list[Point]]]] = {}
_RUNS = 16


def series(run: RunFacts, side: str, key: str) -> Sequence[Point]:
    """Return (step, value) for each recorded step of `side` ("trainer" or "orchestrator") that has
    the number `key`, for example "reward", oldest first. Values that were recorded as "nan", "inf"
    or "-inf" become the float of that name.
    """
    known = _columns.get(run.name)
    if known is None or known[0] is not run.history:
        if len(_columns) >= _RUNS:
            _columns.clear()
        known = _columns[run.name] = (run.history, {})
    if (side, key) not in known[1]:
        known[1][side, key] = [
            (r["step"], _number(r.get(key))) for r in run.history if r["side"] == side and key in r
        ]
    return known[1][side, key]


def last(points: Sequence[Point], count: int) -> list[Point]:
    """Return the newest `count` points. Return an empty list if there are fewer, so that nothing is
    judged from too few points.
    """
    if len(points) >= count:
        return list(points[-count:])
    return []


def every(points: Sequence[Point], test: Callable[[float], bool]) -> bool:
    """Return True if `points` is not empty and the function `test` returns True for the value of
    each point.
    """
    return bool(points) and all(test(value) for _, value in points)


def total(points: Sequence[Point]) -> float:
    """Return the sum of the points' values, 0 without points."""
    return sum(value for _, value in points)


def mean(points: Sequence[Point]) -> float:
    """Return the mean of the points' values. Raises ZeroDivisionError if there are no points."""
    return total(points) / len(points)


def gaps(run: RunFacts) -> list[float]:
    """Return the seconds between one log line of a trainer's step and the next, for the last
    twenty-one of these lines at most, oldest first. The result is empty if there are fewer than two
    lines.
    """
    steps = run.events_of("step", "trainer")[-21:]
    return [later.m - earlier.m for earlier, later in pairwise(steps)]


def pace_s(run: RunFacts) -> float | None:
    """Return how many seconds a step of the trainer usually takes, or None if that is not known
    yet. It is the larger of the median step time and the median time between the last step lines.
    """
    between = sorted(gaps(run))
    known = between[len(between) // 2 :][:1]
    if run.median_step_s is not None:
        known.append(run.median_step_s)
    return max(known, default=None)


def metric_evidence(run: RunFacts, side: str, step: int, text: str) -> Evidence:
    """Return the log line in which `side` ("trainer" or "orchestrator") reported the step `step`,
    as evidence. If that line is not among the run's events any more, the evidence is `text` with
    the step's number.
    """
    for event in reversed(run.events_of("step", side)):
        if event.event.step == step:
            return event.evidence()
    return step_evidence(run, side, f"step {step}: {text}")


def step_evidence(run: RunFacts, side: str, text: str) -> Evidence:
    """Return `text`, which describes recorded numbers of the steps of `side` ("trainer" or
    "orchestrator"), as evidence without a place in a file.
    """
    return as_evidence(side, text, stream=f"steps/{run.name}")


def _number(value: Any) -> float:
    """Return a recorded number as a float; texts are "inf", "-inf" and "nan"."""
    if not isinstance(value, str):
        return float(value)
    return {"inf": math.inf, "-inf": -math.inf}.get(value, math.nan)
