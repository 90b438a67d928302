"""The disk guard: carries out the retention orders of this pod's runs, and reports when it cannot.

This module is not loaded before the first order. It frees only what an order of the user permits,
only after it was moved aside, and never one of the two newest complete sets. If it is not sure, it
frees nothing and the journal has the reason.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from bs4_agent.actions.submission import Submission
from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.checkpoints import removal
from bs4_agent.checkpoints.holds import holder
from bs4_agent.checkpoints.retention_policy import Decision, OwnCleaning, decide
from bs4_agent.checkpoints.rotation import in_words, plan_of
from bs4_agent.pod import Pod
from bs4_agent.runs.places import refuse_beside
from bs4_agent.runs.records import starts_of
from bs4_common.checkpoints import best
from bs4_common.checkpoints.forecast import Forecast, forecast
from bs4_common.checkpoints.inventory import texts
from bs4_common.checkpoints.orders import Order
from bs4_common.checkpoints.report import shape
from bs4_common.checkpoints.sets import StepSet, complete_sets, numbers, step_sets, verify
from bs4_common.errors import AgentError, Busy, Refused, SpoolFull
from bs4_common.failures.detectors.reporting import size
from bs4_common.files import disk_usage
from bs4_common.ids import ulid
from bs4_common.runs.model import Run

#: Seconds between two scans of a run that trains, and of a run that does not.
LOOK_S, RESTING_S = 5.0, 60.0
#: The least seconds between two scans. Frequent saves get four scans each.
HURRIED_S = 0.1
#: The seconds of a run's youth, in which the time between saves is not known, and the seconds
#: between two scans then. A scan of a run without checkpoints costs less than a millisecond.
YOUNG_S, YOUNG_LOOK_S = 300.0, 0.5
#: Seconds after a removal that failed.
RETRY_S = 60.0
#: A save needs its size and a little more, for metadata and for logs that grow meanwhile.
MARGIN = 1.1
#: The most steps of one removal; the rest comes with the next scan.
_MOST = 50

_NOT_QUIET = "not yet known to be quiet"
_NOT_SAVED = "not yet verified in the store"

#: (entries, bytes, newest mtime in ns) of all files and directories of a step.
_Print = tuple[int, int, int]


@dataclass(frozen=True)
class _Look:
    """The state of one run at one scan: its sets, its disk's free bytes, and the forecast."""

    run: Run
    order: Order
    sets: list[StepSet]
    free: int
    need: int
    """The bytes that the next save, or the rest of a save that is under way, still needs."""
    forecast: Forecast

    @property
    def emergency(self) -> bool:
        """Return True if the next save does not fit on the disk."""
        return self.free < self.need


