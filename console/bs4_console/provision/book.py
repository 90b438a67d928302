"""The local journal of machines that were rented or may have been rented. It is written to disk
before any money is spent, and folded into intents.

Each line is one event of one intent. An intent is written before its create is sent, so a crash
between the two leaves a label to search for.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

from bs4_common.ids import ulid
from bs4_console import files, locations
from bs4_console.errors import UsageError
from bs4_console.providers.base import Machine, Offer, OfferRow, Want, WantRow, label_of

#: open: the intent is written, and the result of its create is not known yet. doubt: the create
#: failed in a way that leaves its result unknown. made: the machine existed when it was last seen.
#: absent: the machine was surely never made. gone: the machine existed and no longer does.
IntentState = Literal["open", "doubt", "made", "absent", "gone"]
_NEXT: Mapping[str, IntentState] = {
    "doubt": "doubt",
    "made": "made",
    "adopted": "made",
    "refused": "absent",
    "absent": "absent",
    "gone": "gone",
}


class BookRecord(TypedDict, total=False):
    """One line of the journal of rented machines (see Book): an event of one attempt to rent a
    machine for the run `run`. `event` is "intent" (the attempt begins) or one of the events of
    `Book.note`, and `why` gives the reason for it. `offer` is what was to be rented, `want` what
    was searched for, `label` the name that the machine gets at the provider, and `who` the person.
    """

    t: float
    """The Unix time in seconds of the event."""
    event: str
    intent: str
    """The ULID (a unique id) of the attempt."""
    label: str
    run: str
    provider: str
    price: float
    """US dollars an hour."""
    offer: OfferRow
    want: WantRow
    who: str
    machine: str
    """The provider's id of the machine."""
    pod: str
    """The machine's name in the inventory, the console's list of pods."""
    why: str


@dataclass(kw_only=True)
class Intent:
    """One attempt of this console to rent one machine for the run `run`. It is written to the
    journal of rented machines (see Book) before the request is sent. `ulid` is its unique id.
    `state` is "open" (nothing is known yet), "doubt" (the machine may exist), "made", "absent" (it
    was never made) or "gone" (it no longer exists), and `why` the reason for it. `label` is the
    name that the machine gets at the provider. `machine` is the provider's id for the machine, and
    `pod` its name in the inventory, the console's list of pods; each is None if there is none.
    `offer` is the provider's offer that was taken, and `who` the person who rents. The attempt
    began at `t`, the machine was made at `made_t` and was gone at `gone_t`, all Unix times in
    seconds.
    """

    ulid: str
    label: str
    run: str
    provider: str
    price: float
    """The offered price in US dollars an hour."""
    t: float
    who: str
    state: IntentState = "open"
    machine: str | None = None
    made_t: float | None = None
    gone_t: float | None = None
    pod: str | None = None
    why: str = ""
    offer: OfferRow = field(default_factory=dict, repr=False)

    def cost(self, now_t: float, since_t: float = 0.0) -> float:
        """Return what the machine has cost in US dollars from `since_t` to `now_t`, Unix times in
        seconds. Return 0 if no machine was made. Time in which the machine was stopped or taken
        back by the provider counts in full, so that the estimate is never too low.
        """
        if self.state == "absent":
            return 0.0
        begin = max(self.made_t or self.t, since_t)
        return max(0.0, (self.gone_t or now_t) - begin) / 3600 * self.price


