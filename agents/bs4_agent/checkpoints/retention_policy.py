"""Decides which steps a retention order permits to remove, only from what was observed. If the
decision is not safe, it names no step and gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bs4_common.checkpoints.best import Quality
from bs4_common.checkpoints.orders import LEAST, Order
from bs4_common.checkpoints.sets import StepSet, complete_sets, numbers

_NOTHING_KNOWN = Quality()


@dataclass(frozen=True)
class OwnCleaning:
    """Says which checkpoints the trainer itself deletes while it runs. The agent must not remove a
    directory that the trainer is going to delete, because the trainer would not find it and would
    end with an error.

    `keep` is the trainer's setting keep_last (how many checkpoints it keeps), None if it deletes
    nothing. `saved` has the steps that the present attempt has saved completely, oldest first.
    `roots` are the directories in which the trainer deletes.
    """

    keep: int | None
    saved: Sequence[int] = ()
    roots: frozenset[str] = frozenset()

    def leaves_to_us(self, step: int) -> bool:
        """Return True if it is certain that the trainer will not delete the checkpoint of `step`
        itself any more, so that the agent may remove it.

        After the first save of an attempt, a trainer deletes the old steps that it found at its
        start, and does so only once; at its second save this is certainly over. It deletes the
        steps of this attempt itself later, so for these the result is False.
        """
        return self.keep is None or (len(self.saved) > 1 and step < self.saved[0])


@dataclass(frozen=True)
class Decision:
    """The decision about which checkpoints of a run may be removed from the disk.

    `free` has the checkpoints that may be removed, oldest first. `kept` has the steps of the newest
    complete checkpoints, which stay; the files of these were verified if `free` is not empty.
    `spared` maps each other old step to the reason why it is not removed for now. `refused` says
    why nothing at all may be removed, or is "".
    """

    free: Sequence[StepSet] = ()
    kept: Sequence[int] = ()
    spared: Mapping[int, str] = field(default_factory=dict)
    refused: str = ""


def decide(
    sets: Sequence[StepSet],
    order: Order,
    own: OwnCleaning,
    verified: Callable[[StepSet], str],
    busy: Callable[[StepSet], str],
    *,
    emergency: bool = False,
    quality: Quality = _NOTHING_KNOWN,
) -> Decision:
    """Decide which checkpoints the retention `order` (a user's rule about which checkpoints stay)
    allows to remove now, and return the decision; nothing is removed. Only checkpoints that are
    older than the newest verified ones may go. `own` says which of them the trainer deletes itself.

    `verified(set)` returns why a complete checkpoint cannot be relied on, and `busy(set)` why a
    checkpoint is in use; both return "" if nothing is wrong. `emergency` is True if the next
    checkpoint does not fit on the disk; then only `order.at_least` checkpoints stay. `quality`
    says how good the complete checkpoints are by the metric that the order names, if it names one;
    the best stays, and each that may be the best.
    """
    wanted = max(LEAST, order.at_least if emergency else order.last)
    whole = complete_sets(sets)
    if len(whole) < wanted:
        return Decision(kept=numbers(whole))
    old, spared = _old(sets, whole[:wanted], order, own)
    if not old:
        # No file needs to be opened for this.
        return Decision(kept=numbers(whole[:wanted]), spared=spared)
    kept: list[StepSet] = []
    doubts: list[str] = []
    for one in whole:
        if len(kept) == wanted:
            break
        if why := verified(one):
            doubts.append(f"step {one.step} ({why})")
        else:
            kept.append(one)
    steps = numbers(kept)
    if len(kept) < wanted:
        return Decision(
            kept=steps,
            refused=f"{len(kept)} of {wanted} checkpoints that must stay can be verified; in "
            f"doubt: {', '.join(doubts[:5])}",
        )
    old, spared = _old(sets, kept, order, own)
    best = _Best(order, quality, whole, verified)
    free = []
    for one in old:
        if why := best.spares(one) or busy(one):
            spared[one.step] = why
        else:
            free.append(one)
    return Decision(free, steps, spared)


class _Best:
    """Says why a checkpoint stays because of its quality. Only the best one whose content is whole
    is proof of the best result, so better ones that cannot be verified stay beside it.
    """

    def __init__(
        self,
        order: Order,
        quality: Quality,
        whole: Sequence[StepSet],
        verified: Callable[[StepSet], str],
    ) -> None:
        self._metric, self._quality = order.best, quality
        self._stay: set[int] = set()
        there = {one.step: one for one in whole}
        if not self._metric:
            return
        for step in quality.best_first():
            if step in there:
                self._stay.add(step)
                if not verified(there[step]):
                    break

    def spares(self, one: StepSet) -> str:
        """Return why the old checkpoint stays, or ""."""
        if not self._metric or not one.complete:
            return ""
        if one.step in self._stay:
            return f"the best by {self._metric}"
        if self._quality.in_doubt(one.step):
            # It may be the best: what was recorded of it is gone, or has not come yet.
            return f"its {self._metric} is not known"
        return ""


def _old(
    sets: Sequence[StepSet], kept: Sequence[StepSet], order: Order, own: OwnCleaning
) -> tuple[list[StepSet], dict[int, str]]:
    """Return (the sets that are older than everything that stays, {step: reason} for those of them
    that stay nevertheless). Newer sets are being written, or are one of the two newest.
    """
    oldest, oldest_t = min(numbers(kept)), min(one.t for one in kept)
    old: list[StepSet] = []
    spared: dict[int, str] = {}
    for one in sets:
        if one.step >= oldest or not one.directories:
            continue
        if one.complete and order.milestone(one.step):
            spared[one.step] = "a milestone"
        elif one.t > oldest_t:
            # A run that was set back counts upwards again below the steps that it has left behind,
            # so its newest work has low numbers.
            spared[one.step] = f"written after step {oldest}, although its number is lower"
        elif not own.leaves_to_us(one.step) and any(
            str(path.parent) in own.roots for path in one.directories
        ):
            spared[one.step] = "the trainer's own keep_last deletes it"
        else:
            old.append(one)
    return old, spared
