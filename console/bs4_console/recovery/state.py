"""The state that all controllers of a run share: where the run is, what is being done, and what it
has cost.

It is one document beside the run's checkpoints (`recovery.json`), written only by the holder of the
lease, before each action. Every change is first written to this machine's own journal, which is
hash-chained like a pod's.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from bs4_common.checkpoints.remote.errors import StoreDamaged
from bs4_common.checkpoints.remote.layout import Layout
from bs4_common.checkpoints.remote.store import Entry, Store
from bs4_common.foreign_json import finite, loads
from bs4_common.journal import Journal
from bs4_common.ledger import JournalRecord
from bs4_common.streams.segments import SegmentStream
from bs4_console.errors import ConsoleError
from bs4_console.locations import private
from bs4_console.pods.carried_orders import Order

SCHEMA = "bs4.recovery/1"
MOST = 256 * 1024
#: The outcome of a recovery after which the run made steps. Any other outcome is a sentence.
GOOD = "good"
JOURNAL_BYTES, SEGMENT_BYTES = 64 << 20, 4 << 20

#: watching: no recovery is under way. renting: a machine with the attempt's label may exist.
#: setting-up, restoring, launching: work on that machine is under way. proving: the run is started
#: and a new step is awaited. stopped: the controller has given up and a person has to decide.
#: finishing: the run is done and its machine is to be ended. finished: its machine was ended.
Phase = Literal[
    "watching",
    "renting",
    "setting-up",
    "restoring",
    "launching",
    "proving",
    "stopped",
    "finishing",
    "finished",
]
#: What a controller decides about a rented machine: to recover the run on it, or to end it.
Decision = Literal["recovery", "end"]
#: The phases in which a recovery is under way.
WORKING: tuple[Phase, ...] = ("renting", "setting-up", "restoring", "launching", "proving")


@dataclass(frozen=True, kw_only=True)
class Where:
    """The machine on which a run is. `pod` is the name of its pod in the inventory, the console's
    list of pods. `provider` and `instance` are the provider's name and its id for the machine.
    `made` is True if a recovery controller or the command `provision create` has rented the machine
    under `label`, so that a controller may end it. `price` is in US dollars an hour, or None if
    unknown.
    """

    pod: str
    provider: str = ""
    instance: str = ""
    label: str = ""
    made: bool = False
    price: float | None = None
    step: int | None = None
    """The newest training step that was seen on this machine when it was lost, or None."""
    host: str = ""
    port: int | None = None
    user: str = ""
    host_key: str = ""
    """The machine's SSH host key as `type base64`, as it was confirmed at the first connection, or
    "". It is saved here because the next controller may run on a machine that knows no host keys.
    """

    def __str__(self) -> str:
        if self.instance:
            return f"{self.pod} ({self.provider} {self.instance})"
        return self.pod


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt to recover a run on a new machine, which is rented from `provider` under the name
    `label`. (Elsewhere, an attempt is one life of a run's processes.) The run resumes from the
    training step `step_before`. `step_after` is the newest training step that was done after that,
    or None while there is none. `t` is the time of the rent as Unix time in seconds, and `price` is
    in US dollars an hour.
    """

    label: str
    t: float
    provider: str
    price: float
    step_before: int
    step_after: int | None = None
    outcome: str = ""
    """"" while the recovery goes on, then "good" or a sentence that says why it failed."""
    ended_t: float | None = None
    """The Unix time in seconds at which a recovery controller (a console that moves runs to new
    machines) ended the rented machine. None if none has ended it.
    """
    instance: str = ""
    """The provider's id of its machine, or "" while none was made."""


