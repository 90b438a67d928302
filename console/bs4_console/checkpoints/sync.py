"""Checkpoints in an object store, from the operator's side: the state of a pod's sync, the content
of the bucket, and what may be removed from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from bs4_common.checkpoints.best import Quality
from bs4_common.checkpoints.orders import Order
from bs4_common.checkpoints.remote import legacy_layout, prune, steps
from bs4_common.checkpoints.remote.errors import NotThere, StoreAuth, StoreError
from bs4_common.checkpoints.remote.layout import Layout, Place
from bs4_common.checkpoints.remote.legacy_layout import SeedStep
from bs4_common.checkpoints.remote.prune import Pruning
from bs4_common.checkpoints.remote.steps import RemoteRun, RemoteStep
from bs4_common.checkpoints.sync_view import SyncView
from bs4_common.errors import AgentError, BadRequest, PlanChanged
from bs4_common.files import private
from bs4_console.checkpoints.listing import age, judged, size
from bs4_console.errors import (
    UNREACHABLE,
    USAGE,
    ConsoleError,
    RefusedError,
    UsageError,
)
from bs4_console.locations import config_dir
from bs4_console.pods import carried_orders
from bs4_console.pods.state import PodState
from bs4_console.setup.credentials import Credentials

if TYPE_CHECKING:
    from bs4_common.checkpoints.remote.b2 import B2Store

__all__ = [
    "Place",
    "Prunable",
    "StoreFailed",
    "carry_out",
    "line",
    "scan",
    "older",
    "open_store",
    "place_of",
    "plan_prune",
    "remote_as_dict",
    "status",
]

#: The variables that every tool of Backblaze reads.
_ID, _KEY = "B2_APPLICATION_KEY_ID", "B2_APPLICATION_KEY"
_SET = f"Set {_ID} and {_KEY}, pipe them with `--credentials -`, or keep them as key_id and key in"


class StoreFailed(ConsoleError):
    """Raised when the object store fails, refuses the key, or does not have what was asked for. The
    exit code is 3 if a later try can succeed, 2 if the request was wrong, and 1 otherwise.
    """

    def __init__(self, error: AgentError) -> None:
        """Take the message and the exit code from the agent's error."""
        super().__init__(error.message)
        if isinstance(error, StoreError) and error.passing:
            self.exit_code = UNREACHABLE
        elif isinstance(error, BadRequest):
            self.exit_code = USAGE


class RemoteStepRow(TypedDict):
    """One checkpoint of a run in the bucket, as the JSON of `checkpoints remote` has it. `step` is
    its training step and `bytes` the size of all its files, of which there are `files`. `age_s` is
    the seconds since it was uploaded.
    """

    step: int
    complete: bool
    missing: str
    """A phrase that says what is missing, or "" if the checkpoint is complete."""
    bytes: int
    files: int
    t: float
    """The Unix time in seconds at which its upload was complete, or that of its newest file if it
    never was.
    """
    age_s: float
    pointed: bool
    """True if latest.json, the file in which the bucket names a run's newest complete checkpoint,
    names this one.
    """
    trainer: str | None
    """The id of the trainer that wrote the checkpoint, or None if the bucket does not say it."""
    wandb: Mapping[str, str]
    """The ids of the W&B runs to which the run has reported, by program, such as "trainer"."""


class SeedStepRow(TypedDict):
    """One checkpoint that another upload script, older than this program, has put into the bucket,
    as the JSON of `checkpoints remote` has it. `root` is the prefix of the names of its `files`
    files, which have `bytes` bytes in all. `missing` says what a resume needs and does not find
    there, or is "".
    """

    step: int
    root: str
    bytes: int
    files: int
    missing: str


class RemoteRunRow(TypedDict):
    """What the bucket holds of the run `run`, as the JSON of `checkpoints remote` has it. `to` is
    the place in the object store, like b2://BUCKET/PREFIX. `steps` are the run's checkpoints,
    `older` those that other upload scripts have put there, and `others` the names of all other
    files.
    """

    to: str
    run: str
    pointer: int | None
    """The step that latest.json names as the newest complete one, or None if there is no usable
    latest.json.
    """
    pointer_why: str
    """Why latest.json cannot be used, or ""."""
    steps: Sequence[RemoteStepRow]
    older: Sequence[SeedStepRow]
    others: Sequence[str]


