"""When the disk is full: from the sizes of the checkpoints and the pace of the steps, not from two
looks at the disk.

Between two saves a disk hardly moves and then jumps by a whole set, so a slope through its readings
says "never" for twenty minutes and "in three" at the wrong moment. What comes is known: sets of
this size, one every so many steps, and who removes which of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from bs4_agent.checkpoints.sets import StepSet, complete_sets

#: Saves that are looked ahead; a run has hundreds. The guard asks every five seconds, and this many
#: cost a millisecond.
_FURTHEST = 2000
#: Complete sets whose sizes and distances count.
_RECENT = 9


@dataclass(frozen=True)
class Limits:
    """What removes old sets: the order's `keep` (all parts, but for the steps that are a multiple
    of `milestones`), or the trainer's own `own_keep` for the `own_parts` that it cleans, milestones
    or not.
    """

    keep: int | None = None
    milestones: int = 0
    own_keep: int | None = None
    own_parts: frozenset[str] = frozenset()

    def of(self, part: str) -> int | None:
        """How many of this part stay, None without end."""
        own = self.own_keep if part in self.own_parts else None
        return min((limit for limit in (self.keep, own) if limit is not None), default=None)

    def stays(self, part: str, step: int) -> bool:
        """Whether this part of a step stays although it is old."""
        cleaned = self.own_keep is not None and part in self.own_parts
        return self.milestones > 0 and step > 0 and step % self.milestones == 0 and not cleaned


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """`set_bytes` of one checkpoint; one comes every `every_steps` steps, `every_s` seconds, the
    next at wall second `next_t`.

    `room`: how many more fit beside what is there now. `to_come` until max_steps. `full_t`: wall
    second of the save that no longer fits, `full_step` its step. None where it is not known, and
    for `full_t` also where every save that is to come fits (`lasts`).
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

    def as_dict(self) -> dict[str, Any]:
        found = {}
        for name in self.__dataclass_fields__:
            found[name] = getattr(self, name)
        return found


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
    """`interval`: steps between two saves by the config, `step_s`: median seconds of a step by the
    log (both measured from the sets where they are not known). `goal`: max_steps. `live`: False for
    a run that saves nothing any more.
    """
    recent = complete_sets(sets)[:_RECENT]
    if not recent:
        return Forecast(every_steps=interval)
    # Of the last three, the largest: the first one of a run may lack its weights.
    size = max(one.bytes for one in recent[:3])
    apart = _median([a.step - b.step for a, b in pairwise(recent)])
    every_steps = interval or (int(apart) if apart else None)
    pace = step_s or _pace(recent)
    every_s = None
    if every_steps and pace:
        every_s = every_steps * pace
    next_t = None
    if every_s is not None:
        next_t = recent[0].t + every_s
    to_come = None
    if goal is not None and every_steps:
        to_come = max(0, -(-(goal - recent[0].step) // every_steps))
    room = None
    if free is not None and size:
        room = free // size
    known = Forecast(
        set_bytes=size,
        every_steps=every_steps,
        every_s=every_s,
        next_t=next_t,
        room=room,
        to_come=to_come,
    )
    if not live or free is None or not size:
        return known
    if to_come is None:
        furthest = _FURTHEST
    else:
        furthest = min(to_come + 1, _FURTHEST)
    saves = _first_that_does_not_fit(
        sets, recent[0], size, free, limits or Limits(), every_steps or 1, furthest
    )
    if saves is None or (to_come is not None and saves > to_come):
        return replace(known, lasts=True)
    if next_t is None or every_s is None or not every_steps:
        return known
    return replace(
        known, full_t=next_t + (saves - 1) * every_s, full_step=recent[0].step + saves * every_steps
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
    """1 for the very next save, None when none of the `furthest` next is it. Trainer and guard
    remove an old set only after the new one is whole, so every save needs its whole size.
    """
    per_part = {name: part.bytes for name, part in newest.parts.items()}
    # How many more of each part will stay before its limit begins to remove one for each that
    # comes.
    growing = {name: _left(sets, name, limits.of(name)) for name in per_part}
    taken = 0
    for save in range(1, furthest + 1):
        if taken + size > free:
            return save
        for name, amount in per_part.items():
            left = growing[name]
            leaves = newest.step + (save - (limits.of(name) or 0)) * every
            if left is None or save <= left or limits.stays(name, leaves):
                taken += amount
        if not limits.milestones and all(
            left is not None and save > left for left in growing.values()
        ):
            return None
    return None


def _left(sets: Sequence[StepSet], name: str, limit: int | None) -> int | None:
    if limit is None:
        return None
    return max(0, limit - sum(name in one.parts for one in sets if one.complete))


def _pace(recent: Sequence[StepSet]) -> float | None:
    """Seconds a step between complete sets; the median, so that a night in which nothing ran does
    not count.
    """
    gaps = []
    for a, b in pairwise(recent):
        if a.step > b.step and a.t > b.t:
            gaps.append((a.t - b.t) / (a.step - b.step))
    return _median(gaps)


def _median(values: Sequence[float]) -> float | None:
    if values:
        return sorted(values)[len(values) // 2]
    return None
