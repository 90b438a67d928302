"""Which processes belong to a run. Membership is proved by descent and remembered, so that the
proof outlives the shim, the launcher and the agent.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from bs4_agent.telemetry.processes import Proc, Snapshot
from bs4_common.clock import stamp
from bs4_common.credentials.exposed import Exposed, exposures
from bs4_common.files import read_passing, write_json
from bs4_common.identity import Identity, IdentityFields, stat_fields
from bs4_common.runs.model import Member

#: Ended members kept for each attempt, newest last, to know if there ever was an engine.
#: Environments that fork by the thousand must not fill memory.
_PAST = 256
#: Seconds between two writes of members.json, which is written only after a change.
_SAVE_S = 1.0
#: Seconds during which several reads share one pass over the members. Code that acts compares the
#: identity again at that moment.
_FRESH_S = 0.2
#: How many words of a command line are kept, and how many characters of each: enough for a title
#: and a person, without 30 kB of JSON arguments for each process.
_WORDS, _WORD = 16, 256

#: The file that names the container's processes that belong to an attempt; see inside.py.
INSIDE = "inside.json"

Component = Callable[[Sequence[str], str], "str | None"]


@dataclass(frozen=True)
class Known:
    """A process of an attempt, as it was when it was last seen alive. `component` is its part in
    the trainer, such as "engine", or None if it has no such part. `state` is the state letter of
    /proc/PID/stat. `exposed` are the credentials that its command line showed.
    """

    identity: Identity
    cmdline: Sequence[str]
    comm: str
    component: str | None
    state: str
    exposed: Sequence[Exposed] = ()
    """Every credential that its command line ever showed, even if the process has overwritten the
    command line since.
    """


class AttemptMembers:
    """The processes (members) of one attempt: `alive` maps the identities of the living ones to
    what is known of them, and `past` those of the last 256 that have ended.

    `root` is the process from which the others descend. If the agent started the run, it is the
    shim, a small process that starts the launcher and is itself no member. If the run was started
    by hand, it is the process that was found running, which is a member. The function
    `component(cmdline, comm)` returns a process's part in the trainer, such as "engine", or None.
    Files are written in `directory`, the attempt's directory.
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
        """Return how it is known that the members (the processes) belong to the attempt. The word
        is "descent" if they descend from a shim, the small process that starts a run's launcher. It
        is "observed" for an adopted run (one that was started by hand) or a run in a container.
        """
        if self.adopted or self._inside:
            return "observed"
        return "descent"

    def observe(self, snapshot: Snapshot, ours: Collection[Identity] = ()) -> None:
        """Add those processes of the snapshot to `alive` that descend from the attempt's root (the
        process with which it began) or from a member already known, and move members that have
        ended to `past`. If something changed, write the members to members.json in the attempt's
        directory.

        `ours` are the agent's own process and its ancestors, which never become members.
        """
        roots = list(self.alive)
        if self.root is not None:
            roots.append(self.root)
        found = {
            proc.identity: proc
            for proc in snapshot.descendants_of(roots)
            if proc.identity not in ours
        }
        for identity in roots if self.adopted else self.alive:
            if (proc := snapshot.find(identity)) is not None:
                found[identity] = proc
        for identity, proc in found.items():
            if not proc.ended:
                self._remember(identity, proc)
        # The snapshot may be older than a process that was recalled from a file of the shim.
        for identity in list(self.alive):
            if found[identity].ended if identity in found else not identity.alive():
                self._bury(identity)
        self.save()

    def members(self) -> list[Member]:
        """Return the members (processes of the attempt) that have ended, then those that live. Each
        group is in the order in which its processes were added to it.
        """
        past = [self._member(known, alive=False) for known in self.past.values()]
        return past + [self._member(known, alive=True) for known in self.alive.values()]

    def knows(self, identity: Identity) -> bool:
        """Return True if the process is or was a member of this attempt. Return True also for the
        process from which an adopted attempt (one that was started by hand) was made.
        """
        if identity in self.alive or identity in self.past:
            return True
        return self.adopted and identity == self.root

    def refresh(self) -> None:
        """Check which members have ended since the process list was last read, and move them from
        `alive` to `past`. Do nothing if the last refresh was less than 0.2 s ago.
        """
        now = time.monotonic()
        if now - self._refreshed_m < _FRESH_S:
            return
        self._refreshed_m = now
        for identity in [one for one in self.alive if not one.alive()]:
            self._bury(identity)

    def _member(self, known: Known, *, alive: bool) -> Member:
        """Return the member record of a known process."""
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
        """Add a living process, or update the one that is known."""
        before = self.alive.get(identity) or self.past.pop(identity, None)
        cmdline = _short(proc.cmdline)
        if before is not None and before.cmdline == cmdline and before.comm == proc.comm:
            self._changed = self._changed or identity not in self.alive
            self.alive[identity] = replace(before, state=proc.state)
            return
        # A process that blanks its title keeps the component that was known, because setproctitle
        # begins with an empty command line.
        component = self._component(cmdline, proc.comm) or (
            before.component if before is not None else self._spawned(proc)
        )
        exposed = exposures(proc.cmdline)
        if before is not None:
            exposed = list(dict.fromkeys([*before.exposed, *exposed]))
        self.alive[identity] = Known(identity, cmdline, proc.comm, component, proc.state, exposed)
        self._changed = True

    def _spawned(self, proc: Proc) -> str | None:
        """Return "env-server" for a worker of an environment server, else None. The worker gives
        itself no title: its command line is that of Python's multiprocessing.
        """
        if "--multiprocessing-fork" in proc.cmdline:
            for known in self.alive.values():
                if known.identity.pid == proc.ppid and known.component == "env-server":
                    return known.component
        return None

    def _bury(self, identity: Identity) -> None:
        """Move a member from the living to the ended, and forget one of the ended if there are too
        many.
        """
        self.past[identity] = self.alive.pop(identity)
        while len(self.past) > _PAST:
            del self.past[self._forgettable()]
        self._changed = True

    def _forgettable(self) -> Identity:
        """Return the ended member to forget first: the oldest that is no component of the trainer.

        A run that starts a program for each rollout must not lose the record of its engine.
        """
        nameless = (identity for identity, known in self.past.items() if known.component is None)
        return next(nameless, next(iter(self.past)))

    def save(self, *, at_once: bool = False) -> None:
        """Write the members (processes of the attempt) to members.json in the attempt's directory
        if they have changed since the last write. Without `at_once`, nothing is written if the last
        write was less than a second ago; a later call then writes the change.
        """
        now = time.monotonic()
        if not self._changed or (now - self._saved_m < _SAVE_S and not at_once):
            return
        members: list[MemberFields] = []
        for group, alive in ((self.past, False), (self.alive, True)):
            for known in group.values():
                members.append({**_as_dict(known), "alive": alive})
        # Not durable: none of these processes survives a power cut, and an fsync every second would
        # load the run's own disk.
        write_json(self.directory / "members.json", {"members": members, **stamp()}, durable=False)
        self._changed, self._saved_m = False, now

    def recall(self) -> None:
        """Add the members (processes of the attempt) that are recorded in files of the attempt's
        directory. An earlier agent recorded the members that it had seen. The shim (the small
        process that starts a run's launcher and records how it ends) records living descendants,
        also while no agent runs. For a run in a container, there is also a file of the container's
        processes that were found to belong to the attempt.
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
    """The members (processes) of all attempts of all runs. An attempt is one start of a run.
    Thread-safe.

    A process becomes a member because it descends from the root of an attempt, which is the process
    with which the attempt began. In a container, the first process of an attempt is instead known
    by a random word in its environment (see `containers.inside.claim`). The same command line,
    title or session never makes a foreign process a member.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._attempts: dict[str, dict[int, AttemptMembers]] = {}
        self._ended: set[tuple[str, int]] = set()
        self._self = _own_chain()

    def track(self, run: str, attempt: AttemptMembers) -> None:
        """Add an attempt (one start) of the run named `run`, so that its processes are watched from
        now on. Do nothing if this attempt is watched already.
        """
        with self._lock:
            self._attempts.setdefault(run, {}).setdefault(attempt.number, attempt)

    def end(self, run: str, attempt: int) -> None:
        """Record that attempt number `attempt` of the run has ended. Its processes that still live
        count as leftovers from now on. The attempt's members are saved to disk at once, so that a
        later agent knows the same leftovers.
        """
        with self._lock:
            self._ended.add((run, attempt))
            self._attempts[run][attempt].save(at_once=True)

    def recall(self, run: str, attempt: int) -> None:
        """Read again from the files of attempt number `attempt` which processes belong to it,
        because its shim may have recorded some that the agent has not seen.
        """
        with self._lock:
            self._attempts[run][attempt].recall()

    def observe(self, snapshot: Snapshot) -> None:
        """Add to each attempt the processes of the snapshot that descend from its root (the process
        with which it began), and note which members have ended. Ended attempts that have no living
        member are skipped.
        """
        with self._lock:
            for run, number, attempt in self._all():
                if attempt.alive or (run, number) not in self._ended:
                    attempt.observe(snapshot, self._self)

    def members(self, run: str, attempt: int | None = None) -> list[Member]:
        """Return the members (processes) of attempt number `attempt` of the run. If it is None,
        return the living members of every attempt of the run and the ended members of its newest
        attempt. The list is empty if the run or the attempt is not known.
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
            members = itertools.chain.from_iterable(
                attempts[number].members() for number in sorted(attempts)
            )
            rows = []
            for member in members:
                if member.alive or member.attempt == newest:
                    rows.append(member)
            return rows

    def living(self, run: str) -> list[Member]:
        """Return the living members (processes) of every attempt of the run, including the
        leftovers of ended attempts. The list is empty if the run is not known.
        """
        return [member for member in self.members(run) if member.alive]

    def knows(self, identity: Identity) -> bool:
        """Return True if this process is or was a member of an attempt (one start of a run) of any
        run. Of the members that have ended, only the last 256 of each attempt are remembered.
        Return True also for the process from which an adopted attempt (one that was started by
        hand) was made.
        """
        with self._lock:
            return any(attempt.knows(identity) for _, _, attempt in self._all())

    def owner_of(self, identity: Identity) -> tuple[str, str | None] | None:
        """Return the name of the run to which this process belongs, and the process's part in the
        trainer (such as "engine", or None), if it is a living member of an attempt that has not
        ended. Return None otherwise, also for a leftover of an ended attempt.
        """
        return self._find(identity, ended=False)

    def dead_run_holder(self, identity: Identity) -> tuple[str, str | None] | None:
        """Return the name of the run to which this process belongs, and the process's part in the
        trainer (such as "engine", or None), if it is a leftover: a living member of an attempt that
        has ended. Return None otherwise. Whether the process holds a GPU is not checked.
        """
        return self._find(identity, ended=True)

    def _find(self, identity: Identity, *, ended: bool) -> tuple[str, str | None] | None:
        """Return the run and the component of a living member of an attempt that has ended, or,
        with `ended=False`, has not. None if there is none.
        """
        with self._lock:
            for run, number, attempt in self._all():
                if identity in attempt.alive and ((run, number) in self._ended) is ended:
                    return run, attempt.alive[identity].component
        return None

    def _all(self) -> Iterator[tuple[str, int, AttemptMembers]]:
        """Yield every attempt with its run and its number. The lock must be held."""
        for run, attempts in self._attempts.items():
            for number, attempt in attempts.items():
                yield run, number, attempt


def _short(cmdline: Iterable[str]) -> tuple[str, ...]:
    """Return the first 16 words of a command line, each cut to 256 characters."""
    return tuple(word[:_WORD] for word in list(cmdline)[:_WORDS])


if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.

    class MemberFields(TypedDict, total=False):
        """A process in members.json, which this agent writes, or in descendants.json of the shim,
        which knows no components and has the command line as one text.
        """

        identity: IdentityFields
        cmdline: list[str] | str
        comm: str
        component: str | None
        exposed: list[list[str]]
        """Secrets on the command line, each as its kind and its option."""
        alive: bool


def _as_dict(known: Known) -> MemberFields:
    """Return a known process in the form of members.json."""
    return {
        "identity": known.identity.as_dict(),
        "cmdline": list(known.cmdline),
        "comm": known.comm,
        "component": known.component,
        "exposed": [[one.kind, one.option] for one in known.exposed],
    }


def _from_dict(entry: MemberFields, component: Component) -> Known:
    """Return the process in an entry of members.json or of descendants.json. The shim, which writes
    the latter, has the command line as one string and knows no components.
    """
    cmdline, comm = entry["cmdline"], entry["comm"]
    if not isinstance(cmdline, list):
        cmdline = cmdline.split()
    name = entry["component"] if "component" in entry else component(cmdline, comm)
    if "exposed" in entry:
        exposed = [Exposed(kind, option) for kind, option in entry["exposed"]]
    else:
        exposed = exposures(cmdline)
    identity = Identity.from_dict(entry["identity"])
    return Known(identity, tuple(cmdline), comm, name, "", exposed)


def _own_chain() -> set[Identity]:
    """Return this process and its ancestors. A run that was started by an ancestor of the agent
    does not own the agent.
    """
    chain: set[Identity] = set()
    pid = os.getpid()
    while pid > 0 and (identity := Identity.of(pid)) is not None and identity not in chain:
        chain.add(identity)
        fields = stat_fields(pid)
        pid = 0 if fields is None else int(fields[1])
    return chain
