"""The agent carries out the orders to sync, even while the console is closed, and after the worker
or the agent was killed.

This module is not loaded before the first order. A process of its own for each run
(`remote/worker.py`) moves the bytes. This module decides when the worker starts and what it does,
and turns its NDJSON output into the journal's `sync` records.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from bs4_agent.book import Book
from bs4_agent.checkpoints.remote.process import command
from bs4_agent.checkpoints.saved import SavedInTurn
from bs4_agent.checkpoints.sync_order import SyncOrder
from bs4_agent.pod import Pod
from bs4_agent.runs.records import attempt_numbers, spec_as_dict, start_by_clock, starts_of
from bs4_agent.workers import spawn
from bs4_common.checkpoints import launch_record
from bs4_common.checkpoints.orders import Order
from bs4_common.checkpoints.remote.layout import Layout
from bs4_common.checkpoints.sets import StepSet, complete_sets, numbers, set_of, step_sets
from bs4_common.checkpoints.sync_view import SyncRecord, SyncView, missed_text
from bs4_common.descriptors import real
from bs4_common.errors import AgentError, Refused, SpoolFull, StepFailed
from bs4_common.failures.environment import ConsoleFacts
from bs4_common.foreign_json import loads
from bs4_common.runs.model import Attempt, Run

if TYPE_CHECKING:
    from bs4_agent.checkpoints.remote.worker import UploadJob
    from bs4_common.checkpoints.sync_view import SyncFacts

#: Seconds between two scans for a new checkpoint. A scan costs as much as the disk guard's.
LOOK_S = 5.0
#: Seconds before the next try after 1, 2, ... failures in a row. A failure that needs a person (a
#: key, a cap) waits for the last value.
BACK_OFF_S = (5.0, 15.0, 60.0, 180.0, 600.0)
#: Failures in a row (some five minutes), without those of one step, after which the sync counts as
#: dead; and the seconds after which an upload is late.
DEAD_AFTER, INTERVAL_S = 4, 1800.0
_NEVER_S = 1e9
#: Seconds after which the store is listed although there is nothing new to upload: somebody else
#: may delete files there.
LISTED_S = 3600.0
#: Seconds without output after which a worker is killed: b2sdk's own timeouts are 128 s for each
#: try.
SILENT_S = 1800.0
#: Seconds between two progress records, so that an upload of an hour makes 60.
PROGRESS_S = 60.0
#: Milestones that one job uploads, so that the next newest step does not wait longer.
_BACKLOG = 1
#: The most milestones that one record names. The rest comes with the next one.
_NAMED = 200
#: An incomplete step of which nothing was written for so many seconds is what a rotation has left,
#: and is not being written anew.
_LEFT_S = 60.0
#: Errors of one step and not of the store: other steps need not wait for the next try.
_OF_ONE_STEP = frozenset({StepFailed.type, Refused.type})
#: Seconds after which what could not be journalled for want of room is tried again.
ROOM_S = 1.0
#: The most files of one job that are no checkpoint. The rest comes with the next job.
_OTHERS = 200
_LINE_MOST = 1 << 20


class Syncs:
    """Uploads checkpoints to an object store, for the runs that have a sync order (a user's
    standing order to do so); one object per pod. `run` works on a thread of its own until it is
    stopped. Call `wake` after an order has changed.
    """

    def __init__(self, pod: Pod, book: Book) -> None:
        self._pod, self._book = pod, book
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}
        self._saved: dict[str, SavedInTurn] = {}
        self._not_before: dict[str, float] = {}
        self._put_off: dict[tuple[str, int], float] = {}
        """By run and step: when a step that could not be uploaded is tried again."""

    def wake(self) -> None:
        """Make the thread that is in `run` start its next scan of the runs now. Runs whose upload
        failed before are tried again at once, without the pause after a failure.
        """
        self._not_before.clear()
        self._put_off.clear()
        self._woken.set()

    def run(self, stop: threading.Event) -> None:
        """Look at the runs that have a sync order (a standing order to upload their checkpoints to
        an object store) every 5 seconds until `stop` is set. Then end the upload processes.
        """
        try:
            while not stop.is_set():
                self.round()
                self._woken.wait(LOOK_S)
                self._woken.clear()
        finally:
            self.close()

    def close(self) -> None:
        """End all upload processes. What they have uploaded stays in the object store, and the next
        agent continues from there.
        """
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.end()

    def round(self) -> None:
        """Look once at each run that has a sync order (a standing order to upload its checkpoints
        to an object store). Start an upload process if there are new checkpoints, and end the
        processes whose order has changed or that no longer report progress.
        """
        for run, view in list(self._book.ledger.syncs.items()):
            job = self._jobs.get(run)
            try:
                order = SyncOrder.of(view.order)
            except Refused as error:
                if job is not None:
                    job.end()
                self._refused(run, error)
                continue
            if job is not None:
                if order is None or order != job.order or self._best(run) != job.best:
                    job.end()  # an order was changed; unfinished uploads are resumed
                elif job.silent_s > SILENT_S:
                    job.end(kill=True)
            if order is None:
                continue
            if job is not None or time.monotonic() < self._not_before.get(run, 0.0):
                # What cannot be read now is told by the scan that has to upload from it.
                with contextlib.suppress(AgentError, OSError):
                    self._watch_milestones(run, order, view, job)
                continue
            try:
                self._look_after(run, order, view)
            except SpoolFull:
                continue  # what cannot be journalled is not begun
            except AgentError as error:
                self._refused(run, error)
            except OSError as error:
                self._failed(
                    run,
                    {
                        "error": "disk",
                        "detail": f"{error.filename or 'Its disk'} cannot be read "
                        f"({error.strerror}); look at the disk.",
                        "passing": True,
                    },
                )

    def told(self) -> ConsoleFacts | None:
        """Return the state of all uploads of this pod and what was last listed in the object store,
        in the form in which the detectors (the agent's functions that look for failures) read it.
        Return None if no run has a sync order (a standing order to upload its checkpoints).
        """
        syncs, remote = self._ordered(), None
        for run, view in syncs:
            if view.listed is not None:
                remote = (remote or []) + view.remote(run)
        if syncs:
            return ConsoleFacts(sync=self.facts(), remote=remote)
        return None

    def _ordered(self) -> list[tuple[str, SyncView]]:
        """Return (run, view) of the runs with an order."""
        syncs = []
        for run, view in list(self._book.ledger.syncs.items()):
            if view.order.get("to"):
                syncs.append((run, view))
        return syncs

    def facts(self) -> list[SyncFacts]:
        """Return the state of the uploads of each run that has a sync order (a standing order to
        upload its checkpoints to an object store). The list is empty if no run has an order.
        """
        rows: list[SyncFacts] = []
        for run, view in self._ordered():
            # An order for every N steps is behind on purpose, and an upload may take as long as its
            # bandwidth requires.
            waits = bool(view.order.get("every")) or view.step is not None
            rows.append(
                {
                    "run": run,
                    "alive": view.blocked < DEAD_AFTER,
                    "pointer": view.pointer,
                    "interval_s": _NEVER_S if waits else INTERVAL_S,
                    **view.told(),
                }
            )
        return rows

    def _look_after(self, name: str, order: SyncOrder, view: SyncView) -> None:
        """Scan one run and start a worker if there is something to upload or to list."""
        run = self._pod.runs.get(name)
        trainer = self._pod.runs.trainer(run)
        sets = step_sets(trainer, run.spec)
        self._note_milestones(name, order, view, sets)
        whole = complete_sets(sets)
        newest = present(whole, run.attempt if run.live else None)
        ready = self._ready(name, whole)
        in_turn = self._saved.setdefault(name, SavedInTurn())
        saved = in_turn.steps(view, trainer, run.spec, ready, newest)
        steps = wanted(ready, newest, order, view, saved, live=run.live)
        others = {}
        for key, path in self._others(run).items():
            if key not in view.logs:
                others[key] = path
        unseen = view.pointer is not None and time.time() - view.listed_t > LISTED_S
        if not steps and not others and not unseen:
            return
        # If a run was set back, the steps of an earlier attempt above it are saved too, but the
        # pointer never names them.
        ahead = (
            bool(steps)
            and newest is whole[0]
            and (view.pointer is None or steps[0].step > view.pointer)
        )
        body: UploadJob = {
            "run": name,
            "to": order.to,
            "home": str(self._pod.runs.home.root),
            "spec": spec_as_dict(run.spec),
            "attempt": run.attempt.number if run.attempt is not None else 0,
            "resumed": run.attempt.resume if run.attempt is not None else None,
            "wandb": self._wandb(name),
            "launch": launch_record.record_of(run.spec).as_dict(),
            "steps": numbers(steps),
            "weights": order.weights,
            "rate": order.rate,
            "point": ahead or (bool(steps) and steps[0] is newest),
            "keep_remote": order.keep_remote,
            "milestones": order.milestones,
            "best": self._best(name),
            "starts": [dataclasses.asdict(start) for start in starts_of(run)],
            "others": dict(list(others.items())[:_OTHERS]),
            "look": bool(steps) or unseen,
        }
        self._start(name, order, body)

    def _ready(self, name: str, whole: Sequence[StepSet]) -> list[StepSet]:
        """Return those of the complete checkpoints that are not put off after a failure."""
        now, ready = time.monotonic(), []
        for one in whole:
            if now >= self._put_off.get((name, one.step), 0.0):
                self._put_off.pop((name, one.step), None)
                ready.append(one)
        return ready

    def _watch_milestones(
        self, name: str, order: SyncOrder, view: SyncView, job: _Job | None
    ) -> None:
        """Scan one run only for its milestones, while its job or a pause after a failure lasts."""
        if order.milestones:
            run = self._pod.runs.get(name)
            sets = step_sets(self._pod.runs.trainer(run), run.spec)
            self._note_milestones(name, order, view, sets, None if job is None else job.at)

    def _note_milestones(
        self,
        name: str,
        order: SyncOrder,
        view: SyncView,
        sets: Sequence[StepSet],
        uploading: int | None = None,
    ) -> None:
        """Journal the milestones that wait for their upload since this scan, and those that waited
        and are gone from the disk. The job of the step `uploading` says itself how it ends.
        """
        whole = complete_sets(sets)
        waiting = {one.step for one in whole if order.milestone(one.step)}.difference(view.done)
        if new := sorted(waiting.difference(view.due))[:_NAMED]:
            self._book("sync", run=name, event="due", to=order.to, steps=new)
        gone = []
        for step in sorted(view.due.difference(waiting))[:_NAMED]:
            if step != uploading and _is_gone(step, sets, whole):
                gone.append(step)
        if gone:
            text = missed_text(gone)
            self._book("sync", run=name, event="missed", to=order.to, steps=gone, detail=text)

    def _best(self, name: str) -> str:
        """Return the metric whose best checkpoint stays by the run's retention order, or ""."""
        order = Order.of(self._book.ledger.orders.get(name))
        return "" if order is None else order.best

    def _start(self, name: str, order: SyncOrder, body: UploadJob) -> None:
        """Start a worker and send it the job."""
        with self._pod.runs.home.agent_log.open("ab") as errors:
            process = subprocess.Popen(
                command(self._pod.runs.home, "bs4_agent.checkpoints.remote.worker"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        # It has ended already, or this kernel does not allow it.
        with contextlib.suppress(psutil.Error, OSError):
            # The run comes first, so the upload gets the lowest best-effort priority for the disk
            # (idle would starve). Its threads inherit it.
            psutil.Process(process.pid).ionice(psutil.IOPRIO_CLASS_BE, 7)
        at = next(iter(body["steps"]), None)
        job = _Job(process, order, best=body["best"], at=at)
        with self._lock:
            self._jobs[name] = job
        with contextlib.suppress(OSError):  # it has ended; its output says why
            job.tell(body)
        spawn(lambda: self._follow(name, job), f"sync {name}")

    def _follow(self, name: str, job: _Job) -> None:
        """Journal the worker's lines until it ends. While the journal has no room, wait for it; the
        worker then waits too, once the pipe between them is full.
        """
        ended_well = failed = False
        for line in job.lines():
            event = line.pop("event", "")
            ended_well = ended_well or event == "done"
            failed = failed or event == "failed"
            self._insist(name, job, str(event), line)
        code = job.process.wait()
        if not ended_well and not failed and not job.ending:
            self._failed(name, {"error": "worker", "detail": _ending(code), "passing": True})
        if not job.ending and not ended_well:
            view, pause = self._book.ledger.syncs[name], BACK_OFF_S[-1]
            if (view.failed or {}).get("passing", True):
                pause = BACK_OFF_S[min(max(view.failures, 1), len(BACK_OFF_S)) - 1]
            again = time.monotonic() + pause
            if job.at is not None and "step" in (view.failed or {}):
                self._not_before.pop(name, None)
                self._put_off[name, job.at] = again
            else:
                self._not_before[name] = again
        with self._lock:
            self._jobs.pop(name, None)
        self._woken.set()

    def _insist(self, name: str, job: _Job, event: str, fields: SyncRecord) -> None:
        """Journal one event of the worker. Wait until the journal's disk takes it, unless the
        worker was ordered to end: then what it says is dropped, and the next one finds in the store
        what this one has sent.
        """
        while True:
            try:
                self._told(name, job, event, fields)
            except (SpoolFull, OSError):
                if not job.wait_for_room(ROOM_S):
                    return
            else:
                return

    def _told(self, name: str, job: _Job, event: str, fields: SyncRecord) -> None:
        """Journal one event of the worker. Progress is journalled at most every `PROGRESS_S`
        seconds.
        """
        if event == "progress":
            if time.monotonic() - job.said_m < PROGRESS_S:
                return
            job.said_m = time.monotonic()
        elif event == "failed":
            if job.at is not None and fields["error"] in _OF_ONE_STEP:
                fields = {**fields, "step": job.at}
            self._failed(name, fields)
            return
        elif event == "done":
            event = "finished"
        elif event not in _EVENTS:
            return
        elif event == "started":
            job.at = fields["step"]
        self._book("sync", run=name, event=event, to=job.order.to, **fields)

    def _refused(self, name: str, error: AgentError) -> None:
        """Journal that a run's order is not followed, unless it was journalled a while ago."""
        if time.monotonic() >= self._not_before.get(name, 0.0):
            self._failed(name, {"error": error.type, "detail": error.message, "passing": False})

    def _failed(self, name: str, fields: SyncRecord) -> None:
        """Journal a failure and set the time of the next try. The same failure is journalled once
        an hour, so that a store that is away for a day does not make a record every ten minutes.
        """
        view = self._book.ledger.syncs[name]
        before, now = view.failed, time.time()
        self._not_before[name] = (
            time.monotonic() + BACK_OFF_S[min(view.failures, len(BACK_OFF_S) - 1)]
        )
        # Those of one step say nothing about how long the store is away.
        alike = view.failures if "step" in fields else view.blocked
        if (
            before is not None
            and before.get("detail") == fields["detail"]
            and now - before["t"] < 3600.0
            and alike > 4
        ):
            return
        with contextlib.suppress(SpoolFull):
            self._book("sync", run=name, event="failed", to=view.order.get("to"), **fields)

    def _wandb(self, name: str) -> dict[str, str]:
        """Return the W&B ids of the run, by side."""
        run = self._book.ledger.runs.get(name)
        if run is None:
            return {}
        return {str(row["side"]): str(row["id"]) for row in run.tracked}

    def _others(self, run: Run) -> dict[str, str]:
        """Return the logs of ended attempts and the crash reports: the name below the run's place
        in the bucket -> the file.
        """
        home = self._pod.runs.home
        layout = Layout("", run.name)
        files: list[tuple[str, Path]] = []
        for number in attempt_numbers(home.run(run.name)):
            newest = run.attempt is not None and number == run.attempt.number
            if newest and run.live:
                continue
            directory = home.attempt(run.name, number)
            files.append((layout.log(number, "launcher.log"), directory / "launcher.log"))
            if newest:
                for source in self._pod.runs.trainer(run).log_sources(run.spec):
                    files.append((layout.log(number, f"{source.source}.log"), source.path))
        for path in sorted(home.reports.glob(f"{run.name}.*.report.tar.gz")):
            if path.name.removeprefix(f"{run.name}.").split(".")[0].isdigit():
                files.append((layout.report(path.name), path))
        found = {}
        for name, path in files:
            # What a link in a run's logs points to may be anything on this pod.
            if path.is_file() and not path.is_symlink():
                found[name[len(layout.root) :]] = str(real(path))
        return found


class _Job:
    """One worker process. `at` is the step that it uploads, None if it only lists the store.
    `ending` is True if the worker was ordered to end, so that its end is no failure.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], order: SyncOrder, *, best: str, at: int | None
    ) -> None:
        self.process, self.order, self.best, self.at = process, order, best, at
        self._ending = threading.Event()
        self.said_m = 0.0
        self._heard_m = time.monotonic()

    @property
    def ending(self) -> bool:
        """Return True if the worker was ordered to end."""
        return self._ending.is_set()

    def wait_for_room(self, seconds: float) -> bool:
        """Wait, because the journal has no room for what the worker has said, and return True.
        Return False as soon as the worker is ordered to end. A worker is not silent meanwhile.
        """
        ending = self._ending.wait(seconds)
        self._heard_m = time.monotonic()
        return not ending

    @property
    def silent_s(self) -> float:
        """Return the seconds since the worker's last line."""
        return time.monotonic() - self._heard_m

    def tell(self, body: UploadJob) -> None:
        """Send the job to the worker."""
        if self.process.stdin is not None:
            self.process.stdin.write(json.dumps(body).encode() + b"\n")
            self.process.stdin.flush()

    def lines(self) -> Any:
        """Yield the worker's events until it closes its output. Other output, for example of a
        library, is ignored.
        """
        stdout = self.process.stdout
        while stdout is not None and (raw := stdout.readline(_LINE_MOST)):
            self._heard_m = time.monotonic()
            try:
                line = loads(raw)
            except ValueError:
                continue  # output of a library, which is no event
            if isinstance(line, dict):
                yield line

    def end(self, *, kill: bool = False) -> None:
        """End the worker by closing its input. With `kill`, also send SIGKILL, which is allowed
        because it is our child.
        """
        if kill:
            self.process.kill()
        else:
            self._ending.set()
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()


_EVENTS = frozenset(
    {
        "started",
        "manifest",
        "sending",
        "progress",
        "verified",
        "pointed",
        "held",
        "step-done",
        "skipped",
        "vanished",
        "pruned",
        "unpruned",
        "others",
        "listed",
        "unlisted",
    }
)


def present(whole: Sequence[StepSet], attempt: Attempt | None) -> StepSet | None:
    """Return the checkpoint that would save the run if the pod were lost now, or None if there is
    none. This is the newest complete step. But if the living attempt was resumed from an older
    step, newer steps of earlier attempts do not count, once the living attempt has saved a step of
    its own.

    `whole` has the complete checkpoints, newest first. `attempt` is the living attempt, or None.
    """
    newest = next(iter(whole), None)
    if newest is None or attempt is None or attempt.resume is None:
        return newest
    if newest.step <= attempt.resume:
        return newest
    began_t = start_by_clock(attempt)
    return next((one for one in whole if one.t >= began_t), newest)


def wanted(
    whole: Sequence[StepSet],
    newest: StepSet | None,
    order: SyncOrder,
    view: SyncView,
    saved: Collection[int],
    *,
    live: bool,
) -> list[StepSet]:
    """Return the checkpoints that the next upload job shall send. While the run is running (`live`)
    this is one: a milestone (a step that is to stay in the store) that will soon be deleted, else
    `newest` (from which the run could be continued), else an earlier step. Of a run that has ended,
    `newest` comes first and then one earlier step, so that nothing waits long. An earlier step is a
    milestone that was not uploaded in its time, or a step that was uploaded in another state than
    it has now, or by an agent that recorded no states; only what the store lacks of it is sent. The
    list is empty if there is nothing to upload.

    `whole` has the complete checkpoints, newest first. `order` is the run's sync order (a standing
    order to upload the checkpoints of a run to an object store) and `view` says what was uploaded
    before. `saved` has the steps that the store has in the state in which they are on the disk.
    """
    missing = [one for one in whole if one.step not in saved]
    if newest is None or not missing:
        return []
    last = max((step for step in view.done if step <= newest.step), default=None)
    backlog = []
    for one in missing:
        late = order.milestone(one.step) or one.step in view.done
        if late and one is not newest:
            backlog.append(one)
    if live:
        # Steps are deleted from the oldest on. One that was overtaken just now is not old yet, but
        # an upload may take as long as several saves.
        for one in reversed(backlog):
            if not order.milestone(one.step):
                continue
            if one is whole[-1] or (last is not None and last < one.step < newest.step):
                return [one]
    due = last is None or newest.step - last >= order.every or order.milestone(newest.step)
    chosen = [newest] if newest in missing and (due or not live) else []
    if chosen and live:
        return chosen
    return chosen + backlog[:_BACKLOG]


def _is_gone(step: int, sets: Sequence[StepSet], whole: Sequence[StepSet]) -> bool:
    """Return True if the checkpoint of `step`, which was complete, was deleted from the disk. A
    disk that shows nothing newer either may be away, and a step of which files were written just
    now is being saved anew.
    """
    if not whole or whole[0].step < step:
        return False
    one = set_of(sets, step)
    return one is None or (not one.complete and time.time() - one.t > _LEFT_S)


def _ending(code: int) -> str:
    """Return how the worker ended, as a sentence."""
    what = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    return (
        f"The process that uploads {what}; it is started again by itself (its last words are in "
        "~/.bs4/agent.log)."
    )
