"""The process that uploads: it reads one job from standard input and writes its progress as NDJSON
to standard output.

It is apart from the agent because b2sdk and TLS need more memory than the agent may use, and
because it may be killed: the step that the store's pointer names stays complete, and the next
worker goes on. It reads the key itself, from the 0600 file. When its input ends, the agent has
ended, so the worker ends too; the new agent starts another one. The job is

    {"run", "to", "home", "spec", "attempt", "resumed", "steps": [N, ...], "point", "weights",
     "rate", "keep_remote", "milestones", "best", "starts", "wandb": {side: id},
     "launch": Launched.as_dict() or None, "others": {name: path}, "look"}
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from bs4_agent.checkpoints.hashing import Hashes
from bs4_agent.checkpoints.holds import hold
from bs4_agent.checkpoints.remote.pace import Pace
from bs4_agent.checkpoints.remote.push import Origin, Push, upload_others
from bs4_agent.checkpoints.saved import state_of
from bs4_agent.checkpoints.sync_set import LocalSet, local_set, wandb_ids
from bs4_agent.paths import Home
from bs4_agent.runs.records import spec_from_dict
from bs4_agent.setup.credentials import store_key
from bs4_common.checkpoints import best
from bs4_common.checkpoints.best import Start
from bs4_common.checkpoints.remote import prune, steps
from bs4_common.checkpoints.remote.errors import StoreAuth, StoreDamaged, StoreError
from bs4_common.checkpoints.remote.launched import Launched, LaunchedFields
from bs4_common.checkpoints.remote.layout import Layout, Place
from bs4_common.checkpoints.remote.store import Store
from bs4_common.checkpoints.sets import StepSet, complete_sets, set_of, step_sets, verify
from bs4_common.checkpoints.sync_view import SyncRecord
from bs4_common.errors import AgentError, Busy, Refused, StepFailed
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec, Trainer

if TYPE_CHECKING:
    from bs4_agent.runs.records import SpecFields

#: Seconds between two progress events.
_SAY_S = 1.0
#: Seconds that a new worker waits for an earlier worker of the same run to notice that its agent is
#: gone.
_TURN_S = 60.0
_FAILED, _ORPHANED = 1, 2


class WorkerOutput:
    """Writes the events of the upload process to its standard output, one line of JSON each, for
    the agent. Call the object with an event's name, and its fields as keyword arguments, to write
    one. It may be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done, self._total, self._began, self._said = 0, 0, time.monotonic(), 0.0

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Write one event of the upload with its fields, as a line of JSON. The event "sending"
        starts the count of transferred bytes anew.
        """
        if event == "sending":
            with self._lock:
                self._done, self._total, self._began = 0, fields["bytes"], time.monotonic()
        with self._lock:
            # The agent reads the events from standard output.
            print(json.dumps({"event": event, **fields}), flush=True)  # noqa: T201

    def moved(self, count: int) -> None:
        """Add `count` bytes to the bytes that the present transfer has moved so far, and report the
        sum as a "progress" event, at most once every second.
        """
        with self._lock:
            self._done += count
            now = time.monotonic()
            if now - self._said < _SAY_S:
                return
            self._said, done, total = now, min(self._done, self._total), self._total
            rate = self._done / max(0.001, now - self._began)
        self("progress", done=max(0, done), total=total, rate=round(max(0.0, rate)))


def main() -> int:
    """Run the upload process: read one job from standard input, carry it out, and return the exit
    code: 0, or 1 if the job failed. Events go to standard output.
    """
    job = _job()
    threading.Thread(target=_end_with_agent, daemon=True).start()
    # The run comes first. The agent sets the priority for the disk, which would load psutil here.
    os.nice(19)
    tell = WorkerOutput()
    home = Home(Path(job["home"]))
    try:
        with _turn(home, str(job["run"])), ThreadPoolExecutor(1, "open") as beside:
            # b2sdk's import and the store's first answers take as long as hashing some hundred MB,
            # so both are done at once.
            opening = beside.submit(open_store, home, job)
            work(home, job, opening, tell)
    except (AgentError, OSError) as error:
        tell("failed", **failure(error))
        return _FAILED
    tell("done")
    return 0


class UploadJob(TypedDict, total=False):
    """One job of the upload process: which checkpoints of which run it uploads to which place in an
    object store, and how.
    """

    run: str
    to: str
    """A place in an object store."""
    home: str
    """The path of the agent's home directory."""
    spec: SpecFields
    """How the run was started: a LaunchSpec as a dictionary."""
    attempt: int
    """The number of the run's newest attempt, or 0."""
    resumed: Any
    """The training step from which that attempt was resumed, or None."""
    steps: Sequence[int]
    """The training steps whose checkpoints are uploaded, in this order."""
    point: Any
    """True if latest.json in the store shall name the first of `steps`."""
    weights: bool
    """True if parts that no resume needs are uploaded too."""
    rate: int | None
    """Bytes per second at most."""
    keep_remote: int | None
    """How many complete steps stay in the store, or None if none is removed."""
    milestones: int
    """Steps that are a multiple of this number always stay in the store; 0 for none."""
    best: str
    """The metric whose best checkpoint stays in the store, or ""."""
    starts: Sequence[Any]
    """Where and when each attempt of the run began: a Start as a dictionary."""
    wandb: dict[str, str]
    """W&B run ids by side ("trainer", "orchestrator")."""
    launch: LaunchedFields | None
    """The record of how the run was started, or None if that is not known."""
    others: Mapping[str, str]
    """Logs and crash reports to upload: their paths on the pod, by the name in the store."""
    look: bool
    """True if the process shall also list what is in the store."""