class Retention:
    """Removes old checkpoints from the pod's disk, for the runs that have a retention order (a
    user's rule about which checkpoints stay); one object per pod. `run` works on a thread of its
    own until it is stopped. Call `wake` after an order has changed.
    """

    def __init__(self, pod: Pod, book: Book, actions: Actions) -> None:
        self._pod, self._book, self._actions = pod, book, actions
        self._woken = threading.Event()
        self._prints: dict[tuple[str, int], tuple[_Print, float, int]] = {}
        self._rounds = 0
        self._begun: dict[str, tuple[str, float]] = {}
        """By run: the key of its newest rotation, and when it began."""

    def wake(self) -> None:
        """Make the thread that is in `run` start its next scan of the runs now, without the pause
        before it.
        """
        self._woken.set()

    def run(self, stop: threading.Event) -> None:
        """Check the runs that have a retention order (a user's rule about which checkpoints stay on
        the pod's disk) and remove their old checkpoints, again and again until `stop` is set.
        """
        while not stop.is_set():
            self._woken.wait(self.round())
            self._woken.clear()

    def round(self) -> float | None:
        """Check each run that has a retention order (a user's rule about which checkpoints stay on
        the pod's disk), and remove the checkpoints that the order does not keep. Return the number
        of seconds until the next call is due, or None if no run has an order.
        """
        pauses = []
        self._rounds += 1
        for run, record in list(self._book.ledger.orders.items()):
            order = Order.of(record)
            if order is None:
                continue
            wait = RETRY_S
            try:
                wait = self._look_after(run, order)
            except SpoolFull:
                wait = LOOK_S  # without a journalled intent nothing is done
            except AgentError as error:
                self._say(run, "refused", error.message)
            except OSError as error:
                self._say(
                    run,
                    "refused",
                    f"{error.filename or 'Its disk'} cannot be read ({error.strerror}); look "
                    "at the disk.",
                )
            pauses.append(wait)
        return min(pauses, default=None)

    def _look_after(self, name: str, order: Order) -> float:
        """Scan one run, free what may go, and return the seconds until its next scan."""
        run = self._pod.runs.get(name)
        if any(action.run == name for action in self._book.ledger.unfinished("rotate")):
            return LOOK_S
        look = self._look(run, order)
        pause = self._pause(look)
        self._observe(look)
        own = self._own_cleaning(run, look.sets)
        decision = Decision()
        if own is not None:
            decision = decide(
                look.sets,
                order,
                own,
                verify,
                lambda one: self._busy(name, order, one, pause),
                emergency=look.emergency,
                quality=self._quality(look),
            )
        if decision.refused:
            self._say(
                name, "refused", f"{decision.refused}. Nothing is freed; look at those checkpoints."
            )
        trying = bool(decision.free) and not self._failed_lately(name)
        if trying:
            self._rotate(look, decision)
        coming = _NOT_QUIET in decision.spared.values()
        # It is no emergency if this scan or the next one frees something.
        if not decision.refused and not coming and not trying:
            self._tell(look, decision)
        if coming:
            return min(pause, LOOK_S)
        return pause

    def _failed_lately(self, run: str) -> bool:
        """Return True if the newest rotation of the run has failed and began less than a minute
        ago.
        """
        key, begun = self._begun.get(run, ("", 0.0))
        action = self._book.ledger.actions.get(key)
        return action is not None and action.state != "done" and time.monotonic() < begun + RETRY_S

    def _tell(self, look: _Look, decision: Decision) -> None:
        """Journal that the next checkpoint does not fit, or that it fits again."""
        name = look.run.name
        said = self._book.ledger.guard.get(name)
        if look.emergency:
            self._say(name, "emergency", _plight(look, decision))
        elif said is not None and said["event"] != "relieved":
            self._say(
                name,
                "relieved",
                f"{size(look.free)} are free and the next checkpoint needs {size(look.need)}",
            )

    def _look(self, run: Run, order: Order) -> _Look:
        """Scan the run. Raises Refused if its disk does not answer."""
        trainer = self._pod.runs.trainer(run)
        sets = step_sets(trainer, run.spec)
        usage = disk_usage(trainer.layout(run.spec).trainer_checkpoints)
        if usage["free"] is None:
            raise Refused(
                f"The disk of {run.name}'s checkpoints does not answer, so nothing is freed "
                "there; look at the mount."
            )
        form = shape(trainer, run.spec, tuple(run.attempt.argv) if run.attempt else ())
        seen = forecast(
            sets,
            usage["free"],
            limits=form.limits(order),
            interval=form.interval,
            goal=form.goal,
            live=run.live,
            step_s=self._pod.follower.recent(run.name).median_step_s(),
        )
        need = 0
        if run.live:
            need = max(0, int(MARGIN * (seen.set_bytes or 0)) - _begun(sets))
        return _Look(run, order, sets, usage["free"], need, seen)

    def _quality(self, look: _Look) -> best.Quality:
        """Return how good the complete checkpoints are by the metric of the order. Nothing of it is
        known if the order names none or nothing is old enough to go.
        """
        whole = complete_sets(look.sets)
        if not look.order.best or len(whole) <= look.order.at_least:
            return best.Quality()
        records = best.records_of(self._pod.runs.home.state / "steps" / look.run.name)
        written = {one.step: one.saved_t for one in whole}
        way = best.lineage(look.order.best, records, starts_of(look.run), written)
        return best.quality(look.order.best, way, written)

    def _pause(self, look: _Look) -> float:
        """Return the seconds until the next scan of the run: a quarter of the time between two
        saves, as soon as that is known. In a real run, this is LOOK_S.
        """
        attempt, every = look.run.attempt, look.forecast.every_s
        if not look.run.live or attempt is None:
            return RESTING_S
        if every is not None:
            return min(LOOK_S, max(HURRIED_S, every / 4))
        if time.monotonic() - attempt.started_m < YOUNG_S:
            return YOUNG_LOOK_S
        return LOOK_S

    def _own_cleaning(self, run: Run, sets: list[StepSet]) -> OwnCleaning | None:
        """Return what the trainer deletes itself. Return None before its first step, because it may
        be about to read any of its checkpoints. Raises Refused if it cannot be known.
        """
        attempt = run.attempt
        refuse_beside(self._pod.runs, run.spec)
        if attempt is None or not run.live:
            return OwnCleaning(None)
        saved = []
        for one in sets:
            part = one.parts.get("trainer")
            if part is not None and part.whole and part.t >= attempt.started_t:
                saved.append(one.step)
        if (
            not saved
            and self._pod.follower.recent(run.name, attempt.number).side("trainer").last_step
            is None
        ):
            return None
        form = shape(self._pod.runs.trainer(run), run.spec, tuple(attempt.argv))
        if not form.known:
            raise Refused(
                f"The config of {run.name} cannot be read, so it is not known what its "
                "trainer deletes itself; nothing is freed."
            )
        return OwnCleaning(form.own_keep, sorted(saved), form.own_roots)

    def _busy(self, run: str, order: Order, one: StepSet, pause: float) -> str:
        """Return why a step must be left alone for now, or ""."""
        if why := self._unsaved(run, order, one):
            return why
        try:
            removal.moves(self._pod.runs, self._pod.runs.get(run), [one])
        except Refused as error:
            return error.message
        if by := holder(self._pod.runs.home, run, one.step):
            return f"held by {by}"
        quiet = self._quiet_s(run, one)
        if quiet > 0.0 and quiet >= min(pause, LOOK_S) * 0.9:
            return ""
        return _NOT_QUIET

    def _in_store(self, run: str, one: StepSet) -> bool:
        """Return True if this very set was verified in the store and was not seen to be removed
        from there since.
        """
        view = self._book.ledger.syncs.get(run)
        saved = None if view is None else view.done.get(one.step)
        return saved is not None and one.t <= saved + 1.0

    def _unsaved(self, run: str, order: Order, one: StepSet) -> str:
        """Return that the set is not verified in the store although the order wants that, or ""."""
        if order.synced and one.complete and not self._in_store(run, one):
            return _NOT_SAVED
        return ""

    def _observe(self, look: _Look) -> None:
        """Begin to watch the sets that will be removed next, so that they are known to be quiet
        when their turn comes.
        """
        there = numbers(look.sets)
        for run, step in list(self._prints):
            if run == look.run.name and step not in there:
                del self._prints[run, step]
        for one in complete_sets(look.sets)[1 : look.order.last + 2]:
            self._quiet_s(look.run.name, one)

    def _quiet_s(self, run: str, one: StepSet) -> float:
        """Return the seconds for which a step is known not to have changed, 0 if no earlier scan
        has seen it in its present state.
        """
        now, seen = time.monotonic(), _print(one)
        known = self._prints.get((run, one.step))
        if known is None or known[0] != seen:
            known = self._prints[run, one.step] = seen, now, self._rounds
        if known[2] == self._rounds:
            return 0.0
        return now - known[1]

    def _rotate(self, look: _Look, decision: Decision) -> None:
        """Begin to remove the chosen steps. When they are gone, the run is looked at again."""
        run, key = look.run, ulid()
        free, places = list(decision.free[:_MOST]), {}
        for one in free:
            places[one.step] = [path.resolve() for path in one.directories]
        used = removal.readers(
            list(itertools.chain(*places.values())), self._pod.table.snapshot(1.0)
        )
        chosen = [one for one in free if used.keys().isdisjoint(places[one.step])]
        wanted = removal.moves(self._pod.runs, run, chosen)
        if not wanted:
            return
        plan = plan_of(
            run.name,
            key,
            chosen,
            wanted,
            again=lambda: self._refuse_changed(look, chosen),
            freed=self.wake,
        )
        body = {
            "kind": "rotate",
            "run": run.name,
            "order": {"last": look.order.last, "at_least": look.order.at_least},
            "emergency": look.emergency,
            "steps": plan.numbers,
            "kept": list(decision.kept),
            "trash": texts(plan.trashes),
        }
        who = f"keep-last {look.order.last} by {look.order.who}"
        executor = self._actions.executor
        self._begun[run.name] = key, time.monotonic()
        # Whoever works on this run or reads one of these steps comes first.
        with executor.lock, contextlib.suppress(Busy):
            executor.take(self._actions.kinds.rotation, Submission(key, body, who), run.name, plan)

    def _refuse_changed(self, look: _Look, chosen: list[StepSet]) -> None:
        """Decide again while the run is held, and raise Refused if one of the chosen steps may not
        go any more. Since the scan, a launch may have begun that reads one of them, or a step may
        have been written again. It is all or nothing, because the action names its steps already;
        the next scan decides about the others.
        """
        name, order = look.run.name, look.order
        if Order.of(self._book.ledger.orders.get(name)) != order:
            raise Refused(f"The order for {name} has changed since the look; nothing was moved.")
        now = self._look(self._pod.runs.get(name), order)
        own = self._own_cleaning(now.run, now.sets)
        decision = Decision()
        if own is not None:
            decision = decide(
                now.sets,
                order,
                own,
                verify,
                lambda one: self._unsaved(name, order, one),
                emergency=now.emergency,
                quality=self._quality(now),
            )
        changed = {one.step: one for one in chosen}
        for one in decision.free:
            if self._quiet_s(name, one) > 0.0:
                changed.pop(one.step, None)
        if changed:
            raise Refused(
                f"Something has changed about {in_words(changed.values())} of {name} since the "
                "look; nothing was moved."
            )

    def _say(self, run: str, event: str, detail: str) -> None:
        """Journal a `guard` record if the event or its text has changed. A text in which only
        numbers differ has not changed.
        """
        before: Mapping[str, object] = self._book.ledger.guard.get(run) or {}
        if (before.get("event"), _words(str(before.get("detail", "")))) == (event, _words(detail)):
            return
        try:
            self._book("guard", run=run, event=event, detail=detail)
        except SpoolFull:
            return