class SyncStatus(TypedDict):
    """The state of the sync of the run `run`, which is the upload of its checkpoints to the object
    store `to` (None: the sync was switched off), in JSON output. `uploaded` are the training steps
    that are there. `step` is the one that is being uploaded, or None: `sent` of its `total` bytes
    are sent, at `rate` bytes a second. `failures` is the number of failures in a row, and `error` a
    short name of the last one, or None. `detail` is a sentence about it, or says why latest.json
    does not name the newest uploaded step, or is "".
    """

    run: str
    to: str | None
    pointer: int | None
    """The step that latest.json, a file in the object store, names as the newest complete one, or
    None.
    """
    pointed_t: float | None
    """The Unix time in seconds at which latest.json was last written or read, or None."""
    uploaded: Sequence[int]
    missed: Sequence[int]
    """Milestones that were gone from the pod before they were uploaded, since the last order."""
    step: int | None
    sent: int
    total: int
    rate: float | None
    failures: int
    error: str | None
    detail: str
    order: Mapping[str, object]
    """The fields of the order to sync: what is uploaded, how fast, and who gave the order."""


@dataclass(frozen=True)
class Prunable:
    """The plan of removing old checkpoint steps of the run `run` from `place` in the object store.
    The `keep` newest complete steps stay, and also steps that are multiples of `milestones` (0: no
    multiples stay). `decision` says which steps would be removed and which stay.
    """

    place: Place
    run: str
    keep: int
    milestones: int
    decision: Pruning
    stays: Mapping[int, str] = field(default_factory=dict)
    """Why further steps stay, by step: the best one, and those that may be the best."""

    @property
    def hash(self) -> str:
        """Return the SHA-256 that identifies exactly this plan, in hex. A person confirms the plan
        by it.
        """
        shown = []
        for one in self.decision.remove:
            shown.append([one.step, one.manifest.sha256 if one.manifest else "", one.missing])
        whole = {
            "place": str(self.place),
            "run": self.run,
            "keep": self.keep,
            "milestones": self.milestones,
            "remove": shown,
        }
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def place_of(url: str) -> Place:
    """Return the place in an object store that a URL such as `b2://BUCKET/PREFIX` names. Raises
    UsageError, which says how to write a place, if the URL is wrong.
    """
    try:
        return Place.parse(url)
    except BadRequest as error:
        raise UsageError(error.message) from error


def open_store(place: Place, given: Credentials | None = None) -> B2Store:
    """Open the bucket of `place` and return it. The key comes from `given`, else from the
    environment (B2_APPLICATION_KEY_ID and B2_APPLICATION_KEY), else from b2.json in the console's
    configuration directory, which only its owner may read. Raises UsageError if no key is usable or
    b2sdk is not installed, and StoreFailed if the store refuses the key or cannot be reached.
    """
    try:
        from bs4_common.checkpoints.remote import b2
    except ImportError as error:
        raise UsageError(
            "This console has no b2sdk.", "Install it with `pip install 'bs4-console[b2]'`."
        ) from error
    key_id, key = _key(given)
    try:
        return b2.B2Store.open(place.bucket, key_id, key, at=b2.realm())
    except AgentError as error:
        raise StoreFailed(error) from error


def _key(given: Credentials | None) -> tuple[str, str]:
    """Return the key id and the key for the store. Raises UsageError if there is none, or if the
    file can be read by others.
    """
    path = config_dir() / "b2.json"
    if given is not None and "b2" in given.names:
        found: Mapping[str, Any] = json.loads(given.payload())["b2"]
    elif os.environ.get(_ID) and os.environ.get(_KEY):
        found = {"key_id": os.environ[_ID], "key": os.environ[_KEY]}
    elif path.is_file():
        if not private(path):
            raise UsageError(
                f"{path} can be read by others, so its key is not used.",
                f"Run `chmod 600 {path}`, and give it a new key.",
            )
        found = json.loads(path.read_text())
    else:
        raise UsageError("No key for the store is given.", f"{_SET} {path} (mode 0600).")
    if not found.get("key_id") or not found.get("key"):
        raise UsageError("The key for the store is only half there.", f"{_SET} {path} (mode 0600).")
    return str(found["key_id"]), str(found["key"])


