"""Facts: all that detectors may look at. Plain data with times, so that a live pod and a finished
directory look alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_agent.detect.surroundings import ConsoleFacts, Disk, Surroundings
from bs4_agent.identity import Identity
from bs4_agent.runs.model import Exit, Member
from bs4_agent.states import Role, SeenState, Severity
from bs4_agent.trainers.base import Checkpoint, Event, LaunchSpec, RunLayout


@dataclass(frozen=True, kw_only=True)
class LogEvent:
    """An event of a log with its place. `m` is monotonic seconds when it was read (live) or the
    line's own time (offline).
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
    """Progress of one side (trainer or orchestrator) in this attempt."""

    last_step: int | None = None
    last_step_m: float | None = None
    steps: int = 0


@dataclass(frozen=True)
class Stop:
    """`t`: when it began, wall seconds of the logs' own time. `ordered`: somebody signalled the
    launcher; else one of its children may have failed, so that it ended the others.
    """

    t: float
    ordered: bool


@dataclass(frozen=True, kw_only=True)
class ServerProbe:
    """What the run's inference server answered last. `None` = not asked or not known. Times are
    monotonic.
    """

    url: str = ""
    ever_ok_m: float | None = None
    health: str = "unknown"
    """ok, refused, timeout, reset, http, unknown"""
    health_m: float | None = None
    answer: str = "unknown"
    """ok, refused, timeout, ..., unknown: the one-token request, asked only on suspicion"""
    answer_m: float | None = None
    failures: int = 0
    """Consecutive one-token requests without an answer while the generation counter stood still."""