def work(home: Home, job: UploadJob, opening: Future[Store], tell: WorkerOutput) -> None:
    """Carry out one upload job in the order: upload its steps; upload logs and crash
    reports; then, if the job orders it, remove old steps from the object store and list what is
    there. `job` is the dictionary that the agent sent, and `tell` writes the events.

    `opening` is the store that is being opened on another thread. If opening fails, its error ends
    the job at once. Raises the errors of the store and of `Push.step`.
    """

    def still_wanted(_: int) -> None:
        if opening.done():
            opening.result()

    layout = Layout(Place.parse(job["to"]).prefix, job["run"])
    hashes = Hashes(home.run(layout.run) / "sync-hashes.json")
    spec = spec_from_dict(job["spec"])
    trainer, launched = registry.get(spec.trainer), job.get("launch")
    origin = Origin(
        layout.run,
        spec.trainer,
        job["attempt"],
        job["resumed"],
        wandb_ids(trainer, spec) | job.get("wandb", {}),
        Launched.from_dict(launched) if launched else None,
    )
    source = _Source(home, job, trainer, spec, tell)
    for number, step in enumerate(job["steps"]):
        with ExitStack() as held:
            point = number == 0 and bool(job["point"])
            one, state, local = source.take(held, step, newer=point)
            began = time.monotonic()
            try:
                # The push does not read the files again.
                hashes.of(local.paths.values(), still_wanted)
                push = Push(opening.result(), layout, hashes, tell, tell.moved)
                tell("started", step=one.step, bytes=local.bytes, files=len(local.files))
                pushed = push.step(local, origin, point=point)
            except StepFailed:
                if why := verify(one):
                    # It vanished under our hold, so somebody else removes steps here.
                    tell("vanished", step=one.step, detail=why)
                raise
        seconds = max(0.001, time.monotonic() - began)
        tell(
            "step-done",
            step=one.step,
            set_t=one.t,
            set_state=state,
            pointed=point and not pushed.held,
            held=pushed.held,
            files=pushed.files,
            bytes=pushed.bytes,
            sent=pushed.sent,
            seconds=round(seconds, 3),
            rate=round(pushed.sent / seconds),
            sha256=pushed.manifest_sha256,
        )
    store = opening.result()
    others = {}
    for name, path in job["others"].items():
        others[layout.root + name] = Path(path)
    if others:
        tell("others", count=upload_others(store, others, hashes), names=sorted(job["others"]))
    if (keep := job["keep_remote"]) is not None:
        stays = _best_of(store, layout, home, job, trainer, spec)
        _prune(store, layout, keep, job["milestones"], stays, tell)
    if job.get("look"):
        _look(store, layout, tell)


class _Source:
    """The run's steps on the disk. While a step is read, it is protected against removal."""

    def __init__(
        self,
        home: Home,
        job: UploadJob,
        trainer: Trainer,
        spec: LaunchSpec,
        tell: WorkerOutput,
    ) -> None:
        self._home, self._trainer, self._spec, self._tell = home, trainer, spec, tell
        self._run, self._who, self._weights = (
            str(job["run"]),
            f"upload to {job['to']}",
            bool(job["weights"]),
        )

    def take(self, held: ExitStack, step: int, *, newer: bool) -> tuple[StepSet, str, LocalSet]:
        """Return `step`, its state, and its files, held until `held` ends. The state is read before
        the files are listed and hashed: what is written from then on is another state. If `newer`
        is True and the step was removed before its turn came, return the newest complete step: a
        run may save faster than a process starts. Raises StepFailed or Refused if it cannot be
        uploaded.
        """
        while True:
            one, why = None, "it is being removed"
            with contextlib.suppress(Busy):
                held.enter_context(hold(self._home, self._run, step, self._who))
                one = set_of(step_sets(self._trainer, self._spec), step)
                why = "gone" if one is None else verify(one)
            if one is not None and not why:
                state = state_of(self._trainer, self._spec, one, weights=self._weights)
                return one, state, self._local(one)
            held.close()
            newest = next(iter(complete_sets(step_sets(self._trainer, self._spec))), None)
            if not newer or newest is None or newest.step <= step:
                if one is not None:
                    self._tell("skipped", step=step, detail=why)
                raise StepFailed(
                    f"Step {step} of {self._run} is not complete any more ({why}); a newer "
                    "one is taken by itself."
                )
            step = newest.step

    def _local(self, one: StepSet) -> LocalSet:
        """Return the files of the set, or report why it cannot be uploaded."""
        try:
            return local_set(self._trainer, self._spec, one, weights=self._weights)
        except Refused as error:
            self._tell("skipped", step=one.step, detail=error.message)
            raise


