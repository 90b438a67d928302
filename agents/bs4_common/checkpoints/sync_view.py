"""The fold of the journal's `sync` records of one run: what is ordered, what is in the store, and
how the last upload went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

#: The most uploaded steps that are remembered; the pointer and the milestones are in the store
#: itself.
_STEPS_KEPT = 500

#: Events that change the view; each has a method of its own.
FOLDED = frozenset(
    {
        *(
            "ordered",
            "finished",
            "started",
            "progress",
            "pointed",
            "step-done",
            "pruned",
            "skipped",
        ),
        *("vanished", "listed", "unlisted", "others", "failed", "due", "missed"),
    }
)


class ListedStep(TypedDict, total=False):
    """One step that was found to be incomplete when the files in the object store were listed."""

    step: int
    files: int
    """How many files of the step are in the store."""
    of: int
    """How many files the step should have."""
    missing: str
    """What is missing, as a phrase."""


class SyncRecord(TypedDict, total=False):
    """A record of type `sync` in the journal (the agent's log of actions and incidents): one event
    in the uploads of a run's checkpoints to an object store. Which of these fields a record has
    depends on its event. A record with the event `ordered` gives an order to upload, or takes one
    back; its fields are `to`, `once`, `every`, `milestones`, `keep_remote`, `limit_mib`, `weights`
    and `who`, all but `who` None if the order is taken back.
    """

    t: float
    """Wall seconds since 1970."""
    event: Any
    """One of states.JournalEvent; a newer agent may have others."""
    run: str
    to: str | None
    """A place in an object store, or None if the order is taken back."""
    once: bool | None
    """True if the order ends with the first upload."""
    every: int | None
    """The least number of training steps between two uploads, 0 for each new checkpoint."""
    milestones: int | None
    """Steps that are a multiple of this number stay in the store; 0 means none."""
    keep_remote: int | None
    """How many checkpoints stay in the store, or None if none is removed."""
    limit_mib: float | None
    """The bandwidth limit in MiB per second, or None."""
    weights: bool | None
    """True if parts that no resume needs are uploaded too."""
    who: str
    """The person who gave the order."""
    step: int
    """A training step. A failure has one if it is a matter of this step alone."""
    bytes: int
    done: int
    """Bytes sent so far."""
    total: int
    """Bytes to send."""
    rate: float
    """Bytes per second."""
    set_t: float
    """The time of the checkpoint that was verified, in wall seconds since 1970."""
    set_state: str
    """The state of the files that were verified; see `bs4_agent.checkpoints.saved`."""
    held: str
    """Why latest.json was not changed to name the uploaded step, or ""."""
    pointed: bool
    """True if latest.json was changed to name the uploaded step."""
    steps: Sequence[Any]
    """Numbers of training steps. A record of an action has its steps here."""
    torn: Sequence[ListedStep]
    """The incomplete steps in a listing of the store."""
    pointer: int | None
    """The step that latest.json names, or None."""
    names: Sequence[str]
    """The names of logs and crash reports that were uploaded."""
    detail: str
    error: str
    """The type of the error."""
    passing: bool
    """True if the same work may succeed soon without any change."""


if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.

    class SyncFacts(TypedDict, total=False):
        """What the detectors read of a run's uploads; see `SyncView.told`."""

        run: str
        alive: bool
        """False if the uploads keep failing."""
        pointer: int | None
        """The step that latest.json was last seen to name."""
        interval_s: float
        """Seconds in which one upload is expected to follow another."""
        removed: Sequence[int]
        detail: str
        error: str
        failures: int
        skipped: Sequence[int]
        why: str
        rounds: int
        vanished: Sequence[int]
        listed: bool

    class RemoteRow(TypedDict):
        """One step in the last listing of the store; see `SyncView.remote`."""

        run: str
        prefix: str
        step: int
        files: int | None
        local_files: int | None
        missing: str
        uploading: bool


@dataclass(kw_only=True)
class SyncView:
    """The state of one run's uploads to an object store, as the records about them in the journal
    (the agent's log of actions and incidents) show it.

    `order` is the record of the last order to upload (its `to` is None if the order was taken
    back). `done` maps each uploaded step to the state of its files that was verified in the object
    store, "" if an agent has uploaded it that recorded none. `pointer` is the step that
    latest.json, the store's file that names the newest step, was last seen to name, and `pointed_t`
    when. `sent` of `total` bytes of the present upload are sent, at `rate` bytes per second. `last`
    is the newest record about the uploads, `failed` the last failure since the last success, or
    None, and `failures` the number of failures in a row; `blocked` of them were no matter of one
    step alone. `logs` has the names of logs and crash reports that were uploaded, and `uploads` is
    how many steps were uploaded so far.
    """

    order: SyncRecord = field(default_factory=SyncRecord)
    place: str = ""
    """The place in the store to which this view belongs: that of the last order with a place."""
    done: dict[int, str] = field(default_factory=dict)
    pointer: int | None = None
    pointed_t: float | None = None
    step: int | None = None
    """The step that is being uploaded, None between two uploads."""
    sent: int = 0
    total: int = 0
    rate: float | None = None
    last: SyncRecord = field(default_factory=SyncRecord)
    failed: SyncRecord | None = None
    failures: int = 0
    blocked: int = 0
    logs: set[str] = field(default_factory=set)
    uploads: int = 0
    removed: list[int] = field(default_factory=list)
    """Steps that this pod removed from the store, newest last."""
    held: str = ""
    """Why latest.json was not changed to name the newest uploaded step, "" if it was."""
    skipped: dict[int, str] = field(default_factory=dict)
    """{step: reason} of the steps that the upload process has refused since its last success.
    `rounds` counts these refusals.
    """
    rounds: int = 0
    due: set[int] = field(default_factory=set)
    """Milestones (steps that are to stay in the store) that wait for their upload."""
    missed: list[int] = field(default_factory=list)
    """Milestones that were gone from the disk before they were uploaded, since the last order."""
    vanished: list[int] = field(default_factory=list)
    """Steps that were removed from the disk while they were uploaded, since the last success."""
    listed: dict[int, ListedStep] | None = None
    """The last listing of the store: {step: what is wrong with it}, with {} for a complete step.
    None before the first listing. `listed_t` is the wall-clock time of the listing.
    """
    listed_t: float = 0.0

    @property
    def missed_words(self) -> str:
        """Return a phrase that says which milestones were missed, or "" if none was."""
        return missed_text(self.missed) if self.missed else ""

    def apply(self, record: SyncRecord) -> None:
        """Update the state by `record`, one record of the journal (the agent's log) about the
        uploads of this run. A record whose event is unknown changes nothing but the attribute
        `last`, which is then this record.
        """
        self.last = record
        event = record.get("event")
        if event in FOLDED:
            getattr(self, "_" + event.replace("-", "_"))(record)

    def told(self) -> SyncFacts:
        """Return what the detectors (the agent's functions that look for failures) need to know
        about this run's uploads, as a dictionary: the last failure (`detail`, `error`, `failures`),
        the steps that were `skipped` with the reason `why`, the steps that `vanished` during an
        upload or were `removed` from the object store, and `listed` (True if the files in the store
        were listed).
        """
        failed, skipped = self.failed or {}, self.skipped
        return {
            "removed": list(self.removed),
            "detail": failed.get("detail", ""),
            "error": failed.get("error", ""),
            "failures": self.failures,
            "skipped": sorted(skipped),
            "why": skipped[max(skipped)] if skipped else "",
            "rounds": self.rounds,
            "vanished": list(self.vanished),
            "listed": self.listed is not None,
        }

    def remote(self, run: str) -> list[RemoteRow]:
        """Return one row for each step in the last listing of the object store: `run`, `prefix`
        (the place in the store), `step`, `files` (their number in the store), `local_files` (their
        number on the pod), `missing` (a phrase, "" if the step is complete) and `uploading` (True
        while it is uploaded). The result is empty before the first listing.
        """
        found: list[RemoteRow] = []
        for step, row in (self.listed or {}).items():
            found.append(
                {
                    "run": run,
                    "prefix": self.place,
                    "step": step,
                    "files": row.get("files"),
                    "local_files": row.get("of"),
                    "missing": row.get("missing", ""),
                    "uploading": step == self.step,
                }
            )
        return found

    def _ordered(self, record: SyncRecord) -> None:
        if record.get("to") and record["to"] != self.place:
            # Nothing is known yet about another place.
            self.done, self.pointer, self.pointed_t = {}, None, None
            self.logs, self.removed = set(), []
            self.listed, self.listed_t = None, 0.0
        self.order, self.place = record, str(record.get("to") or self.place)
        self.failed, self.failures, self.blocked, self.held = None, 0, 0, ""
        self.skipped, self.rounds, self.vanished = {}, 0, []
        self.due, self.missed = set(), []

    def _finished(self, record: SyncRecord) -> None:
        if self.order.get("once"):
            self.order = {**self.order, "to": None}

    def _started(self, record: SyncRecord) -> None:
        self.step, self.sent, self.total, self.rate = record["step"], 0, record["bytes"], None

    def _progress(self, record: SyncRecord) -> None:
        self.sent, self.total, self.rate = record["done"], record["total"], record["rate"]

    def _pointed(self, record: SyncRecord) -> None:
        self.pointer, self.pointed_t = record["step"], record["t"]

    def _step_done(self, record: SyncRecord) -> None:
        self.step, self.rate = None, record["rate"]
        self.done[record["step"]] = record.get("set_state", "")
        for step in sorted(self.done)[:-_STEPS_KEPT]:
            del self.done[step]
        self.uploads += 1
        self.due.discard(record["step"])
        self.missed = [step for step in self.missed if step != record["step"]]
        self.failed, self.failures, self.blocked = None, 0, 0
        self.held = record.get("held") or ""
        self.skipped, self.rounds, self.vanished = {}, 0, []
        if self.listed is not None:
            self.listed = {**self.listed, record["step"]: {}}
        if record.get("pointed") and self.pointer != record["step"]:
            self.pointer, self.pointed_t = record["step"], record["t"]

    def _pruned(self, record: SyncRecord) -> None:
        self.removed = [*self.removed, *record["steps"]][-_STEPS_KEPT:]
        listed = dict(self.listed or {})
        for step in record["steps"]:
            self.done.pop(step, None)
            listed.pop(step, None)
        if self.listed is not None:
            self.listed = listed

    def _skipped(self, record: SyncRecord) -> None:
        self.skipped = {**self.skipped, record["step"]: str(record["detail"])}
        self.rounds += 1

    def _vanished(self, record: SyncRecord) -> None:
        self.vanished = [*self.vanished, record["step"]][-_STEPS_KEPT:]

    def _due(self, record: SyncRecord) -> None:
        # The upload of one may have ended while the disk was scanned for the others.
        self.due.update(set(record["steps"]).difference(self.done))

    def _missed(self, record: SyncRecord) -> None:
        self.due.difference_update(record["steps"])
        again = [step for step in self.missed if step not in record["steps"]]
        self.missed = [*again, *record["steps"]][-_STEPS_KEPT:]

    def _listed(self, record: SyncRecord) -> None:
        """Take the listing of the store over. A step that is not complete there counts as never
        uploaded, so that it is uploaded again if it is wanted.
        """
        self.listed = {step: {} for step in record["steps"]}
        self.done = {step: state for step, state in self.done.items() if step in self.listed}
        self.listed |= {row["step"]: row for row in record["torn"]}
        self.listed_t = record["t"]
        if record["pointer"] is not None:
            self.pointer = record["pointer"]

    def _unlisted(self, record: SyncRecord) -> None:
        self.listed_t = record["t"]

    def _others(self, record: SyncRecord) -> None:
        self.logs.update(record["names"])

    def _failed(self, record: SyncRecord) -> None:
        self.step, self.failed, self.failures = None, record, self.failures + 1
        if "step" not in record:
            self.blocked += 1


def missed_text(steps: Sequence[int]) -> str:
    """Return a phrase that says that the milestones (steps that were to stay in the object store)
    `steps` are gone from the pod and were not uploaded.
    """
    shown = ", ".join(str(step) for step in steps[:8])
    if len(steps) > 8:
        shown += f" and {len(steps) - 8} more"
    if len(steps) == 1:
        return f"milestone {shown} was not uploaded and is gone from the pod"
    return f"milestones {shown} were not uploaded and are gone from the pod"