@dataclass(frozen=True)
class StepFiles:
    """The 2026-01 file hand-off: which steps exist on which side. mtimes are wall seconds."""

    orchestrator_checkpoints: Mapping[int, float] = field(default_factory=dict)
    rollouts: Mapping[int, float] = field(default_factory=dict)
    rank_files: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    name: str
    spec: LaunchSpec
    layout: RunLayout
    attempt: int
    state: SeenState
    """starting, running, ended, lost (as Attempt.state); "files" offline, where no process can be
    seen
    """
    started_m: float
    started_t: float
    trainer_side: Side = Side()
    orchestrator_side: Side = Side()
    median_step_s: float | None = None
    last_activity_m: float | None = None
    """When any log of the run last grew."""
    members: Sequence[Member] = ()
    exits: Sequence[Exit] = ()
    events: Sequence[LogEvent] = ()
    checkpoints: Sequence[Checkpoint] = ()
    files: StepFiles = StepFiles()
    server: ServerProbe = ServerProbe()
    good_end: bool = False
    stop_requested: bool = False
    """A stop of ours is under way or ended this attempt: nothing that follows from it is a
    failure.
    """
    stops: Mapping[int, Stop] = field(default_factory=dict)
    """By attempt, what the logs of a finished run say about its being stopped."""
    history: Sequence[Mapping[str, Any]] = ()
    """The last records of steps/<run> in this attempt (both sides, in order): `side`, `step`, `m`
    (as an event's) and the numbers of the step, without `at`. Bounded: see runs/history.py.
    """
    resume: int | None = None
    """The step that this attempt was asked to resume from, -1 for "the latest"; None afresh."""
    config: Mapping[str, Any] | None = None
    """The run's settings as flat dotted keys, the command line laid over the file; None where they
    are not known.
    """
    around: Surroundings | None = None
    """What is looked at seldom: sizes, limits, local W&B runs; None before the first look."""
    with_pod: bool = False
    """The attempt ended because the whole pod did: it was rebooted, or its container was stopped
    and started again.
    """
    leaving: Mapping[str, Any] | None = None
    """What the agent wrote of this attempt when it was told to leave: `t`, `signal`, `local_step`,
    `local_known`, `remote_step`.
    """

    def setting(self, *keys: str) -> Any:
        """The first of these settings that has a value; None where none is set or nothing is
        known.
        """
        for key in keys:
            if self.config is not None and key in self.config:
                return self.config[key]
        return None

    def under(self, prefix: str) -> dict[str, Any]:
        """The settings below a table, keys as they are."""
        found = {}
        for key, value in (self.config or {}).items():
            if key.startswith(prefix + "."):
                found[key] = value
        return found

    def alive(self, component: str) -> list[Member]:
        found = []
        for member in self.members:
            if member.alive and member.component == component:
                found.append(member)
        return found

    def ever(self, component: str) -> bool:
        return any(member.component == component for member in self.members)

    def last_event(self, kind: str, side: str | None = None) -> LogEvent | None:
        for event in reversed(self.events):
            if event.event.kind == kind and side in (None, event.event.side):
                return event
        return None


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A process with GPU memory. `mem` None: unknown (NVML speaks of foreign pids). `run`: owner
    while that attempt lives; `dead_run`: the run of ours to whose ended attempt it provably
    belonged; both None: nobody we know.
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
    """`state` as in telemetry. `used` and `total` are bytes by device index. `settled` = all of it
    was true in the previous scan too.
    """

    state: str = "absent"
    pids: str = "unknown"
    used: Mapping[int, int] = field(default_factory=dict)
    total: Mapping[int, int] = field(default_factory=dict)
    holders: Sequence[Holder] = ()
    errors: Mapping[int, str] = field(default_factory=dict)
    """By index: what the driver says of a GPU that it cannot reach."""
    remaps: Mapping[int, str] = field(default_factory=dict)
    """By index: "pending" or "failed" row remapping, or retired pages that wait for a reboot."""
    actions: Mapping[int, str] = field(default_factory=dict)
    """By index: the recovery that the driver asks for: reset, reboot, drain."""
    names: Mapping[int, str] = field(default_factory=dict)
    util: Mapping[int, float] = field(default_factory=dict)
    """Percent 0..100, of the last sample."""
    power: Mapping[int, float] = field(default_factory=dict)
    """Share of the power limit, 0..1, of the last sample."""
    mean_util: Mapping[int, float] = field(default_factory=dict)
    """Percent over the last ten minutes; only of devices that were seen for most of them."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One look at a pod. `coverage`: what could not be seen, as short phrases; part of every
    verdict.
    """

    now_m: float
    now_t: float
    runs: Sequence[RunFacts] = ()
    gpus: GpuFacts = GpuFacts()
    coverage: Sequence[str] = ()
    disks: Sequence[Disk] | None = None
    shm: Disk | None = None
    oom_kills: int | None = None
    """Of our control group since this agent began to look."""
    oom_kill_m: float | None = None
    """When that number was last seen to have grown."""
    console: ConsoleFacts | None = None

    def disk(self, run: str) -> Disk | None:
        """The filesystem that holds a run's output."""
        return next((disk for disk in self.disks or () if run in disk.runs), None)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A detector's word. `anchor` names the first evidence and makes the incident's id stable: the
    same cause seen again is the same incident.
    """

    failure: str
    run: str
    attempt: int
    summary: str
    evidence: Sequence[Mapping[str, Any]]
    anchor: str
    severity: Severity | None = "critical"
    role: Role | None = "root"
    """None here and in `severity`: what the playbook of the failure says."""
    coverage: Sequence[str] = ()
    playbook: str | None = None
    """Another playbook than the failure's own, where the default fix cannot apply
    (start-afresh).
    """
    title: str = ""
    count: int = 1
    """How often it was seen; evidence has the first and the latest."""


def file_evidence(path: Path, text: str) -> dict[str, Any]:
    """Evidence that is a file or directory, not a line of it."""
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
    return {
        "source": "process",
        "stream": "",
        "cursor": "",
        "file": "",
        "offset": 0,
        "line": 0,
        "text": f"{identity}: {text}",
    }
