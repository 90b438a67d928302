"""What the controllers of a run know together: where it is, what is being done, what it has cost.

One document beside the run's checkpoints (`recovery.json`), written only by the holder of the
lease, before each act. Every change is also in this machine's own journal, first: hash-chained,
like a pod's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, get_args

from bs4_agent.checkpoints.remote.errors import StoreDamaged
from bs4_agent.checkpoints.remote.layout import Layout
from bs4_agent.checkpoints.remote.store import Entry, Store
from bs4_agent.journal import Journal
from bs4_agent.streams.segments import SegmentStream
from bs4_console.errors import ConsoleError
from bs4_console.locations import private

SCHEMA = "bs4.recovery/1"
MOST = 256 * 1024
#: The outcome of a recovery after which the run made steps; any other is a sentence.
GOOD = "good"
JOURNAL_BYTES, SEGMENT_BYTES = 64 << 20, 4 << 20

#: watching: nothing is under way. renting: a machine with this label may exist. setting-up,
#: restoring, launching: on that machine. proving: until a new step is done. stopped: given up, a
#: person has to look. finishing: the run is done, its machine is to end. finished.
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
#: In these a recovery is under way.
WORKING: tuple[Phase, ...] = ("renting", "setting-up", "restoring", "launching", "proving")


@dataclass(frozen=True, kw_only=True)
class Where:
    """The machine that the run is on. `made`: rented by a controller (or `provision create`) under
    `label`, so it may be ended by one. `price` in US dollars an hour.
    """

    pod: str
    provider: str = ""
    instance: str = ""
    label: str = ""
    made: bool = False
    price: float | None = None
    step: int | None = None
    """The newest step that was seen there when it was lost: what its disk holds beyond the store
    ends with it.
    """
    host: str = ""
    port: int | None = None
    user: str = ""
    host_key: str = ""
    """`type base64`, as it was confirmed when the machine was met: the next controller may be a
    fresh machine that knows nobody.
    """

    def __str__(self) -> str:
        if self.instance:
            return f"{self.pod} ({self.provider} {self.instance})"
        return self.pod


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One recovery. `step_before`: the step it starts from. `step_after`: the newest that was done
    afterwards, None while none was.
    """

    label: str
    t: float
    provider: str
    price: float
    step_before: int
    step_after: int | None = None
    outcome: str = ""
    """Empty while it goes on; "good", or a sentence why not."""
    ended_t: float | None = None
    """When its machine was ended, as far as it was ended by us."""
    instance: str = ""