def _look(store: Store, layout: Layout, tell: WorkerOutput) -> None:
    """Report what the store has of the run, by its own listing: the complete steps by number, and
    what the others lack.
    """
    try:
        found = steps.scan(store, layout)
    except StoreError as error:
        # The uploads were verified; the listing is repeated with the next job.
        tell("unlisted", detail=error.message)
        return
    torn = []
    for one in found.steps:
        if not one.whole:
            files = one.manifest.files if one.manifest else []
            names = {entry.name for entry in one.entries}
            there = sum(layout.file(one.step, file.path) in names for file in files)
            torn.append(
                {
                    "step": one.step,
                    "missing": one.missing,
                    "files": there,
                    "of": len(files) if one.manifest else None,
                }
            )
    tell(
        "listed",
        pointer=found.pointer.step if found.pointer else None,
        steps=sorted(one.step for one in found.whole),
        torn=torn,
    )


def _best_of(
    store: Store, layout: Layout, home: Home, job: UploadJob, trainer: Trainer, spec: LaunchSpec
) -> dict[int, str]:
    """Return which steps stay in the store because the run's retention order keeps the best one, as
    {step: reason}.
    """
    metric = job.get("best", "")
    if not metric:
        return {}
    found = steps.scan(store, layout)
    here = {one.step: one.saved_t for one in complete_sets(step_sets(trainer, spec))}
    there = prune.stored_t(found)
    for step, uploaded_t in there.items():
        # What was uploaded since it was saved here is the same, and was written then.
        there[step] = min(uploaded_t, here.get(step, uploaded_t))
    starts = [Start(**fields) for fields in job["starts"]]
    way = best.lineage(metric, best.records_of(home.state / "steps" / layout.run), starts, here)
    stored, on_disk = best.quality(metric, way, there), best.quality(metric, way, here)
    return prune.stays_for(metric, stored, on_disk, found)


def _prune(
    store: Store,
    layout: Layout,
    keep: int,
    every: int,
    stays: Mapping[int, str],
    tell: WorkerOutput,
) -> None:
    """Remove the remote steps that may go. A pod's key should not be allowed to delete; then this
    is the console's work and no failure.
    """
    try:
        done = prune.prune(store, layout, keep, every, stays=stays)
    except StoreAuth:
        tell(
            "unpruned",
            detail="the key of this pod may not delete; prune from the console with `bs4-console "
            "checkpoints prune`",
        )
        return
    if done.remove:
        tell("pruned", steps=[one.step for one in done.remove], bytes=done.bytes)
    elif done.refused:
        tell("unpruned", detail=done.refused)


def open_store(home: Home, job: UploadJob) -> Store:
    """Open the job's B2 bucket with the key that is stored on this pod, and return the store.
    Raises NotApplicable if there is no key, and StoreAuth if other users can read the key's file.
    Raises BadRequest if the job's place, the text that names bucket and prefix, is malformed.
    """
    from bs4_common.checkpoints.remote import b2

    key = store_key(home)
    return b2.B2Store.open(
        Place.parse(job["to"]).bucket,
        key["key_id"],
        key["key"],
        at=b2.realm(),
        pace=Pace(job.get("rate")),
    )


def failure(error: AgentError | OSError) -> SyncRecord:
    """Return the fields with which the journal (the agent's log of actions and incidents) records
    that `error` has ended an upload.
    """
    if isinstance(error, AgentError):
        passing = isinstance(error, (StepFailed, Busy, StoreDamaged))
        if isinstance(error, StoreError):
            passing = passing or error.passing
        return {"error": error.type, "detail": error.message, "passing": passing}
    return {
        "error": "disk",
        "detail": (
            f"{error.filename or 'A file'} cannot be read ({error.strerror}); look at the disk."
        ),
        "passing": True,
    }


@contextlib.contextmanager
def _turn(home: Home, run: str) -> Any:
    """Hold the run alone: two workers would overwrite each other's pointer. The kernel releases the
    lock with the process, however it ends.
    """
    path = home.run(run) / "sync.lock"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _TURN_S
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Busy(
                        f"Another sync of {run} is at work; it is tried again by itself."
                    ) from None
                time.sleep(0.1)
        yield
    finally:
        os.close(fd)


def _job() -> UploadJob:
    """Return the job in the first line of standard input. It is read by its descriptor, because a
    thread that waits in sys.stdin would abort the interpreter at its end.
    """
    raw = b""
    while not raw.endswith(b"\n"):
        more = os.read(0, 1 << 16)
        if not more:
            os._exit(_ORPHANED)
        raw += more
    job: UploadJob = json.loads(raw)
    return job


def _end_with_agent() -> None:
    """End this process when the agent closes its input."""
    while os.read(0, 1 << 16):
        pass
    os._exit(_ORPHANED)


if __name__ == "__main__":
    sys.exit(main())
