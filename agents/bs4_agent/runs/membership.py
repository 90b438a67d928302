"""Who belongs to a run, proved by descent and remembered, so that the proof outlives the shim, the
launcher and the agent.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bs4_agent.clock import stamp
from bs4_agent.credentials.exposed import Exposed, exposures
from bs4_agent.identity import Identity, stat_fields
from bs4_agent.runs.files import read_passing, write_json
from bs4_agent.runs.model import Member
from bs4_agent.telemetry.processes import Proc, Snapshot

#: Ended members kept per attempt, newest last, for "was there ever an engine"; environments that
#: fork by the thousand must not fill memory.
_PAST = 256
#: members.json is written at most this often, and only after a change.
_SAVE_S = 1.0
#: Several questions of one look share one pass over the members. Whoever acts compares the identity
#: again at that very moment.
_FRESH_S = 0.2
#: Of a command line, what is kept: enough for a title and a person, without 30 kB of JSON arguments
#: per process.
_WORDS, _WORD = 16, 256

#: Who of a container was started for an attempt: see inside.py.
INSIDE = "inside.json"

Component = Callable[[Sequence[str], str], "str | None"]


@dataclass(frozen=True)
class Known:
    """A member that lived when it was last looked at."""

    identity: Identity
    cmdline: Sequence[str]
    comm: str
    component: str | None
    state: str
    exposed: Sequence[Exposed] = ()
    """What it ever showed: a program that blanks its title has shown it all the same."""


class AttemptMembers:
    """The members of one attempt. `root`: the shim, which is no member, or, of an adopted run, the
    process that was found, which is one.
    """

    def __init__(
        self,
        directory: Path,
        number: int,
        root: Identity | None,
        component: Component,
        *,
        adopted: bool,
    ) -> None:
        self.directory = directory
        self.number = number
        self.root = root
        self.adopted = adopted
        self.alive: dict[Identity, Known] = {}
        self.past: dict[Identity, Known] = {}
        self._component = component
        self._changed = self._inside = False
        self._saved_m = self._refreshed_m = float("-inf")
        self.recall()

    @property
    def proof(self) -> str:
        if self.adopted or self._inside:
            return "observed"
        return "descent"

    def observe(self, snapshot: Snapshot, ours: Collection[Identity] = ()) -> None:
        """Take in what now descends from the root or from anyone already known. `ours`: this agent
        itself, which is never a member.
        """
        roots = [*self.alive, *([self.root] if self.root is not None else [])]
        found = {
            proc.identity: proc
            for proc in snapshot.descendants_of(roots)
            if proc.identity not in ours
        }
        for identity in [
            *self.alive,
            *([self.root] if self.adopted and self.root is not None else []),
        ]:
            if (proc := snapshot.find(identity)) is not None:
                found[identity] = proc
        for identity, proc in found.items():
            if not proc.ended:
                self._remember(identity, proc)
        for identity in [one for one in self.alive if one not in found or found[one].ended]:
            self._bury(identity)
        self.save()

    def members(self) -> list[Member]:
        """Ended ones first, then the living, each in the order in which they were first seen."""
        past = []
        for known in self.past.values():
            past.append(self._member(known, alive=False))
        return past + [self._member(known, alive=True) for known in self.alive.values()]

    def refresh(self) -> None:
        """Bury who has ended since the last snapshot; what is known is at most 0.2 s old then."""
        now = time.monotonic()
        if now - self._refreshed_m < _FRESH_S:
            return
        self._refreshed_m = now
        for identity in [one for one in self.alive if not one.alive()]:
            self._bury(identity)

    def _member(self, known: Known, *, alive: bool) -> Member:
        return Member(
            identity=known.identity,
            component=known.component,
            cmdline=known.cmdline,
            alive=alive,
            proof=self.proof,
            attempt=self.number,
            state=known.state,
            exposed=known.exposed,
        )

    def _remember(self, identity: Identity, proc: Proc) -> None:
        before = self.alive.get(identity)
        cmdline = _short(proc.cmdline)
        if before is not None and before.cmdline == cmdline and before.comm == proc.comm:
            if before.state != proc.state:
                self.alive[identity] = replace(before, state=proc.state)
            return
        # A process that blanks its title keeps the name it was known by: setproctitle's first step
        # is an empty command line.
        component = self._component(cmdline, proc.comm) or (
            before.component if before is not None else None
        )
        exposed = exposures(proc.cmdline)
        if before is not None:
            exposed = list(dict.fromkeys([*before.exposed, *exposed]))
        self.alive[identity] = Known(identity, cmdline, proc.comm, component, proc.state, exposed)
        self._changed = True

    def _bury(self, identity: Identity) -> None:
        self.past[identity] = self.alive.pop(identity)
        while len(self.past) > _PAST:
            del self.past[self._forgettable()]
        self._changed = True

    def _forgettable(self) -> Identity:
        """Return whom of the ended to forget first: the oldest that is no component of the trainer.

        A run that starts a program for each rollout must not lose the record of its engine.
        """
        nameless = (identity for identity, known in self.past.items() if known.component is None)
        return next(nameless, next(iter(self.past)))

    def save(self, *, at_once: bool = False) -> None:
        """Write members.json when something changed, and not within a second of the last time
        unless `at_once`.
        """
        now = time.monotonic()
        if not self._changed or (now - self._saved_m < _SAVE_S and not at_once):
            return
        members = []
        for group, alive in ((self.past, False), (self.alive, True)):
            for known in group.values():
                members.append({**_as_dict(known), "alive": alive})
        # Not durable: after a power cut nobody of them lives, and an fsync a second would cost the
        # run's own disk.
        write_json(self.directory / "members.json", {"members": members, **stamp()}, durable=False)
        self._changed, self._saved_m = False, now

    def recall(self) -> None:
        """Learn from disk: what this agent's predecessors saw, what the shim itself saw while there
        was no agent, and which process of a container was found to be the attempt's own.
        """
        self._inside = self._inside or (self.directory / INSIDE).exists()
        for name in ("members.json", "descendants.json", INSIDE):
            for entry in (read_passing(self.directory / name) or {"members": []})["members"]:
                known = _from_dict(entry, self._component)
                if known.identity in self.alive:
                    continue
                if known.identity.alive():
                    self.alive[known.identity] = known
                    self._changed = True
                elif len(self.past) < _PAST:
                    self.past[known.identity] = known


class Membership:
    """All runs' members. Thread-safe.

    Processes are only ever added by descent: a stranger with the same command line, title, session
    or environment has no way in.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._attempts: dict[str, dict[int, AttemptMembers]] = {}
        self._ended: set[tuple[str, int]] = set()
        self._self = _own_chain()

    def track(self, run: str, attempt: AttemptMembers) -> None:
        """Watch one attempt from now on."""
        with self._lock:
            self._attempts.setdefault(run, {}).setdefault(attempt.number, attempt)

    def end(self, run: str, attempt: int) -> None:
        """From now on the living of this attempt are leftovers, for our successors too: they must
        not depend on a second's luck.
        """
        with self._lock:
            self._ended.add((run, attempt))
            self._attempts[run][attempt].save(at_once=True)

    def recall(self, run: str, attempt: int) -> None:
        """Read again what the shim wrote down."""
        with self._lock:
            self._attempts[run][attempt].recall()

    def observe(self, snapshot: Snapshot) -> None:
        with self._lock:
            for run, attempts in self._attempts.items():
                for number, attempt in attempts.items():
                    if attempt.alive or (run, number) not in self._ended:
                        attempt.observe(snapshot, self._self)

    def members(self, run: str, attempt: int | None = None) -> list[Member]:
        """Of one attempt, or of the whole run: every attempt's living, and the newest one's ended
        too.
        """
        with self._lock:
            attempts = self._attempts.get(run, {})
            for one in attempts.values():
                one.refresh()
            if attempt is not None:
                if attempt in attempts:
                    return attempts[attempt].members()
                return []
            newest = max(attempts, default=0)
            rows = []
            for number in sorted(attempts):
                for m in attempts[number].members():
                    if m.alive or number == newest:
                        rows.append(m)
            return rows

    def living(self, run: str) -> list[Member]:
        rows = []
        for member in self.members(run):
            if member.alive:
                rows.append(member)
        return rows

    def knows(self, identity: Identity) -> bool:
        """Whether this process belongs or belonged to any attempt, as member or as the root of an
        adopted one.
        """
        with self._lock:
            attempts = []
            for of_run in self._attempts.values():
                for attempt in of_run.values():
                    attempts.append(attempt)
            for a in attempts:
                if identity in a.alive or identity in a.past or (a.adopted and identity == a.root):
                    return True
            return False

    def owner_of(self, identity: Identity) -> tuple[str, str | None] | None:
        """(run, component) of a process of an attempt that has not ended."""
        return self._find(identity, ended=False)

    def dead_run_holder(self, identity: Identity) -> tuple[str, str | None] | None:
        """(run, component) of a process that provably belonged to an attempt of ours that *has*
        ended: a leftover.
        """
        return self._find(identity, ended=True)

    def _find(self, identity: Identity, *, ended: bool) -> tuple[str, str | None] | None:
        with self._lock:
            for run, attempts in self._attempts.items():
                for number, attempt in attempts.items():
                    if identity in attempt.alive and ((run, number) in self._ended) is ended:
                        return run, attempt.alive[identity].component
        return None