@dataclass(frozen=True, kw_only=True)
class State:
    """All of one run. `before`: the machine that was lost, while a recovery from it is under way.
    `left`: earlier machines of ours that may still exist. `step`: the newest step that is known to
    be done.
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
    why: str = ""
    orders: tuple[Mapping[str, Any], ...] = ()
    """What was ordered for the run on its pod and stays in force (pods/carried_orders.py): the next
    machine is to be ordered the same.
    """
    named: str = ""
    """The run's pod in recover.toml, as whoever acted last had it there."""
    done: bool = False
    """A look found that the run had ended well, and none has found it going since."""
    told: bool = False
    """In "finishing": the machine was told to end, so that its silence means nothing any more."""

    @property
    def attempt(self) -> Attempt:
        return self.attempts[-1]

    def idle(self) -> int:
        """Recoveries in a row, up to the last that has ended, which brought no new step."""
        count = 0
        for attempt in reversed([a for a in self.attempts if a.outcome]):
            if attempt.outcome == GOOD:
                break
            count += 1
        return count

    def spent(self, since_t: float, now_t: float) -> float:
        """US dollars for machines of the recoveries between the two, by the price at which each was
        made.
        """
        return sum(
            a.price * max(0.0, (a.ended_t or now_t) - max(a.t, since_t)) / 3600.0
            for a in self.attempts
            if a.instance
        )

    def rented_on(self, where: Where) -> int | None:
        """The attempt whose machine this is, None for one that no controller rented."""
        for n, a in enumerate(self.attempts):
            if a.instance and (a.provider, a.instance) == (where.provider, where.instance):
                return n
        return None

    def ended(self, where: Where, t: float) -> State:
        """Its machine costs no more from `t` on."""
        number = self.rented_on(where)
        if number is None or self.attempts[number].ended_t is not None:
            return self
        attempts = list(self.attempts)
        attempts[number] = replace(attempts[number], ended_t=t)
        return replace(self, attempts=tuple(attempts))

    def with_attempt(self, **changes: Any) -> State:
        return replace(self, attempts=(*self.attempts[:-1], replace(self.attempts[-1], **changes)))

    def encode(self, after: str | None = None) -> bytes:
        """`after`: the version of the document that this one follows, "" for the first; None: as
        consoles wrote it that did not say.
        """
        return json.dumps(
            {"schema": SCHEMA, "after": after, **asdict(self)}, ensure_ascii=False
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> State:
        """StoreDamaged for anything that is none."""
        try:
            raw = json.loads(data)
            if raw.pop("schema") != SCHEMA or raw["phase"] not in get_args(Phase):
                raise ValueError("another schema")
            raw.pop("after", None)
            before = raw.pop("before")
            where = Where(**raw.pop("where"))
            attempts = tuple(Attempt(**row) for row in raw.pop("attempts"))
            left = tuple(Where(**row) for row in raw.pop("left"))
            orders = tuple(dict(row) for row in raw.pop("orders", ()))
            return cls(
                where=where,
                before=None if before is None else Where(**before),
                attempts=attempts,
                left=left,
                orders=orders,
                **raw,
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StoreDamaged(
                f"recovery.json cannot be read ({type(error).__name__}: {str(error)[:120]}); "
                "look at its older versions."
            ) from error


@dataclass
class Records:
    """The document and the journal of one run on this machine.

    The store has no compare-and-set, and whoever has slept in the middle of a write may end it long
    after another took over. So each version of the document names the one that it follows, and of
    several that follow the same one only the first counts, for everybody.
    """

    store: Store
    layout: Layout
    directory: Path
    _journal: Journal | None = field(default=None, repr=False)
    _step: int | None = field(default=None, repr=False)
    _version: str = field(default="", repr=False)
    """Of the document that was read or written last."""

    @property
    def journal(self) -> Journal:
        if self._journal is None:
            private(self.directory)
            self._journal = Journal(
                SegmentStream(self.directory / "journal", JOURNAL_BYTES, SEGMENT_BYTES)
            )
        return self._journal

    def load(self) -> State | None:
        """As the last holder left it; None before the first."""
        self._version, state = self._head()
        if state is not None and state.run != self.layout.run:
            raise ConsoleError(
                f"{self.layout.recovery} is of the run {state.run!r}.",
                "Give every run its own prefix or name.",
            )
        return state

    def save(self, state: State) -> bool:
        """On this disk first, then for all, to follow what was read last. False: another was first,
        and this counts for nobody.
        """
        self.note("state", phase=state.phase, state=json.loads(state.encode()))
        data = state.encode(self._version)
        self.store.write(self.layout.recovery, data)
        version, there = self._head()
        # By its content: a write whose answer was lost is made again, and then it is there twice.
        if there is None or there.encode(self._version) != data:
            return False
        self._version = version
        return True

    def unchanged(self) -> bool:
        """Whether nobody has written since."""
        return self._head()[0] == self._version

    def _head(self) -> tuple[str, State | None]:
        """The version that counts, and its document."""
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
        self.journal.append("recovery", sync=True, run=self.layout.run, event=event, **fields)

    def leases(self) -> list[str]:
        """Versions of lease.json that this machine wrote lately: a restarted controller goes on
        with them.
        """
        found = []
        for row in self._noted("lease")[-200:]:
            found.append(str(row["version"]))
        return found

    def last_step(self) -> int | None:
        """The newest step that this machine's looks have seen."""
        if self._step is None:
            self._step = max((int(row["step"]) for row in self._noted("step")), default=None)
        return self._step

    def note_step(self, step: int) -> None:
        """Once for each new one."""
        if step > (-1 if (last := self.last_step()) is None else last):
            self.note("step", step=step)
            self._step = step

    def _noted(self, event: str) -> list[dict[str, Any]]:
        found = []
        for r in self.journal.records():
            if r.get("type") == "recovery" and r.get("event") == event:
                found.append(r)
        return found


def _followed(data: bytes) -> str | None:
    """As `after` of State.encode. StoreDamaged for what is no document."""
    State.decode(data)
    after: str | None = json.loads(data).get("after")
    return after
