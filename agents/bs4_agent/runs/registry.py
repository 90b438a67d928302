"""The runs of a pod, as found on disk and among the processes. The registry says what runs and what
has ended, and journals each change once.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.containers import processes
from bs4_agent.containers.log import ContainerLog
from bs4_agent.credentials.held import HeldSecrets
from bs4_agent.paths import Home
from bs4_agent.runs.event_log import EventLog, JournalLike
from bs4_agent.runs.membership import AttemptMembers, Membership
from bs4_agent.runs.outcome import compose_end, judge
from bs4_agent.runs.records import (
    attempt_numbers,
    end_as_dict,
    read_attempt,
    read_exit,
    spec_as_dict,
    spec_from_dict,
)
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.clock import stamp
from bs4_common.errors import AgentError, SpoolFull, UnknownRun
from bs4_common.files import read_json, write_json
from bs4_common.identity import Identity
from bs4_common.ids import safe_name
from bs4_common.runs.model import Attempt, End, Exit, Member, Run
from bs4_common.streams.cursor import Gap
from bs4_common.trainers import registry as registered_trainers
from bs4_common.trainers.base import LaunchSpec, Trainer
from bs4_common.trainers.settings import BadConfig

#: Seconds after a launcher's end until its children count as left over. They follow it within
#: seconds, or not at all.
_SETTLE_S = 5.0
#: Seconds that one poll waits for Docker to return a container's last output. The rest is waited
#: for between polls.
_LAST_WORDS_S = 0.3
#: Age in seconds up to which the sampler's pass over /proc is used. The sampler makes one every 3
#: s, and polling with a lower age would make another one.
_SNAPSHOT_AGE_S = 2.9

#: News of a poll: (run, attempt, event), as journalled.
Noticed = tuple[str, int, str]


class Runs:
    """All runs of a pod. Thread-safe. Call `poll` about once a second to keep them up to date.

    `agent_restart` is the command line with which a shim (the process that watches over an attempt)
    may start this agent again, or None if no shim may. The function `trainers` returns the trainer
    with a given id; by default it knows the trainers that are part of the agent. `settle_s` is how
    many seconds after a launcher's end its children count as left over, and `snapshot_age_s` how
    old a process list of `table` may be to be used. `secrets` are those that the pod holds. The
    attribute `unreadable` maps the names of runs whose files cannot be understood to a text that
    says why.
    """

    def __init__(
        self,
        home: Home,
        scope: Scope,
        journal: JournalLike,
        table: ProcessTable,
        *,
        agent_restart: Sequence[str] | None = None,
        trainers: Callable[[str], Trainer] | None = None,
        settle_s: float = _SETTLE_S,
        snapshot_age_s: float = _SNAPSHOT_AGE_S,
        secrets: HeldSecrets | None = None,
    ) -> None:
        self.home = home
        self.secrets = secrets or HeldSecrets(home)
        self.scope = scope
        self.table = table
        self.agent_restart = agent_restart
        self.membership = Membership()
        self._journal = journal
        self._told = EventLog(journal)
        self._gaps: list[dict[str, Any]] = []
        self._trainers = trainers or registered_trainers.get
        self._settle_s = settle_s
        self._snapshot_age_s = snapshot_age_s
        self._lock = threading.RLock()
        self._runs: dict[str, Run] = {}
        self._launcher_gone_m: dict[tuple[str, int], float] = {}
        self._exits: dict[tuple[str, int], tuple[int, list[Exit]]] = {}
        self._launch_locks: dict[str, threading.Lock] = {}
        self._container_logs: dict[tuple[str, int], ContainerLog] = {}
        self.unreadable: dict[str, str] = {}
        """Runs whose files cannot be understood (written by a newer agent, or damaged), and the
        reason. They are left alone and stop no other run.
        """
        for directory in sorted(home.runs.iterdir()) if home.runs.exists() else []:
            try:
                self._find(directory)
            except (ValueError, KeyError, TypeError, AgentError) as error:
                self._runs.pop(directory.name, None)
                self.unreadable[directory.name] = f"{type(error).__name__}: {error}"

    def all(self) -> list[Run]:
        """Return all runs whose files could be read, ended runs too. The list is empty if there are
        none.
        """
        with self._lock:
            return list(self._runs.values())

    def find(self, name: str) -> Run | None:
        """Return the run with this name, or None if there is no such run or its files could not be
        read.
        """
        with self._lock:
            return self._runs.get(name)

    def get(self, name: str) -> Run:
        """Return the run with this name. Raises UnknownRun if there is no such run or if its files
        could not be read. The error's message says which of the two is the case; if there is no
        such run, it names the run with the most similar name, or else all runs.
        """
        with self._lock:
            if name in self._runs:
                return self._runs[name]
            if name in self.unreadable:
                raise UnknownRun(
                    f"The files of run {name!r} cannot be read ({self.unreadable[name]}); "
                    f"look at {self.home.run(name)}."
                )
            import difflib  # half a megabyte for an error message

            near = difflib.get_close_matches(name, self._runs, n=1)
            known = ", ".join(sorted(self._runs)) or "none yet"
        hint = f"did you mean {near[0]!r}?" if near else f"its runs are: {known}."
        raise UnknownRun(f"This pod has no run {name!r}; {hint}")

    def trainer(self, of: LaunchSpec | Run) -> Trainer:
        """Return the trainer whose id a launch spec, or the spec of a run, has. Raises BadRequest
        if there is no trainer with that id.
        """
        return self._trainers(of.spec.trainer if isinstance(of, Run) else of.trainer)

    def register(self, spec: LaunchSpec, *, adopted: bool = False) -> Run:
        """Record on disk and in the journal (the agent's log of actions and incidents) that there
        is a run with the name and the settings in `spec`, and return the run. If a run with that
        name is known already, `spec` replaces its spec and is used for its next attempt. `adopted`
        True means that the run's newest attempt was started by hand. Raises BadRequest if the name
        of the run is not allowed.
        """
        directory = self.home.run(spec.run)
        with self._lock:
            run = self._runs.get(spec.run)
            if run is None or run.spec != spec or run.adopted != adopted:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_json(
                    directory / "run.json",
                    {"spec": spec_as_dict(spec), "adopted": adopted, **stamp()},
                )
            if run is None:
                run = self._runs[spec.run] = Run(spec.run, spec, adopted)
            run.spec, run.adopted = spec, adopted
            self._tell_registered(run)
            return run

    def attempt_directory(self, run: str, number: int) -> Path:
        """Return the path, in the agent's home, of the directory for the files of attempt `number`
        of the run with the name `run`. The directory need not exist yet. Raises BadRequest if the
        name is not allowed.
        """
        return self.home.attempt(run, number)

    def launch_lock(self, run: str) -> threading.Lock:
        """Return the lock of the run with the name `run`. Hold it while you create a new attempt
        (one start of the run), so that no other thread of this agent creates one at the same time.
        The same name always gives the same lock. Raises BadRequest if the name is not allowed.
        """
        with self._lock:
            return self._launch_locks.setdefault(safe_name(run), threading.Lock())

    def reload(self, name: str) -> Run:
        """Read the attempts of the run with this name from disk again and return the run. This is
        needed after the files of a new attempt were made on disk. Raises UnknownRun if there is no
        such run.
        """
        with self._lock:
            run = self.get(name)
            self._read_attempts(run)
            return run

    def launched(self, run: str, key: str) -> Attempt | None:
        """Return the attempt of the run that the action with id `key` started. Return None if the
        action started no attempt, or only one whose program was never started.

        A launch that is repeated under the same id learns from this that the attempt was started
        already.
        """
        with self._lock:
            if run not in self._runs:
                return None
            attempts = reversed(self.reload(run).attempts)
            return next((one for one in attempts if one.key == key and one.ran), None)

    def members(self, run: str) -> list[Member]:
        """Return the living processes of every attempt of the run, and the ended processes of its
        newest attempt. Raises UnknownRun if there is no such run.
        """
        return self.membership.members(self.get(run).name)

    def leftovers(self, run: str) -> list[Member]:
        """Return the processes of the run that still live although the attempt to which they belong
        has ended. The list is empty if there are none. Raises UnknownRun if there is no such run.
        """
        attempts = self.get(run).attempts
        ended = {attempt.number for attempt in attempts if attempt.end is not None}
        rows = []
        for member in self.membership.living(run):
            if member.attempt in ended:
                rows.append(member)
        return rows

    def exits(self, run: str, attempt: int) -> list[Exit]:
        """Return how processes of attempt number `attempt` ended, as far as the shim (the small
        process that starts a run's launcher and records how it ends) recorded it. It records the
        launcher, and every process whose parent had ended earlier than the process itself. The list
        is empty if nothing is recorded, as for an adopted attempt (one that was started by hand).
        """
        with self._lock:
            size, exits = self._exits.get((run, attempt), (0, []))
            try:
                with open(self.attempt_directory(run, attempt) / "exits.ndjson", "rb") as handle:
                    handle.seek(size)
                    data = handle.read()
            except FileNotFoundError:
                return []
            whole = data[: data.rfind(b"\n") + 1]
            if whole:
                exits = [*exits, *self._named(run, attempt, whole.splitlines())]
                self._exits[run, attempt] = (size + len(whole), exits)
            return exits

    def _named(self, run: str, attempt: int, lines: Sequence[bytes]) -> Iterator[Exit]:
        """Yield the exits in lines of exits.ndjson, each with the component of its process."""
        members = self.membership.members(run, attempt)
        known = {member.identity: member.component for member in members}
        component = self.trainer(self.get(run)).component
        for line in lines:
            record = json.loads(line)
            identity = Identity.from_dict(record["identity"])
            if identity in known:
                name = known[identity]
            else:
                name = component(record["cmdline"].split(), record["comm"])
            yield read_exit(record, name)

    def stop_requested(self, run: str, attempt: int) -> bool:
        """Return True if the agent has begun to stop attempt number `attempt` of the run, whether
        or not that stop is finished.
        """
        return (self.attempt_directory(run, attempt) / "stop.json").exists()

    def container_log(self, run: Run, attempt: Attempt) -> ContainerLog | None:
        """Return the log of what the container in which this attempt runs prints to its standard
        output. Return None if the run is in no container, or if the container's name is not known.
        """
        if run.spec.container in ("", processes.UNNAMED):
            return None
        key = (run.name, attempt.number)
        with self._lock:
            if key not in self._container_logs:
                directory = self.attempt_directory(run.name, attempt.number)
                self._container_logs[key] = ContainerLog(
                    run.spec.container, directory, attempt.started_t
                )
            return self._container_logs[key]

    def note_gap(self, stream: str, gap: Gap) -> None:
        """Record in the journal (the agent's log of actions and incidents) that bytes of the log
        stream with the name `stream` were lost. `gap` is `{"generation", "from", "to", "reason"}`:
        the number of the log's file, two byte offsets in it, and a text that says why. If the
        journal is full, the record is kept in memory and a later poll writes it.
        """
        with self._lock:
            self._gaps.append({"stream": stream, **gap})
            self._tell_gaps()

    def poll(self) -> list[Noticed]:
        """Check the processes and files of all runs, and write a record to the journal (the agent's
        log of actions and incidents) for each attempt that has started or ended since the last
        poll. Return these as (run, attempt, event), where the event is "attempt-started" or
        "attempt-ended". The list is empty if there was no start and no end.
        """
        with self._lock:
            self._tell_gaps()
            runs = self.all()
            if any(run.live or self.membership.living(run.name) for run in runs):
                self.membership.observe(self.table.snapshot(max_age=self._snapshot_age_s))
            return [news for run in runs for news in self._settle(run)]

    def _find(self, directory: Path) -> None:
        """Read the run in this directory. An agent that died between making the directory and
        writing the record has started nothing there.
        """
        record = read_json(directory / "run.json")
        if record is None:
            # An agent died between making the directory and writing the record, so nothing was
            # started.
            return
        spec = spec_from_dict(record["spec"])
        self._runs[spec.run] = run = Run(spec.run, spec, record["adopted"])
        self._read_attempts(run)

    def _read_attempts(self, run: Run) -> None:
        """Bring `run.attempts` up to date with the disk. Only attempts that are starting can have
        changed there.
        """
        known = {attempt.number: attempt for attempt in run.attempts if attempt.state != "starting"}
        for number in attempt_numbers(self.home.run(run.name)):
            directory = self.attempt_directory(run.name, number)
            if number not in known and (attempt := read_attempt(directory)) is not None:
                known[number] = attempt
                members = AttemptMembers(
                    directory,
                    number,
                    attempt.launcher if attempt.adopted else attempt.shim,
                    self.trainer(run.spec).component,
                    adopted=attempt.adopted,
                )
                self.membership.track(run.name, members)
                if attempt.end is not None:
                    self.membership.end(run.name, number)
        run.attempts = [known[number] for number in sorted(known)]

    def _settle(self, run: Run) -> Iterator[Noticed]:
        """Bring one run up to date, journal its news and yield them."""
        self._tell_registered(run)
        if any(attempt.state == "starting" for attempt in run.attempts):
            self._read_attempts(run)
        for attempt in run.attempts:
            if attempt.end is None:
                self._decide(run, attempt)
            if attempt.state != "starting" and self._tell_started(run, attempt):
                yield run.name, attempt.number, "attempt-started"
            if attempt.end is not None and self._tell_ended(run, attempt, attempt.end):
                yield run.name, attempt.number, "attempt-ended"

    def _decide(self, run: Run, attempt: Attempt) -> None:
        """Give the attempt its end if it is over. The end is written to disk first, because a later
        agent must not judge again by logs that have changed.
        """
        directory = self.attempt_directory(run.name, attempt.number)
        settled = self._settled(run.name, attempt)
        members = self.membership.members(run.name, attempt.number)
        living = [member for member in members if member.alive]
        over = judge(directory, attempt, living, settled=settled)
        if over is None:
            return
        record = read_json(directory / "spec.json")
        spec = run.spec if record is None else spec_from_dict(record["launch"])
        own = None if attempt.adopted else directory / "launcher.log"
        if own is None and (box := self.container_log(run, attempt)) is not None and box.trainers:
            if not box.finish(_LAST_WORDS_S):
                # The end depends on the last output, and the other runs must not wait for it.
                return
            own = box.path
        end = compose_end(self.trainer(spec), spec, attempt, over, living, own)
        write_json(directory / "outcome.json", end_as_dict(over.state, end))
        attempt.state, attempt.end = over.state, end
        self.membership.end(run.name, attempt.number)

    def _settled(self, run: str, attempt: Attempt) -> bool:
        """Return True if the launcher has been gone for `settle_s` seconds."""
        if attempt.launcher is not None and attempt.launcher.alive():
            return False
        if (run, attempt.number) not in self._launcher_gone_m:
            self._launcher_gone_m[run, attempt.number] = time.monotonic()
            # The end must be decided with all processes that can be known now: those that were born
            # since the last snapshot, and those that only the shim saw.
            self.membership.observe(self.table.snapshot(max_age=0.0))
            self.membership.recall(run, attempt.number)
        return time.monotonic() - self._launcher_gone_m[run, attempt.number] >= self._settle_s

    def _tell_gaps(self) -> None:
        """Journal the waiting gaps. Those that a full spool refuses stay."""
        try:
            while self._gaps:
                self._journal.append("gap", **self._gaps[0])
                del self._gaps[0]
        except SpoolFull:
            return

    def _tell_registered(self, run: Run) -> None:
        """Journal the registration of the run, unless it is journalled already."""
        directory, spec = self.home.run(run.name), run.spec
        if self._told.has(directory, "registered"):
            return
        fields = {
            "trainer": spec.trainer,
            "output_dir": str(spec.output_dir),
            "cwd": str(spec.cwd),
            "config": str(spec.config),
            "max_steps": self._max_steps(spec),
        }
        self._told.append(directory, run.name, 0, "registered", **fields)

    def _max_steps(self, spec: LaunchSpec) -> int | None:
        """Return the number of steps after which a launch ends by its config, or None if it sets
        none or the config cannot be used. That can be so of a run that was adopted: it goes on
        whatever we make of its config.
        """
        try:
            return self.trainer(spec).max_steps(spec)
        except BadConfig:
            return None

    def _tell_started(self, run: Run, attempt: Attempt) -> bool:
        """Journal the start of the attempt. Return False if it was journalled before or the spool
        is full.
        """
        directory = self.attempt_directory(run.name, attempt.number)
        if self._told.has(directory, "attempt-started"):
            return False
        record = read_json(directory / "spec.json")
        spec = run.spec if record is None else spec_from_dict(record["launch"])
        fields: dict[str, Any] = {
            "config": str(spec.config),
            "max_steps": self._max_steps(spec),
            "argv": list(attempt.argv),
            "resume": attempt.resume,
            "identity": attempt.launcher.as_dict() if attempt.launcher is not None else None,
            "started_t": attempt.started_t,
            "overrides": [] if record is None else record["launch"].get("overrides", []),
        }
        if run.spec.container:
            fields["container"] = run.spec.container
        if attempt.adopted:
            self._told.append(directory, run.name, attempt.number, "adopted", **fields)
        return self._told.append(directory, run.name, attempt.number, "attempt-started", **fields)

    def _tell_ended(self, run: Run, attempt: Attempt, end: End) -> bool:
        """Journal the end of the attempt. Return False if it was journalled before or the spool is
        full.
        """
        directory = self.attempt_directory(run.name, attempt.number)
        fields = {
            "code": end.code,
            "signal": end.signal,
            "good": end.good,
            "detail": end.detail,
            "ended_t": end.t,
        }
        return self._told.append(directory, run.name, attempt.number, "attempt-ended", **fields)
