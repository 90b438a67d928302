"""Estimates when a run reaches its milestones, and what that costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bs4_common.trainers import steps_done
from bs4_console.errors import UsageError
from bs4_console.run_log.record import RunRecord

#: Steps at which the benchmark protocol evaluates a run (beautifulsoup-rl's training notes).
MILESTONES = (100, 500, 1000)
_HOUR_S = 3600.0
#: A step of 30 years is a slip, and times without an end cannot be told.
_LONGEST_S = 1e9


@dataclass(frozen=True)
class Milestone:
    """The estimate of when a run reaches the training step `step`. `seconds` count from now, and
    are 0 if the step is already reached. `cost` is the US dollars from the run's start until that
    step, or None if the step is reached or if the price or the start is unknown.
    """

    step: int
    seconds: float
    cost: float | None


def done_by(run: RunRecord) -> int:
    """Return how many steps the run of a record has done. A record that was written by hand has
    that number. Others have the number of the newest step, which some trainers count from 0.
    """
    if run.step is None:
        return 0
    if run.source == "log":
        return run.step
    return steps_done(run.trainer, run.step)


def milestones(
    done: int,
    pace_s: float,
    *,
    max_steps: int | None = None,
    price: float | None = None,
    spent: float | None = None,
) -> list[Milestone]:
    """Return an estimate of when a run reaches each of the training steps 100, 500, 1000 and
    `max_steps`, in seconds from now, and of what it costs until then, in US dollars; the lowest
    step comes first. Steps above `max_steps` are left out.

    `done` is the number of finished steps, `pace_s` the seconds for one step, and `price` the US
    dollars for an hour of the pod. `spent` is what the run has cost so far in US dollars: on all
    its pods, and also during its pauses, because a pod costs money then too. If `price` or `spent`
    is None, no cost is estimated. Raises UsageError if the pace is not above 0 or takes more than
    30 years, or if the price is negative or not finite.
    """
    if not 0 < pace_s < _LONGEST_S:
        raise UsageError(
            f"{pace_s:g} seconds a step is no pace.", "Give seconds above 0 with --pace."
        )
    if price is not None and not 0 <= price < math.inf:
        raise UsageError(f"${price:g} an hour is no price.", "Give dollars an hour with --price.")
    goals = {step for step in MILESTONES if max_steps is None or step <= max_steps}
    if max_steps:
        goals.add(max_steps)
    found = []
    for goal in sorted(goals):
        seconds = max(0, goal - done) * pace_s
        total, rest = None, cost(price, seconds)
        if spent is not None and rest is not None and seconds:
            total = spent + rest
        found.append(Milestone(goal, seconds, total))
    return found


def cost(price: float | None, seconds: float | None) -> float | None:
    """Return what `seconds` of a pod cost in US dollars if an hour costs `price`. Return None if
    either number is None.
    """
    if price is None or seconds is None:
        return None
    return price * seconds / _HOUR_S


def describe(seconds: float) -> str:
    """Return a duration in seconds as text for a person, like `1d 06h`, `6h 07m` or `12m`."""
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours:02d}h"
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m"
