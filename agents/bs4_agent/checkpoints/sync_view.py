"""The fold of the journal's `sync` records of one run: what is ordered, what is in the store, how the last upload went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]

#: Uploaded steps that are remembered; the pointer and the milestones are in the store itself.
_STEPS_KEPT = 500


@dataclass
class SyncView:
    """`order`: the last order's record (`to` None: taken back). `done`: step -> wall second of the set that was verified there. `pointer`:
    the step that latest.json was last seen to name. `last`: the newest record, `failed`: the last failure since the last success, None
    when there is none. `logs`: names that were uploaded. `failures`: in a row."""

    order: Record = field(default_factory=dict)
    place: str = ""
    """Where what is known here lies: of the last order that named a place."""
    done: dict[int, float] = field(default_factory=dict)
    pointer: int | None = None
    pointed_t: float | None = None
    step: int | None = None
    """The step that is being uploaded, None between two."""
    sent: int = 0
    total: int = 0
    rate: float | None = None
    last: Record = field(default_factory=dict)
    failed: Record | None = None
    failures: int = 0
    logs: set[str] = field(default_factory=set)
    uploads: int = 0
    removed: list[int] = field(default_factory=list)
    """Steps that this pod removed from the store, newest last."""
    held: str = ""
    """Why the pointer was not moved to the newest uploaded step, "" when it was."""

    def apply(self, record: Record) -> None:
        """Records of unknown events are remembered as the last one, and change nothing."""
        self.last = record
        handler = getattr(self, "_" + str(record.get("event")).replace("-", "_"), None)
        if handler is not None:
            handler(record)

    def _ordered(self, record: Record) -> None:
        if record.get("to") and record["to"] != self.place:
            # Another place: nothing of it is known yet.
            self.done, self.pointer, self.pointed_t, self.logs, self.removed = {}, None, None, set(), []
        self.order, self.place = record, str(record.get("to") or self.place)
        self.failed, self.failures, self.held = None, 0, ""

    def _finished(self, record: Record) -> None:
        if self.order.get("once"):
            self.order = {**self.order, "to": None}

    def _started(self, record: Record) -> None:
        self.step, self.sent, self.total, self.rate = record["step"], 0, record["bytes"], None

    def _progress(self, record: Record) -> None:
        self.sent, self.total, self.rate = record["done"], record["total"], record["rate"]

    def _pointed(self, record: Record) -> None:
        self.pointer, self.pointed_t = record["step"], record["t"]

    def _step_done(self, record: Record) -> None:
        self.step, self.rate = None, record["rate"]
        self.done[record["step"]] = record["set_t"]
        for step in sorted(self.done)[:-_STEPS_KEPT]:
            del self.done[step]
        self.uploads += 1
        self.failed, self.failures, self.held = None, 0, record.get("held") or ""
        if record.get("pointed") and self.pointer != record["step"]:
            self.pointer, self.pointed_t = record["step"], record["t"]

    def _pruned(self, record: Record) -> None:
        self.removed = [*self.removed, *record["steps"]][-_STEPS_KEPT:]
        for step in record["steps"]:
            self.done.pop(step, None)

    def _others(self, record: Record) -> None:
        self.logs.update(record["names"])

    def _failed(self, record: Record) -> None:
        self.step, self.failed, self.failures = None, record, self.failures + 1