def scan(store: B2Store, place: Place, run: str) -> RemoteRun:
    """List the bucket of `place` and return what it holds of the run `run`: the checkpoint steps,
    and which one the bucket itself names as the newest complete one. Raises StoreFailed if the
    store fails or holds nothing of the run.
    """
    try:
        found = steps.scan(store, Layout(place.prefix, run))
    except AgentError as error:
        raise StoreFailed(error) from error
    if not found.steps and not found.others and found.pointer is None:
        raise StoreFailed(
            NotThere(f"Nothing of {run} is in {place}; check the prefix and the run's name.")
        )
    return found


def older(store: B2Store, place: Place, run: str) -> list[SeedStep]:
    """Return the checkpoint steps of the run that other scripts uploaded to `place` in their own
    layout, before this program existed, oldest first. The result is empty if there are none. Raises
    StoreFailed if the store fails.
    """
    try:
        return list(legacy_layout.read(store, Layout(place.prefix, run)).steps)
    except AgentError as error:
        raise StoreFailed(error) from error


def plan_prune(
    store: B2Store,
    place: Place,
    run: str,
    keep: int,
    milestones: int,
    pods: Iterable[PodState] = (),
) -> Prunable:
    """Return the plan of removing checkpoint steps of a run from the bucket: all except the `keep`
    newest complete ones and multiples of `milestones` (0: no multiples stay). Of `pods`, the one
    counts on which the run began last, of those that copied it to `place`: if its retention order
    keeps the best checkpoint, that one stays too. Raises RefusedError, with the reason, if no step
    may be removed now, UsageError if `keep` is below 2, and StoreFailed if the store fails.
    """
    found = scan(store, place, run)
    try:
        stays = best_in_store(pods, place, run, found)
        decision = prune.decide(found, keep, milestones, stays)
    except BadRequest as error:
        raise UsageError(error.message) from error
    if decision.refused:
        raise RefusedError(decision.refused)
    return Prunable(place, run, keep, milestones, decision, stays)


def best_in_store(
    pods: Iterable[PodState], place: Place, run: str, found: RemoteRun
) -> dict[int, str]:
    """Return which steps in the store stay because of a retention order for the run that keeps the
    best checkpoint, as {step: reason}. `found` is the result of `scan`. Of `pods`, the one counts
    on which the run began last, of those that copied it to `place`: it took the orders over, and
    another pod, which does not know its steps, would keep each of them. The steps are judged by
    what was read of the pod last.
    """
    pod = carried_orders.newest_pod(pods, run, str(place))
    if pod is None:
        return {}
    order = Order.of(pod.ledger.orders.get(run))
    if order is None or not order.best:
        return {}
    stored = judged(pod.runs[run], order.best, prune.stored_t(found))
    stays = {}
    for step, why in prune.stays_for(order.best, stored, Quality(), found).items():
        stays[step] = f"{why}; the order on {pod.name} keeps the best"
    return stays


def carry_out(store: B2Store, plan: Prunable) -> Pruning:
    """Remove from the bucket the checkpoints that the confirmed plan `plan` names, and return what
    was removed and what stayed. The bucket is listed again before each removal. Unfinished uploads
    that are older than all checkpoints that stay are cancelled. Raises RefusedError if the bucket
    has changed since the plan was made, and StoreFailed if the store fails or the key may not
    delete.
    """
    layout = Layout(plan.place.prefix, plan.run)
    try:
        done = prune.prune(
            store,
            layout,
            plan.keep,
            plan.milestones,
            confirmed=[one.step for one in plan.decision.remove],
            stays=plan.stays,
        )
        _cancel_abandoned(store, layout, done)
    except PlanChanged as error:
        raise RefusedError(error.message) from error
    except StoreAuth as error:
        raise StoreFailed(
            StoreAuth(f"{error.message} Pruning needs a key with deleteFiles.")
        ) from error
    except AgentError as error:
        raise StoreFailed(error) from error
    return done