def _short(cmdline: Iterable[str]) -> tuple[str, ...]:
    return tuple(word[:_WORD] for word in list(cmdline)[:_WORDS])


def _as_dict(known: Known) -> dict[str, Any]:
    return {
        "identity": known.identity.as_dict(),
        "cmdline": list(known.cmdline),
        "comm": known.comm,
        "component": known.component,
        "exposed": [[one.kind, one.option] for one in known.exposed],
    }


def _from_dict(entry: dict[str, Any], component: Component) -> Known:
    """A line of members.json, or of descendants.json, where the shim knows the command line only as
    one string and no components.
    """
    if isinstance(entry["cmdline"], list):
        cmdline = entry["cmdline"]
    else:
        cmdline = entry["cmdline"].split()
    if "component" in entry:
        name = entry["component"]
    else:
        name = component(cmdline, entry["comm"])
    if "exposed" in entry:
        exposed = []
        for kind, option in entry["exposed"]:
            exposed.append(Exposed(kind, option))
    else:
        exposed = exposures(cmdline)
    identity = Identity.from_dict(entry["identity"])
    return Known(identity, tuple(cmdline), entry["comm"], name, "", exposed)


def _own_chain() -> set[Identity]:
    """This process and its ancestors: a run that was started by whatever started us does not own
    us.
    """
    chain: set[Identity] = set()
    pid = os.getpid()
    while pid > 0 and (identity := Identity.of(pid)) is not None and identity not in chain:
        chain.add(identity)
        fields = stat_fields(pid)
        pid = 0 if fields is None else int(fields[1])
    return chain