def _begun(sets: list[StepSet]) -> int:
    """Return the bytes of the checkpoints that were begun above the newest complete one."""
    newest = next(iter(complete_sets(sets)), None)
    if newest is None:
        return 0
    return sum(one.bytes for one in sets if one.step > newest.step and one.checkpoint)


def _print(one: StepSet) -> _Print:
    """Return (entries, bytes, newest modification in ns) of the step. Deleting changes the times of
    the directories, writing changes those of the files.
    """
    entries, total, newest = 0, 0, 0
    pending = texts(one.directories)
    while pending:
        directory = pending.pop()
        try:
            # A Path for every entry would double the cost.
            newest = max(newest, os.stat(directory).st_mtime_ns)  # noqa: PTH116
            with os.scandir(directory) as found:
                for entry in found:
                    entries += 1
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                        continue
                    status = entry.stat(follow_symlinks=False)
                    total, newest = total + status.st_size, max(newest, status.st_mtime_ns)
        except FileNotFoundError:
            entries += 1_000_000  # it is being deleted, so its state must differ from before
    return entries, total, newest


def _plight(look: _Look, decision: Decision) -> str:
    """Return the text of an emergency: what is missing, what is in the way, and what would help."""
    text = f"{size(look.free)} are free and the next checkpoint needs {size(look.need)}."
    if decision.kept:
        text += f" Complete sets that must stay: {', '.join(map(str, sorted(decision.kept)))}."
    sizes = {one.step: one.bytes for one in look.sets}
    reasons = []
    for step, why in sorted(decision.spared.items()):
        if why != _NOT_QUIET:
            reasons.append(f"step {step} ({size(sizes[step])}): {why}")
    if reasons:
        text += f" Left alone: {'; '.join(reasons[:6])}."
    if look.order.at_least > 2 and len(complete_sets(look.sets)) > 2:
        text += f" `checkpoints keep --last {look.order.last} --at-least 2` would let more go."
    return (
        text + " A larger disk or fewer parts kept would help; the run will fail at its next save "
        "otherwise."
    )


def _words(text: str) -> str:
    """Return the text without its numbers."""
    return re.sub(r"[\d.]", "", text)