def _cancel_abandoned(store: B2Store, layout: Layout, done: Pruning) -> None:
    """Cancel the large files of steps that are older than all kept steps. Nobody will finish them,
    no listing shows them, and their parts are billed.
    """
    oldest = min(done.kept, default=0)
    for entry in store.unfinished(layout.steps):
        step = layout.step_of(entry.name)
        if step is not None and step < oldest:
            store.cancel(entry)


def remote_as_dict(
    place: Place, run: str, found: RemoteRun, left: Sequence[SeedStep] = ()
) -> RemoteRunRow:
    """Return the JSON object of `checkpoints remote --json`: what the bucket of `place` holds of
    the run `run`. `found` is the result of `scan`, which has the checkpoints that this program
    uploaded. `left` is the result of `older`, the checkpoints that other scripts uploaded earlier.
    """
    return {
        "to": str(place),
        "run": run,
        "pointer": found.pointer.step if found.pointer else None,
        "pointer_why": found.pointer_why,
        "steps": [_step(one, found) for one in found.steps],
        "older": [
            {
                "step": one.step,
                "root": one.root,
                "bytes": one.bytes,
                "files": len(one.files),
                "missing": one.missing,
            }
            for one in left
        ],
        "others": sorted(found.others),
    }


def _step(one: RemoteStep, found: RemoteRun) -> RemoteStepRow:
    """Return the JSON object about one step in the bucket."""
    return {
        "step": one.step,
        "complete": one.whole,
        "missing": one.missing,
        "bytes": one.bytes,
        "files": len(one.entries),
        "t": one.t,
        "age_s": round(max(0.0, time.time() - one.t), 1),
        "pointed": found.pointer is not None and found.pointer.step == one.step,
        "trainer": one.manifest.trainer if one.manifest else None,
        "wandb": dict(one.manifest.wandb) if one.manifest else {},
    }


def status(state: PodState, run: str) -> SyncStatus | None:
    """Return the state of the sync of the run `run` (the upload of its checkpoints to an object
    store) as the JSON object of `checkpoints sync --status --json`. It is made only from what the
    pod's journal (the agent's log of actions and incidents) has told. Return None if no sync was
    ever ordered for the run.
    """
    view = state.ledger.syncs.get(run)
    if view is None:
        return None
    failed = view.failed
    return {
        "run": run,
        "to": view.order.get("to"),
        "pointer": view.pointer,
        "pointed_t": view.pointed_t,
        "uploaded": sorted(view.done),
        "missed": sorted(view.missed),
        "step": view.step,
        "sent": view.sent,
        "total": view.total,
        "rate": view.rate,
        "failures": view.failures,
        "error": None if failed is None else failed.get("error"),
        "detail": view.held or ("" if failed is None else str(failed.get("detail", ""))),
        "order": {
            key: view.order.get(key)
            for key in ("every", "milestones", "keep_remote", "limit_mib", "weights", "once", "who")
        },
    }


def line(view: SyncView, now: float | None = None) -> str:
    """Return one line about the state of the uploads of a run's checkpoints, such as `step 40 is in
    the store since 3m; step 45: 1.2 of 13 GiB, 40 MiB/s`. `view` is what the pod's journal (the
    agent's log of actions and incidents) has of them. `now` is the present Unix time in seconds;
    None means that of this machine.
    """
    wall = time.time() if now is None else now
    if not view.order.get("to") and not view.order.get("once"):
        return "not synced any more"
    parts = ["nothing is in the store yet"]
    if view.pointer is not None and view.pointed_t is not None:
        since = age(max(0.0, wall - view.pointed_t))
        parts = [f"step {view.pointer} is in the store since {since}"]
    if view.step is not None:
        speed = f", {size(view.rate)}/s" if view.rate else ""
        parts.append(f"step {view.step}: {size(view.sent)} of {size(view.total)}{speed}")
    if view.missed:
        parts.append(view.missed_words)
    if view.held:
        parts.append(view.held)
    if view.failed is not None:
        parts.append(
            f"{view.failures} failure{'' if view.failures == 1 else 's'} in a row: "
            f"{view.failed.get('detail', '')}"
        )
    return "; ".join(parts)
