"""Facts: everything that detectors may look at. They are plain data with times, so that a live pod
and a finished directory look alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_agent.detect.environment import ConsoleFacts, Disk, RunEnvironment
from bs4_agent.identity import Identity
from bs4_agent.runs.model import Exit, Member
from bs4_agent.states import Role, SeenState, Severity
from bs4_agent.trainers.base import Checkpoint, Event, LaunchSpec, RunLayout


@dataclass(frozen=True, kw_only=True)
class LogEvent:
    """An event of a log with its place. `m` is the monotonic second at which it was read (live) or
    the line's own time (offline).
    """

    event: Event
    m: float
    text: str
    source: str
    stream: str = ""
    cursor: str = ""
    file: str = ""
    offset: int = 0
    line: int = 0

    def evidence(self) -> dict[str, Any]:
        """Return the event as evidence of an incident."""
        return {
            "source": self.source,
            "stream": self.stream,
            "cursor": self.cursor,
            "file": self.file,
            "offset": self.offset,
            "line": self.line,
            "text": self.text,
        }


@dataclass(frozen=True)
class Side:
    """The progress of one side (trainer or orchestrator) in this attempt: its last step, the
    monotonic second of it, and the number of steps seen.
    """

    last_step: int | None = None
    last_step_m: float | None = None
    steps: int = 0


@dataclass(frozen=True)
class Stop:
    """A stop that the logs of a finished run show. `t` is when it began, in wall seconds of the
    logs' own time. `ordered` is True if somebody signalled the launcher; otherwise a child may have
    failed, so that the launcher ended the others.
    """

    t: float
    ordered: bool


@dataclass(frozen=True, kw_only=True)
class ServerProbe:
    """The last answers of the run's inference server. None means not probed or not known. Times are
    monotonic seconds.
    """

    url: str = ""
    ever_ok_m: float | None = None
    health: str = "unknown"
    """ok, refused, timeout, reset, http or unknown."""
    health_m: float | None = None
    answer: str = "unknown"
    """The result of the one-token request, which is sent only on suspicion: ok, refused, timeout,
    ..., unknown.
    """
    answer_m: float | None = None
    failures: int = 0
    """Consecutive one-token requests without an answer while the generation counter stood still."""


@dataclass(frozen=True)
class StepFiles:
    """The steps of the 2026-01 file hand-off on each side, each with its mtime in wall seconds."""

    orchestrator_checkpoints: Mapping[int, float] = field(default_factory=dict)
    rollouts: Mapping[int, float] = field(default_factory=dict)
    rank_files: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Everything known about one attempt of a run. Fields that end in `_m` are monotonic seconds,
    fields that end in `_t` are wall seconds.
    """

    name: str
    spec: LaunchSpec
    layout: RunLayout
    attempt: int
    state: SeenState
    """starting, running, ended or lost, as Attempt.state. It is "files" offline, where no process
    can be seen.
    """
    started_m: float
    started_t: float
    trainer_side: Side = Side()
    orchestrator_side: Side = Side()
    median_step_s: float | None = None
    last_activity_m: float | None = None
    """The monotonic second at which any log of the run last grew."""
    members: Sequence[Member] = ()
    exits: Sequence[Exit] = ()
    events: Sequence[LogEvent] = ()
    checkpoints: Sequence[Checkpoint] = ()
    files: StepFiles = StepFiles()
    server: ServerProbe = ServerProbe()
    good_end: bool = False
    stop_requested: bool = False
    """A stop of ours is under way or has ended this attempt, so nothing that follows from it is a
    failure.
    """
    stops: Mapping[int, Stop] = field(default_factory=dict)
    """By attempt: the stop that the logs of a finished run show."""
    history: Sequence[Mapping[str, Any]] = ()
    """The last records of steps/<run> in this attempt (both sides, in order): `side`, `step`, `m`
    (as an event's) and the numbers of the step, without `at`. Bounded: see runs/history.py.
    """
    resume: int | None = None
    """The step that this attempt was to resume from, -1 for "the latest", or None afresh."""
    config: Mapping[str, Any] | None = None
    """The run's settings as flat dotted keys, with the command line laid over the file, or None if
    they are unknown.
    """
    environment: RunEnvironment | None = None
    """What is scanned at long intervals: sizes, limits, local W&B runs. None before that."""
    with_pod: bool = False
    """The attempt ended because the whole pod did: it was rebooted, or its container was stopped
    and started again.
    """
    leaving: Mapping[str, Any] | None = None
    """What the agent recorded of this attempt when it was told to leave: `t`, `signal`,
    `local_step`, `local_known`, `remote_step`.
    """

    @property
    def over(self) -> bool:
        """Return True if the attempt is known to have ended."""
        return self.state in ("ended", "lost")

    def setting(self, *keys: str) -> Any:
        """Return the first of these settings that has a value, or None if none is set or the
        settings are unknown.
        """
        for key in keys:
            if self.config is not None and key in self.config:
                return self.config[key]
        return None

    def under(self, prefix: str) -> dict[str, Any]:
        """Return the settings below a table, with their full keys. Empty if there are none or the
        settings are unknown.
        """
        given = (self.config or {}).items()
        found = {}
        for key, value in given:
            if key.startswith(prefix + "."):
                found[key] = value
        return found

    def alive(self, *components: str) -> list[Member]:
        """Return the living processes of these components, for example "trainer", by component."""
        found = []
        for component in components:
            found += [m for m in self.living if m.component == component]
        return found

    @property
    def living(self) -> list[Member]:
        """Return all living processes of the attempt."""
        return [m for m in self.members if m.alive]

    def exit_of(self, member: Member) -> Exit | None:
        """Return how a process ended, or None if that is unknown."""
        return next((end for end in self.exits if end.identity == member.identity), None)

    def first(self, component: str) -> Member | None:
        """Return the first process of this component, alive or ended, or None if there was none."""
        return next((m for m in self.members if m.component == component), None)

    def ever(self, component: str) -> bool:
        """Return True if this attempt has, or had, a process of this component."""
        return self.first(component) is not None

    def events_of(self, kind: str, side: str | None = None) -> list[LogEvent]:
        """Return the events of this kind, from this side if one is given, oldest first."""
        found = []
        for e in self.events:
            if e.event.kind == kind and side in (None, e.event.side):
                found.append(e)
        return found

    def last_event(self, kind: str, side: str | None = None, **values: Any) -> LogEvent | None:
        """Return the newest event of this kind, from this side if one is given, with these values,
        or None if there is none.
        """
        for event in reversed(self.events_of(kind, side)):
            if values.items() <= event.event.values.items():
                return event
        return None

    @property
    def steps(self) -> list[int]:
        """Return the steps of all checkpoints, complete or not, oldest first."""
        return [c.step for c in self.checkpoints]

    @property
    def complete(self) -> dict[int, Checkpoint]:
        """Return the complete checkpoints by step, oldest first."""
        return {c.step: c for c in self.checkpoints if c.complete}

    @property
    def newest_complete(self) -> Checkpoint | None:
        """Return the newest complete checkpoint, or None if none is complete."""
        complete = self.complete
        if complete:
            return complete[max(complete)]
        return None

    @property
    def fallback(self) -> str | None:
        """Return "start-afresh", the playbook for a run that cannot resume, or None if a checkpoint
        is complete.
        """
        return None if self.complete else "start-afresh"


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A process that holds GPU memory. `mem` is bytes, or None if unknown (NVML reports foreign
    pids). `run` is the run that the process belongs to while its attempt lives. `dead_run` is the
    run of ours to whose ended attempt the process provably belonged. Both are None if the process
    is not known.
    """

    identity: Identity
    gpu: int
    mem: int | None
    cmdline: Sequence[str]
    run: str | None
    component: str | None
    dead_run: str | None
    same_user: bool


@dataclass(frozen=True, kw_only=True)
class GpuFacts:
    """The GPUs of a pod in the last sample. `state` is that of the telemetry. `used` and `total`
    are bytes by device index.
    """

    state: str = "absent"
    pids: str = "unknown"
    used: Mapping[int, int] = field(default_factory=dict)
    total: Mapping[int, int] = field(default_factory=dict)
    holders: Sequence[Holder] = ()
    errors: Mapping[int, str] = field(default_factory=dict)
    """By device index: the driver's message about a GPU that it cannot reach."""
    remaps: Mapping[int, str] = field(default_factory=dict)
    """By device index: "pending" or "failed" row remapping, or retired pages that wait for a
    reboot.
    """
    actions: Mapping[int, str] = field(default_factory=dict)
    """By device index: the recovery that the driver asks for: reset, reboot or drain."""
    names: Mapping[int, str] = field(default_factory=dict)
    util: Mapping[int, float] = field(default_factory=dict)
    """Percent, 0 to 100, of the last sample."""
    power: Mapping[int, float] = field(default_factory=dict)
    """The share of the power limit, 0 to 1, of the last sample."""
    mean_util: Mapping[int, float] = field(default_factory=dict)
    """Percent over the last ten minutes, only for devices that were seen for most of them."""

    def held_by(self, run: RunFacts, components: Sequence[str]) -> set[int]:
        """Return the devices on which processes of these components of a run hold memory."""
        return {h.gpu for h in self.holders if h.run == run.name and h.component in components}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One scan of a pod. `coverage` lists what could not be seen, as short phrases, and is part of
    every verdict.
    """

    now_m: float
    now_t: float
    runs: Sequence[RunFacts] = ()
    gpus: GpuFacts = GpuFacts()
    coverage: Sequence[str] = ()
    disks: Sequence[Disk] | None = None
    shm: Disk | None = None
    oom_kills: int | None = None
    """Kills in our control group since this agent began to scan."""
    oom_kill_m: float | None = None
    """The monotonic second at which that number was last seen to grow."""
    console: ConsoleFacts | None = None

    def disk(self, run: str) -> Disk | None:
        """Return the filesystem that holds a run's output, or None if it is unknown."""
        return next((disk for disk in self.disks or () if run in disk.runs), None)

    def rows(self, what: str, run: RunFacts) -> list[Mapping[str, Any]]:
        """Return the console's rows of one run in its list `what`, for example "pods". Empty if the
        console has not supplied that list.
        """
        if self.console is not None:
            return self.console.of(what, run.name)
        return []


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A failure that a detector or a log signature reports now. `anchor` names the first evidence
    and makes the incident's id stable, so that the same cause seen again is the same incident.
    """

    failure: str
    run: str
    attempt: int
    summary: str
    evidence: Sequence[Mapping[str, Any]]
    anchor: str
    severity: Severity | None = "critical"
    role: Role | None = "root"
    """None here and in `severity` means that the failure's playbook decides."""
    coverage: Sequence[str] = ()
    playbook: str | None = None
    """Another playbook than the failure's own, if the default fix cannot apply (start-afresh)."""
    title: str = ""
    count: int = 1
    """How many times the failure was seen. The evidence has the first and the latest."""


def file_evidence(path: Path, text: str) -> dict[str, Any]:
    """Return evidence that is a file or directory as a whole, not one of its lines."""
    return {
        "source": "files",
        "stream": "",
        "cursor": "",
        "file": str(path),
        "offset": 0,
        "line": 0,
        "text": text,
    }


def process_evidence(identity: Identity, text: str) -> dict[str, Any]:
    """Return evidence that is a process, described by its identity and `text`."""
    return {
        "source": "process",
        "stream": "",
        "cursor": "",
        "file": "",
        "offset": 0,
        "line": 0,
        "text": f"{identity}: {text}",
    }
