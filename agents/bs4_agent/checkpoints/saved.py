"""Whether a checkpoint on the disk is still the one that was verified in the object store."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bs4_agent.checkpoints.sync_set import OPTIONAL
from bs4_common.checkpoints.sets import StepSet
from bs4_common.checkpoints.sync_view import SyncView
from bs4_common.trainers.base import LaunchSpec, Trainer


def state_of(trainer: Trainer, spec: LaunchSpec, one: StepSet, *, weights: bool) -> str:
    """Return the state of the files that a resume from the checkpoint `one` needs: a digest of
    their names, sizes and modification times in ns, in 32 hexadecimal digits. With `weights`, 32
    more digits follow for the parts that are copied on request, if the disk has any. It is another
    one as soon as a file was written, added or removed, also within one second and after the clock
    was set back. Every file is looked at anew; the time that `one` has comes from a cache that does
    not see a file that is written in its place. Raises OSError if the disk fails.
    """
    state = _digest(one, [rule.name for rule in trainer.parts(spec) if rule.required])
    optional = OPTIONAL.intersection(one.parts)
    if weights and optional:
        state += _digest(one, optional)
    return state


def _digest(one: StepSet, names: Collection[str]) -> str:
    """Return the digest of the files of these parts of the checkpoint `one`."""
    rows = []
    for name in names:
        part = one.parts.get(name)
        if part is None:
            continue
        if not part.whole:
            # An upload leaves it out, so its files are another state once they are complete.
            rows.append(os.fsencode(part.path) + b"\0incomplete")
        pending = [str(part.path)]
        while pending:
            directory = pending.pop()
            try:
                with os.scandir(directory) as found:
                    for entry in found:
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                            continue
                        status = entry.stat(follow_symlinks=False)
                        path = os.fsencode(entry.path)
                        rows.append(b"%b\0%d\0%d" % (path, status.st_size, status.st_mtime_ns))
            except FileNotFoundError:
                rows.append(os.fsencode(directory))  # it is being removed
    return hashlib.sha256(b"\0\0".join(sorted(rows))).hexdigest()[:32]


def is_saved(view: SyncView | None, trainer: Trainer, spec: LaunchSpec, one: StepSet) -> bool:
    """Return True if the uploads, as `view` shows them, have verified this very state of the
    checkpoint `one` in the object store, and nothing was seen to be removed from there since. The
    weights count too if the order asks for them and the disk has them. Return False too if only an
    agent that recorded no states has uploaded it. Raises OSError if the disk fails.
    """
    known = "" if view is None else view.done.get(one.step, "")
    if view is None or not known:
        return False
    # What was uploaded with its weights is in the store also by an order without them.
    return known.startswith(state_of(trainer, spec, one, weights=bool(view.order.get("weights"))))


@dataclass(frozen=True)
class _Look:
    """One look at a checkpoint: which one it was in the order of all looks, the state and the order
    that it compared with, and whether the checkpoint was saved.
    """

    number: int
    against: tuple[str, bool]
    saved: bool


class SavedInTurn:
    """Knows which checkpoints of one run are saved in the object store, at the price of two looks
    at the disk for each question, however many checkpoints there are. What must be sure before
    something is removed asks `is_saved`.
    """

    def __init__(self) -> None:
        self._looks: dict[int, _Look] = {}

    def steps(
        self,
        view: SyncView,
        trainer: Trainer,
        spec: LaunchSpec,
        whole: Sequence[StepSet],
        newest: StepSet | None,
    ) -> set[int]:
        """Return the steps of the checkpoints `whole` that are saved as `view` shows the uploads.
        Looked at are `newest` and, of the others that were uploaded, the one that was not looked at
        for the longest time. For the rest, the last look is remembered; one that was not looked at
        since its upload counts as saved. Raises OSError if the disk fails.
        """
        weights = bool(view.order.get("weights"))
        number = 1 + max((look.number for look in self._looks.values()), default=0)
        looks, rest = {}, []
        for one in whole:
            if not view.done.get(one.step):
                continue
            before, against = self._looks.get(one.step), (view.done[one.step], weights)
            if before is None or before.against != against:
                before = _Look(0, against, saved=True)
            looks[one.step] = before
            if one is not newest:
                rest.append(one)
        due = sorted(rest, key=lambda one: looks[one.step].number)[:1]
        if newest is not None and newest.step in looks:
            due.insert(0, newest)
        for one in due:
            saved = is_saved(view, trainer, spec, one)
            looks[one.step] = _Look(number, looks[one.step].against, saved)
        self._looks = looks
        return {step for step, look in looks.items() if look.saved}