@dataclass(frozen=True, kw_only=True)
class State:
    """What the recovery controller knows of one run. All controllers share this through the object
    store. `where` is the run's machine, and `phase` says what the controller does now, such as
    "watching" or "renting", since the Unix time `since_t`. `before` is the lost machine while a
    recovery is under way, else None. `attempts` are the recoveries so far. `left` are machines that
    were rented earlier and may still exist. `step` is the newest training step that is known to be
    done, or None.
    """

    run: str
    where: Where
    phase: Phase = "watching"
    since_t: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    before: Where | None = None
    left: tuple[Where, ...] = ()
    step: int | None = None
    plan_hash: str = ""
    """The hash of the plan by which the newest recovery was begun, or ""."""
    why: str = ""
    """Why the last recovery has failed, or which standing orders the new pod has refused, or ""."""
    orders: tuple[Order, ...] = ()
    """The run's standing orders on its pod: what a person wants done for it until further notice. A
    new machine gets the same orders.
    """
    named: str = ""
    """The pod that recover.toml named for the run when a controller acted last."""
    done: bool = False
    """True if a poll found that the run had ended well, and no later poll found it running."""
    told: bool = False
    """True once the provider was ordered to end the machine of a finished run, so that its silence
    is no reason to doubt.
    """

    @property
    def attempt(self) -> Attempt:
        """Return the newest recovery of the run. Raises IndexError if there was none."""
        return self.attempts[-1]

    def idle(self) -> int:
        """Return how many recoveries in a row, up to the last one, have ended without a new
        training step of the run. A recovery that is still under way is not counted.
        """
        count = 0
        for attempt in self.attempts:
            if attempt.outcome == GOOD:
                count = 0
            elif attempt.outcome:
                count += 1
        return count

    def spent(self, since_t: float, now_t: float) -> float:
        """Return how many US dollars the machines of all recoveries have cost between `since_t` and
        `now_t` (Unix times in seconds), at the price at which each was rented.
        """
        return sum(
            a.price * max(0.0, (a.ended_t or now_t) - max(a.t, since_t)) / 3600.0
            for a in self.attempts
            if a.instance
        )

    def rented_on(self, where: Where) -> int | None:
        """Return the index in `attempts` of the recovery that rented the machine `where`, or None
        if no recovery did.
        """
        for n, a in enumerate(self.attempts):
            if a.instance and (a.provider, a.instance) == (where.provider, where.instance):
                return n
        return None

    def ended(self, where: Where, t: float) -> State:
        """Return a copy of the state which records that the machine `where` costs nothing any more
        from `t` on, a Unix time in seconds. Return the state unchanged if no recovery has rented
        the machine, or if an end of it is recorded already.
        """
        number = self.rented_on(where)
        if number is None or self.attempts[number].ended_t is not None:
            return self
        attempts = list(self.attempts)
        attempts[number] = replace(attempts[number], ended_t=t)
        return replace(self, attempts=tuple(attempts))

    def with_attempt(self, **changes: Any) -> State:
        """Return a copy of the state in which fields of the newest recovery are replaced. `changes`
        has the new values by the names of fields of Attempt.
        """
        return replace(self, attempts=(*self.attempts[:-1], replace(self.attempts[-1], **changes)))

    def encode(self, after: str | None = None) -> bytes:
        """Return the state as the JSON bytes (the document) that are saved in the object store.
        `after` is the id of the version of the document that this one replaces, or "" if it is the
        first. With None, the document names no earlier version, as older consoles wrote it.
        """
        return json.dumps(
            {"schema": SCHEMA, "after": after, **asdict(self)}, ensure_ascii=False
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> State:
        """Return the state in `data`, bytes that `encode` has made. Raises StoreDamaged if they are
        something else.
        """
        try:
            raw = loads(data)
            if raw.pop("schema") != SCHEMA or raw["phase"] not in get_args(Phase):
                raise ValueError("another schema")
            raw.pop("after", None)
            before = raw.pop("before")
            where = _machine(raw.pop("where"))
            attempts = tuple(_row(Attempt, row) for row in raw.pop("attempts"))
            if raw["phase"] in WORKING and not attempts:
                raise ValueError(f"{raw['phase']} without a recovery")
            if any(attempt.price < 0 for attempt in attempts):
                raise ValueError("a price below 0")
            left = tuple(_machine(row) for row in raw.pop("left"))
            rows: Any = [_order(row) for row in raw.pop("orders", ())]
            return _row(
                cls,
                raw,
                where=where,
                before=None if before is None else _machine(before),
                attempts=attempts,
                left=left,
                orders=tuple(rows),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StoreDamaged(
                f"recovery.json cannot be read ({type(error).__name__}: {str(error)[:120]}); "
                "look at its older versions."
            ) from error


Row = TypeVar("Row")


def _row(kind: type[Row], row: object, **more: Any) -> Row:
    """Return a JSON object as the dataclass `kind`; `more` are further fields, which are checked
    already. Raises TypeError for a field that `kind` does not have, and ValueError for a value of
    another type: whoever may write to the object store can write anything there.
    """
    if not isinstance(row, dict):
        raise TypeError(f"{kind.__name__} is no object")
    hints = get_type_hints(kind)
    for name, value in row.items():
        if not _fits(value, hints.get(name)):
            raise ValueError(f"{name[:40]} is {str(value)[:40]!r}")
    return kind(**row, **more)


def _machine(row: object) -> Where:
    """Return a machine. Raises ValueError or TypeError if it is none, or if it was rented at no
    provider.
    """
    where = _row(Where, row)
    if where.made and not (where.provider and where.instance):
        raise ValueError(f"{where.pod[:40]} was rented, and its provider or id is not there")
    if where.price is not None and where.price < 0:
        raise ValueError("a price below 0")
    return where


def _fits(value: object, hint: Any) -> bool:
    """Return True if a JSON value is of the type of a field."""
    if options := get_args(hint):
        return any(value == one if isinstance(one, str) else _fits(value, one) for one in options)
    if hint in (int, float):
        return finite(value) is not None and isinstance(value, int | hint)
    return isinstance(hint, type) and isinstance(value, hint)


def _order(row: object) -> object:
    """Return a standing order. Raises ValueError, KeyError or TypeError if it is none."""
    if not isinstance(row, dict):
        raise TypeError("an order is no object")
    words = row.get("overrides", [])
    if row["kind"] not in ("sync", "keep", "mode", "launch") or not isinstance(words, list):
        raise ValueError("an order of another kind")
    if row["kind"] == "launch" and "overrides" not in row:
        raise ValueError("a launch without its arguments")
    for value in (*words, *(value for name, value in row.items() if name != "overrides")):
        if not isinstance(value, str | bool | None) and finite(value) is None:
            raise ValueError("an order that is none")
    if not all(isinstance(word, str) for word in words):
        raise ValueError("an argument that is no text")
    return row


def sound_orders(orders: Sequence[Order]) -> tuple[Order, ...]:
    """Return those of `orders`, a run's standing orders as its pod tells them, that can be saved in
    the state and read again. A pod may tell anything.
    """
    found: list[Any] = []
    for order in orders:
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            found.append(_order(loads(json.dumps(order))))
    return tuple(found)


@dataclass(kw_only=True)
class Records:
    """The saved state of one run: a JSON document in the object store that all controllers share,
    and a journal (a log of what the controller did) on this machine.

    The object store cannot refuse a write that is based on an old version, and a controller that
    slept during a write may finish it much later. So each version of the document names the version
    that it replaces. If several replace the same one, only the first counts, for every controller.

    `place` is the address of the document, bucket and all: a run's name may be used again with
    another one. `wall` returns the present Unix time in seconds.
    """

    store: Store
    layout: Layout
    directory: Path
    place: str = ""
    wall: Callable[[], float] = time.time
    _journal: Journal | None = field(default=None, repr=False)
    _step: int | None = field(default=None, repr=False)
    _version: str = field(default="", repr=False)
    """The version of the document that was read or written last."""

    @property
    def journal(self) -> Journal:
        """Return this machine's journal of the run's recovery. It is opened, or created, at the
        first use.
        """
        if self._journal is None:
            private(self.directory)
            self._journal = Journal(
                SegmentStream(self.directory / "journal", JOURNAL_BYTES, SEGMENT_BYTES)
            )
        return self._journal

    def close(self) -> None:
        """Close this machine's journal of the run. It opens again by itself when it is used."""
        if self._journal is not None:
            self._journal.stream.close()
            self._journal = None

    def load(self) -> State | None:
        """Return the state of the run that the last controller has saved in the object store, or
        None if no controller has saved one yet. Raises ConsoleError if the saved document is about
        another run.
        """
        self._version, state = self._head()
        if state is not None and state.run != self.layout.run:
            raise ConsoleError(
                f"{self.layout.recovery} is of the run {state.run!r}.",
                "Give every run its own prefix or name.",
            )
        return state

    def save(self, state: State) -> bool:
        """Write the state to this machine's journal and then to the object store, as the successor
        of the version that was read or written here last. Return True if that succeeded. Return
        False if another controller has written a successor first; the state that was just written
        then has no effect. Raises a StoreError if the object store fails or refuses the call.
        """
        now = self.wall()
        self.note(
            "state",
            phase=state.phase,
            state=json.loads(state.encode()),
            place=self.place,
            wall=now,
        )
        self._paid.learn(state, now)
        data = state.encode(self._version)
        self.store.write(self.layout.recovery, data)
        version, there = self._head()
        # The contents are compared, because a write whose answer was lost is repeated, and the
        # document then exists twice.
        if there is None or there.encode(self._version) != data:
            return False
        self._version = version
        return True

    def unchanged(self) -> bool:
        """Return True if the state in the object store is still the version that was last read or
        written here, so that no other controller has changed it.
        """
        return self._head()[0] == self._version

    def _head(self) -> tuple[str, State | None]:
        """Return the version that counts and its state, or ("", None) if there is no document."""
        rows = self.store.versions(self.layout.recovery)
        known: dict[str, bytes] = {}

        def document(row: Entry) -> bytes:
            if row.version not in known:
                known[row.version] = self.store.content(row, MOST)
            return known[row.version]

        for number, row in enumerate(rows):
            after = _followed(document(row))
            between = takewhile(
                lambda other, after=after: other.version != after,  # type: ignore[misc]
                rows[number + 1 :],
            )
            if after is None or all(
                _followed(document(other)) not in (after, None) for other in between
            ):
                return row.version, State.decode(document(row))
        return "", None

    def note(self, event: str, **fields: Any) -> None:
        """Append an event, with the given fields, to this machine's journal of the run. It is on
        the disk when this returns.
        """
        self.journal.append("recovery", sync=True, run=self.layout.run, event=event, **fields)

    def leases(self) -> list[str]:
        """Return the ids of the last 200 versions of the file of the lease, the right to act for
        the run (see Lease), that this machine has written, oldest first. By them a controller that
        was restarted recognises its own lease. The list is empty if there are none.
        """
        return [str(row["version"]) for row in self._noted("lease")[-200:]]

    def decide(self, what: Decision, label: str, plan: str = "") -> None:
        """Append to this machine's journal that a controller here has decided `what` about the
        machine that is rented under `label`. `plan` is a hash of what a person has confirmed for
        it, or "".
        """
        if not self.decided(what, label, plan):
            self.note("decided", what=what, label=label, plan_hash=plan, place=self.place)

    def decided(self, what: Decision, label: str, plan: str = "") -> bool:
        """Return True if `decide` was called on this machine with the same arguments. What the
        shared document says does not count: it lies where every pod with a key for the store can
        write.
        """
        wanted = (what, label, plan, self.place)
        return any(_decision(row) == wanted for row in self._noted("decided"))

    def last_step(self) -> int | None:
        """Return the newest training step of the run that a controller on this machine has seen, or
        None if it has seen none.
        """
        if self._step is None:
            self._step = max((int(row["step"]) for row in self._noted("step")), default=None)
        return self._step

    def paid(self, attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
        """Return the run's recoveries (one `Attempt` each) from which its spending is computed.
        `attempts` are those in the shared document. That document lies where every pod with a key
        for the store can write, so a budget must not depend on it alone.

        This machine's own journal therefore corrects them. A recovery whose rented machine is noted
        there is in the result even if the document lacks it. It has the data that were noted first,
        and the higher of the two prices. If the journal has no end for it, the document's end
        counts. An end is never earlier than the last note that the machine was in use.
        """
        found = {a.label: a for a in attempts}
        for label, mine in self._paid.first.items():
            theirs = found.get(label, mine)
            ended_t = mine.ended_t if mine.ended_t is not None else theirs.ended_t
            if ended_t is not None:
                ended_t = max(ended_t, self._paid.used_t.get(label, ended_t))
            found[label] = replace(mine, price=max(mine.price, theirs.price), ended_t=ended_t)
        return tuple(found.values())

    @functools.cached_property
    def _paid(self) -> _Paid:
        """Return the recoveries of which this machine has noted a rented machine. A record of an
        older console does not say of which document it is, and counts for each.
        """
        found = _Paid()
        for record in self._noted("state"):
            if record.get("place", self.place) != self.place:
                continue
            with contextlib.suppress(StoreDamaged):
                state = State.decode(json.dumps(record.get("state")).encode())
                found.learn(state, finite(record.get("wall")))
        return found

    def note_step(self, step: int) -> None:
        """Append the training step `step` to this machine's journal if it is newer than every step
        that was appended before. If it is not, do nothing.
        """
        if step > (-1 if (last := self.last_step()) is None else last):
            self.note("step", step=step)
            self._step = step

    def _noted(self, event: str) -> list[JournalRecord]:
        wanted = ("recovery", event)
        found = []
        for r in self.journal.records():
            if (r.get("type"), r.get("event")) == wanted:
                found.append(r)
        return found


def _decision(record: JournalRecord) -> tuple[object, ...]:
    """Return the arguments of the `decide` that has made the record, and the document's place."""
    return tuple(record.get(name) for name in ("what", "label", "plan_hash", "place"))


@dataclass
class _Paid:
    """The recoveries, by label, for which a machine was rented, as this machine has noted them."""

    first: dict[str, Attempt] = field(default_factory=dict)
    """As noted first, with the end that was noted first."""
    used_t: dict[str, float] = field(default_factory=dict)
    """The Unix time in seconds at which the machine was last noted without an end."""

    def learn(self, state: State, t: float | None) -> None:
        """Take up a state that was noted at `t`, a Unix time in seconds, or None if unknown."""
        for attempt in state.attempts:
            if not attempt.instance:
                continue
            known = self.first.setdefault(attempt.label, attempt)
            if known.ended_t is None:
                self.first[attempt.label] = replace(known, ended_t=attempt.ended_t)
            if t is not None and attempt.ended_t is None:
                self.used_t[attempt.label] = max(t, self.used_t.get(attempt.label, t))


def _followed(data: bytes) -> str | None:
    """Return the version that a document follows, with the meaning of `after` in State.encode.
    Raises StoreDamaged if the bytes are not a document.
    """
    State.decode(data)
    after = loads(data).get("after")
    return after if isinstance(after, str) else None
