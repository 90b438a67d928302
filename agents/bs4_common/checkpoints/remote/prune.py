"""Decides which remote steps may go, and removes them: never the step that the pointer names, a
milestone, or one of the newest complete steps.

The decision uses the whole listing and the manifests, never names alone: a step that cannot be
judged stays. Removing needs a key that may delete. A pod's key need not have that right, because
this also runs from the console.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bs4_common.checkpoints.best import Quality
from bs4_common.checkpoints.remote import steps
from bs4_common.checkpoints.remote.layout import Layout
from bs4_common.checkpoints.remote.steps import RemoteRun, RemoteStep
from bs4_common.checkpoints.remote.store import Store
from bs4_common.errors import BadRequest, PlanChanged

#: The least number of steps to keep, as on the pod: the newest one may prove unreadable when it is
#: needed.
LEAST = 2
#: An incomplete step may still be uploading. It is left alone until the newest file of the run is
#: this many seconds younger, by the server's clock.
YOUNG_S = 86_400.0
_NONE: Mapping[int, str] = {}


@dataclass(frozen=True)
class Pruning:
    """Which steps of a run are removed from the object store and which stay. `remove` has the steps
    to remove (after `prune`: those that were removed), oldest first. `kept` maps each other step to
    the reason why it stays. `refused` says why no step at all may be removed, or is "".
    """

    remove: Sequence[RemoteStep] = ()
    kept: Mapping[int, str] = field(default_factory=dict)
    refused: str = ""

    @property
    def bytes(self) -> int:
        """Return the size of the steps in `remove`, in bytes."""
        return sum(one.bytes for one in self.remove)


def stays_for(metric: str, stored: Quality, on_disk: Quality, run: RemoteRun) -> dict[int, str]:
    """Return which steps of `run` stay in the object store because the best one by `metric` has to
    stay, as {step: reason}. That is the best of those in the store (`stored` says how good they
    are), each of them that may be the best, and the best of those on the pod's disk (`on_disk`).
    """
    found = {}
    for one in run.whole:
        if stored.in_doubt(one.step):
            found[one.step] = f"its {metric} is not known"
    for step in (*stored.best_first()[:1], *on_disk.best_first()[:1]):
        found[step] = f"the best by {metric}"
    return found


def stored_t(run: RemoteRun) -> dict[int, float]:
    """Return when each complete step of `run` was uploaded, by the pod's clock as a Unix time in
    seconds.
    """
    found = {}
    for one in run.whole:
        if one.manifest is not None:
            found[one.step] = one.manifest.created_t
    return found


def decide(
    run: RemoteRun, keep: int, milestones: int = 0, stays: Mapping[int, str] = _NONE
) -> Pruning:
    """Decide which steps of `run` may be removed from the object store, and return the decision;
    nothing is removed. The newest `keep` complete steps stay, and also steps that are a multiple of
    `milestones` (0 for none), and those of `stays`, each for its reason. Raises BadRequest if
    `keep` is below two.
    """
    if keep < LEAST:
        raise BadRequest(f"At least {LEAST} steps stay in the store; give --keep {LEAST} or more.")
    if run.pointer is None:
        return Pruning(
            refused="Nothing is removed without a pointer that can be read "
            f"({run.pointer_why or 'there is no latest.json'}); let a sync finish first."
        )
    named = run.step(run.pointer.step)
    if named is None or named.missing:
        what = "there" if named is None else f"whole ({named.missing})"
        return Pruning(
            refused=(
                f"The pointer names step {run.pointer.step}, which is not {what}, so nothing is "
                "removed; sync that run first."
            )
        )
    whole = run.whole
    kept: dict[int, str] = {}
    if len(whole) <= keep:
        for one in (*whole, *run.steps):
            why = "one of the newest" if one.whole else f"not whole ({one.missing})"
            kept.setdefault(one.step, why)
        return Pruning(kept=kept)
    # A run that was set back counts upwards again below the steps that it has left behind, so the
    # newest by number and the newest by the server's clock both stay.
    by_time = sorted(whole, key=lambda one: -one.t)
    newest = {one.step for one in (*whole[:keep], *by_time[:keep])}
    oldest, latest_t = min(newest), max(one.newest_t for one in run.steps)
    remove = []
    for one in run.steps:
        if one.step == run.pointer.step:
            kept[one.step] = "the pointer names it"
        elif milestones and one.step and one.step % milestones == 0 and one.whole:
            kept[one.step] = "a milestone"
        elif one.step in stays:
            kept[one.step] = stays[one.step]
        elif one.step in newest:
            kept[one.step] = "one of the newest"
        elif one.manifest is None and any(
            entry.name.endswith("/manifest.json") for entry in one.entries
        ):
            # for example of a newer version
            kept[one.step] = f"it cannot be judged ({one.missing})"
        elif not one.whole and (one.step >= oldest or latest_t - one.newest_t < YOUNG_S):
            kept[one.step] = f"not whole ({one.missing}), it may be on its way up"
        else:
            remove.append(one)
    return Pruning(remove, kept)


def prune(
    store: Store,
    layout: Layout,
    keep: int,
    milestones: int = 0,
    say: Callable[[RemoteStep], None] = lambda _: None,
    confirmed: Sequence[int] | None = None,
    stays: Mapping[int, str] = _NONE,
) -> Pruning:
    """Remove old steps of a run from the object store, and return which were removed and which
    stay. The newest `keep` complete steps stay, and also steps that are a multiple of `milestones`
    (0 for none) or in `stays`; `decide` has the exact rules. The store is listed again before each
    removal.

    `say` is called with each step that was removed. `confirmed` has the steps to which a person has
    agreed, None for no limit. Raises PlanChanged if a step that nobody confirmed would be removed,
    BadRequest if `keep` is below two, StoreAuth if the key may not delete, and another StoreError
    if the object store fails.
    """
    removed: list[RemoteStep] = []
    while True:
        now = decide(steps.scan(store, layout), keep, milestones, stays)
        if not now.remove or now.refused:
            return Pruning(removed, now.kept, now.refused)
        one = now.remove[0]
        if confirmed is not None and one.step not in confirmed:
            raise PlanChanged(
                f"Step {one.step} would go too, which was not shown; look again with --plan. "
                f"{len(removed)} steps were removed."
            )
        _remove(store, layout, one)
        removed.append(one)
        say(one)


def _remove(store: Store, layout: Layout, one: RemoteStep) -> None:
    """Delete the files of a step, its manifest first: from then on nobody takes the step for
    complete, and the names of the rest still show what they are.
    """
    manifest = layout.manifest(one.step)
    for name in sorted(steps.by_name(one.entries), key=lambda name: name != manifest):
        for version in store.versions(name):
            store.delete(version)