class Book:
    """A file on this machine, the journal of the machines that this console has rented. Each
    attempt to rent one is an Intent. Several processes may write the journal: each event is
    appended under a lock and is on the disk when the call returns.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or locations.data_dir() / "provision.ndjson"

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from writing to the journal of rented machines for the length of the
        `with` block, so that a caller can read the attempts to rent a machine and add one without
        another process in between.
        """
        with files.exclusive(self.path):
            yield

    @contextlib.contextmanager
    def renting(self, run: str) -> Iterator[bool]:
        """Yield True if no other process on this machine is renting for `run`, and keep others from
        it for the length of the `with` block. Yield False, without waiting, if another process is
        renting for it.

        Inside a block that got True, any attempt to rent for the run whose result is missing in the
        journal of rented machines was begun by a process that has died.
        """
        name = hashlib.sha256(run.encode()).hexdigest()[:16]
        path = locations.private(self.path.parent) / f".provision-{name}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)

    def intend(self, run: str, offer: Offer, want: Want, who: str, key: str = "") -> Intent:
        """Write a new attempt to rent `offer` for `run` to the journal and return it; it is on the
        disk when this returns. Nothing is rented here. `want` describes the machine that was
        searched for, and `who` is the name of the person who rents. `key` becomes the attempt's
        ULID (a unique id); "" makes a new one. Call this inside a `with` block of `alone`.
        """
        key = key or ulid()
        intent = Intent(
            ulid=key,
            label=label_of(run, key),
            run=run,
            provider=offer.provider,
            price=offer.price,
            t=time.time(),
            who=who,
            offer=offer.as_dict(),
        )
        self._append(
            {
                "t": intent.t,
                "event": "intent",
                "intent": key,
                "label": intent.label,
                "run": run,
                "provider": offer.provider,
                "price": offer.price,
                "offer": intent.offer,
                "want": want.as_dict(),
                "who": who,
            }
        )
        return intent

    def note(self, intent: Intent, event: str, **fields: Any) -> None:
        """Append an event of `intent`, an attempt to rent a machine, to the journal of rented
        machines, and update `intent` to match. `event` is doubt (the machine may exist), made,
        adopted (a machine with its label was found), refused, absent, pod (the machine got a name
        in the inventory of pods), terminating or gone. `fields` are stored with the event. Raises
        OSError if the journal cannot be written.
        """
        record: BookRecord = {"t": time.time(), "event": event, "intent": intent.ulid}
        record.update(cast(BookRecord, fields))
        with self.alone():
            self._append(record)
        _apply(intent, record)

    def ended(self, machine: Machine) -> None:
        """Record in the journal that a machine no longer exists, whoever has ended it. If no
        attempt in this journal has rented the machine, do nothing. Raises UsageError if the journal
        is damaged.
        """
        for intent in self.intents():
            if (
                intent.provider == machine.provider
                and machine.id == intent.machine
                and intent.state != "gone"
            ):
                self.note(intent, "gone")

    def intents(self) -> list[Intent]:
        """Return every attempt to rent a machine, with its present state, oldest first. Raises
        UsageError, which names the line, if the journal of rented machines is damaged.
        """
        found: dict[str, Intent] = {}
        for number, record in enumerate(self._records(), 1):
            try:
                key = str(record["intent"])
                if record["event"] == "intent":
                    found[key] = Intent(
                        ulid=key,
                        label=record["label"],
                        run=record["run"],
                        provider=record["provider"],
                        price=float(record["price"]),
                        t=float(record["t"]),
                        who=record["who"],
                        offer=record.get("offer") or {},
                    )
                else:
                    _apply(found[key], record)
            except (KeyError, TypeError, ValueError):
                raise UsageError(
                    f"{self.path} line {number} is not understood.",
                    "Keep a copy of the file, then remove that line.",
                ) from None
        return list(found.values())

    def of_run(self, run: str) -> list[Intent]:
        """Return the attempts to rent a machine for one run, oldest first. The list is empty if
        nothing was rented for it by this console. Raises UsageError if the journal is damaged.
        """
        return [intent for intent in self.intents() if intent.run == run]

    def of_label(self, label: str) -> Intent | None:
        """Return the attempt to rent a machine with this label, or None if the journal of rented
        machines has none. Raises UsageError if the journal is damaged.
        """
        return next((intent for intent in self.intents() if intent.label == label), None)

    def by_machine(self, machine: Machine) -> Intent | None:
        """Return the attempt by which a machine was rented, found by the machine's exact label or
        by its provider and id. Return None if this journal has no such attempt. Raises UsageError
        if the journal is damaged.
        """
        for intent in self.intents():
            same = intent.provider == machine.provider and intent.machine == machine.id
            if same or (machine.label is not None and intent.label == machine.label):
                return intent
        return None

    def spent(
        self, now_t: float | None = None, *, run: str | None = None, since_t: float = 0.0
    ) -> float:
        """Return the US dollars that the machines in this journal of rented machines have cost
        between `since_t` and `now_t`: those of `run`, or of all runs if `run` is None. A machine of
        which it is unclear whether it was made counts as if it was. Both times are Unix times in
        seconds; None for `now_t` means now. Raises UsageError if the journal is damaged.
        """
        now = time.time() if now_t is None else now_t
        intents = self.intents() if run is None else self.of_run(run)
        return sum(intent.cost(now, since_t) for intent in intents)

    def _records(self) -> Iterator[BookRecord]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        lines = data.split(b"\n")
        # A last line without its line end was being written when the console died. Nothing was done
        # because of it.
        for number, line in enumerate(lines[:-1], 1):
            try:
                record = json.loads(line)
            except ValueError:
                if not line.strip() or line.endswith(_TORN):
                    continue
                raise UsageError(
                    f"{self.path} line {number} is no JSON.",
                    "Keep a copy of the file, then remove that line.",
                ) from None
            yield record

    def _append(self, record: BookRecord) -> None:
        locations.private(self.path.parent)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            line = (
                (_TORN + b"\n" if torn else b"")
                + json.dumps(record, ensure_ascii=False).encode()
                + b"\n"
            )
            if os.write(descriptor, line) != len(line):
                raise OSError(28, "No space left on device", str(self.path))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if torn or size == 0:
            directory = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)


#: Written behind half a line, so that every later reader knows it as half a line.
_TORN = b" #torn"


def _apply(intent: Intent, record: BookRecord) -> None:
    event = str(record["event"])
    intent.state = _NEXT.get(event, intent.state)
    intent.machine = record.get("machine", intent.machine)
    intent.pod = record.get("pod", intent.pod)
    intent.why = str(record.get("why", intent.why))
    if intent.state == "made" and intent.made_t is None:
        intent.made_t = float(record["t"])
    if event == "gone":
        intent.gone_t = float(record["t"])
