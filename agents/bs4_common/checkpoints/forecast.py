"""Predicts when the disk will be full, from the sizes of the checkpoints and the pace of the steps
and not from two readings of the disk.

Between two saves, the use of a disk hardly changes, and then it jumps by a whole set. A slope
through its readings would say "never" for twenty minutes and "in three" at the wrong moment. What
will come is known: sets of this size, one every so many steps, and the rules that remove old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypedDict

from bs4_common.checkpoints.sets import StepSet, complete_sets

#: The most future saves that are considered; a run has hundreds. The guard asks every five seconds,
#: and this many cost a millisecond.
_FURTHEST = 2000
#: The number of newest complete sets whose sizes and distances count.
_RECENT = 9


@dataclass(frozen=True)
class Limits:
    """The rules by which old checkpoints of a run are removed from the pod's disk. A set is all
    files of one training step.

    The retention order, which a user gives for a run, keeps the newest `keep` sets, and also the
    steps that are a multiple of `milestones` (0 for no milestones). The trainer itself keeps the
    newest `own_keep` sets of the parts in `own_parts` (for example "trainer"), and no milestones.
    `keep` is None if there is no retention order, and `own_keep` is None if the trainer deletes
    nothing.
    """

    keep: int | None = None
    milestones: int = 0
    own_keep: int | None = None
    own_parts: frozenset[str] = frozenset()

    def of(self, part: str) -> int | None:
        """Return how many of the newest checkpoints still have this part (for example "trainer" or
        "weights") on the disk after the removal of old ones, or None if old ones are not removed.
        """
        if self.own_keep is None or part not in self.own_parts:
            return self.keep
        if self.keep is None:
            return self.own_keep
        return min(self.keep, self.own_keep)

    def stays(self, part: str, step: int) -> bool:
        """Return True if this part of the checkpoint of `step` stays on the disk however old it is,
        because the retention order (a user's rule about which checkpoints stay) makes the step a
        milestone. A part that the trainer itself deletes when it is old never stays in this way, so
        the result for it is False.
        """
        cleaned = self.own_keep is not None and part in self.own_parts
        return self.milestones > 0 and step > 0 and step % self.milestones == 0 and not cleaned


class ForecastRow(TypedDict):
    """The fields of a `Forecast` (when checkpoints will fill the disk of a run) as a dictionary for
    reports. None means that a value is not known. Times (`..._t`) are Unix times in seconds.
    """

    set_bytes: int | None
    """The size of one checkpoint in bytes."""
    every_steps: int | None
    """The number of training steps between two checkpoints."""
    every_s: float | None
    """The seconds between two checkpoints."""
    next_t: float | None
    """When the next checkpoint comes."""
    room: int | None
    """How many more checkpoints fit on the disk."""
    to_come: int | None
    """How many checkpoints the run will still save until max_steps."""
    full_t: float | None
    """When the first checkpoint comes that does not fit on the disk any more."""
    full_step: int | None
    """The training step of that checkpoint."""
    lasts: bool
    """True if every checkpoint that is still to come fits."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A prediction of when checkpoints will fill the disk of one run. None means that a value is
    not known.

    `set_bytes` is the size of one checkpoint. A checkpoint comes every `every_steps` steps or
    `every_s` seconds, the next one at time `next_t`. `room` is how many more checkpoints fit on the
    disk, and `to_come` how many the run will save until max_steps. `full_t` is the time of the
    first save that does not fit, and `full_step` its step. `lasts` is True if every save that is to
    come fits. Times are Unix times in seconds.
    """

    set_bytes: int | None = None
    every_steps: int | None = None
    every_s: float | None = None
    next_t: float | None = None
    room: int | None = None
    to_come: int | None = None
    full_t: float | None = None
    full_step: int | None = None
    lasts: bool = False

    def as_dict(self) -> ForecastRow:
        """Return the forecast as a dictionary of its fields."""
        return {
            "set_bytes": self.set_bytes,
            "every_steps": self.every_steps,
            "every_s": self.every_s,
            "next_t": self.next_t,
            "room": self.room,
            "to_come": self.to_come,
            "full_t": self.full_t,
            "full_step": self.full_step,
            "lasts": self.lasts,
        }


def forecast(
    sets: Sequence[StepSet],
    free: int | None,
    *,
    limits: Limits | None = None,
    interval: int | None = None,
    step_s: float | None = None,
    goal: int | None = None,
    live: bool = True,
) -> Forecast:
    """Return a forecast of when the run will save its next checkpoints, and of when they no longer
    fit on its disk. A field of the result is None if its value cannot be told.

    `sets` are the checkpoints on the disk now. `free` is the number of free bytes on the disk, or
    None if it is not known. `limits` are the rules by which old checkpoints are removed; None means
    that none is removed. `interval` is the number of steps between two saves by the config, and
    `step_s` the median seconds of a step by the log; if one of them is None, it is measured from
    `sets`. `goal` is the step at which the run ends, or None. `live` is False for a run that saves
    nothing any more.
    """
    recent = complete_sets(sets)[:_RECENT]
    if not recent:
        return Forecast(every_steps=interval)
    # The largest of the last three counts, because the first set of a run may lack its weights.
    size = max(one.bytes for one in recent[:3])
    apart = _median([a.step - b.step for a, b in pairwise(recent)])
    every_steps = interval or (int(apart) if apart else None)
    pace = step_s or _pace(recent)
    known = Forecast(set_bytes=size, every_steps=every_steps)
    if every_steps and pace:
        every_s = every_steps * pace
        known = replace(known, every_s=every_s, next_t=recent[0].t + every_s)
    if goal is not None and every_steps:
        known = replace(known, to_come=max(0, -(-(goal - recent[0].step) // every_steps)))
    if free is None or not size:
        return known
    known = replace(known, room=free // size)
    if not live:
        return known
    furthest = _FURTHEST if known.to_come is None else min(known.to_come + 1, _FURTHEST)
    saves = _first_that_does_not_fit(
        sets, recent[0], size, free, limits or Limits(), every_steps or 1, furthest
    )
    if saves is None or (known.to_come is not None and saves > known.to_come):
        return replace(known, lasts=True)
    if known.next_t is None or known.every_s is None or not every_steps:
        return known
    return replace(
        known,
        full_t=known.next_t + (saves - 1) * known.every_s,
        full_step=recent[0].step + saves * every_steps,
    )


def _first_that_does_not_fit(
    sets: Sequence[StepSet],
    newest: StepSet,
    size: int,
    free: int,
    limits: Limits,
    every: int,
    furthest: int,
) -> int | None:
    """Return the number of the first save that does not fit, 1 for the very next save. Return None
    if the next `furthest` saves fit. The trainer and the retention policy remove an old set only
    after the new one is complete, so every save needs room for its whole size.
    """
    # How many more sets of each part fit before its limit removes one for each new one.
    growing = {name: _left(sets, name, limits.of(name)) for name in newest.parts}
    taken = 0
    for save in range(1, furthest + 1):
        if taken + size > free:
            return save
        for name, left in growing.items():
            leaves = newest.step + (save - (limits.of(name) or 0)) * every
            if left is None or save <= left or limits.stays(name, leaves):
                taken += newest.parts[name].bytes
        if not limits.milestones and all(
            left is not None and save > left for left in growing.values()
        ):
            return None
    return None


def _left(sets: Sequence[StepSet], name: str, limit: int | None) -> int | None:
    """Return how many more sets of the part fit below its limit, or None if it has no limit."""
    if limit is None:
        return None
    return max(0, limit - sum(name in one.parts for one in sets if one.complete))


def _pace(recent: Sequence[StepSet]) -> float | None:
    """Return the seconds of a step, measured between complete sets. It is the median, so that a
    night in which nothing ran does not count.
    """
    return _median(
        [
            (a.t - b.t) / (a.step - b.step)
            for a, b in pairwise(recent)
            if a.step > b.step and a.t > b.t
        ]
    )


def _median(values: Sequence[float]) -> float | None:
    """Return the median (the upper one of two), or None if there are no values."""
    if values:
        return sorted(values)[len(values) // 2]
    return None
