"""Facts: everything that detectors may look at. They are plain data with times, so that a live pod
and a finished directory look alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from bs4_common.failures.environment import ConsoleFacts, Disk, RunEnvironment
from bs4_common.failures.evidence import Evidence
from bs4_common.identity import Identity
from bs4_common.runs.model import Exit, Member
from bs4_common.states import Role, SeenState, Severity
from bs4_common.telemetry import StepRecord
from bs4_common.trainers import registry
from bs4_common.trainers.base import Checkpoint, Event, LaunchSpec, RunLayout, Trainer
from bs4_common.trainers.settings import FlatSettings


@dataclass(frozen=True, kw_only=True)
class LogEvent:
    """Something that a log line reports (`event`), with the line's `text`, the log that holds the
    line (`source`, for example "trainer") and the line's place there: `file`, `offset` in bytes,
    `line`, and for a live log the agent's `stream` and the place in it (`cursor`). `m` is when the
    line was read, in seconds of the monotonic clock; in a finished log it is the line's own time in
    seconds.
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

    def evidence(self) -> Evidence:
        """Return the log line of this event in the form of evidence, which has its place and its
        text.
        """
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
    """How far one side of the run (trainer or orchestrator) has come in this attempt: its last
    step, the time of that step in seconds of the monotonic clock, and how many steps it has made.
    `last_step` and `last_step_m` are None if it has made no step.
    """

    last_step: int | None = None
    last_step_m: float | None = None
    steps: int = 0


class Intent(TypedDict, total=False):
    """How far a run had come when the agent was ordered to end by a signal. `t` and `signal` are
    added when the saved record is read again.
    """

    run: str
    attempt: int
    local_step: int | None
    """The newest step on the pod whose files were checked and are complete."""
    local_known: bool
    """False if the disk did not answer in time."""
    remote_step: int | None
    """The newest step that was verified in the object store."""
    t: float | None
    """When the agent was ordered to end, in wall seconds since 1970."""
    signal: str | None
    """The name of the signal, such as "SIGTERM"."""


@dataclass(frozen=True)
class Stop:
    """The end of an attempt by a signal, as the logs of a finished run show it. `t` is when that
    end began, as a Unix time in seconds that is computed from the times in the log lines, or None
    if no time can be computed. `ordered` is True if the launcher itself got the signal. If it is
    False, the launcher may have ended the processes because one of them failed.
    """

    t: float | None
    ordered: bool


@dataclass(frozen=True, kw_only=True)
class ServerProbe:
    """What probes of the run's inference server, whose base URL is `url`, answered last. `health`
    is the result of the health check, `answer` that of a request for one token, and `failures` how
    many such requests in a row got no answer. Times are in seconds of the monotonic clock:
    `ever_ok_m` is when the health check first succeeded, `health_m` and `answer_m` when the two
    kinds of probes were last answered or failed. A time is None if there was no such moment yet.
    """

    url: str = ""
    ever_ok_m: float | None = None
    health: str = "unknown"
    """ok, refused, timeout, reset, http (a status other than 200) or unknown."""
    health_m: float | None = None
    answer: str = "unknown"
    """The result of the request for one token, which is sent only if something seems wrong: one of
    the words for `health`.
    """
    answer_m: float | None = None
    failures: int = 0
    """How many requests for one token in a row got no answer while the server generated nothing
    else.
    """


@dataclass(frozen=True)
class StepFiles:
    """The files by which orchestrator and trainer of prime-rl's version of January 2026 hand steps
    to each other: the orchestrator's checkpoints, its rollouts, and the trainer's file for rank 0.
    Each field has, by step, the mtime of that step's file or directory, as a Unix time in seconds.
    """

    orchestrator_checkpoints: Mapping[int, float] = field(default_factory=dict)
    rollouts: Mapping[int, float] = field(default_factory=dict)
    rank_files: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Everything that detectors (the agent's functions that look for failures) may know of one
    attempt of a run. Fields whose names end in `_m` are seconds of the monotonic clock, and those
    that end in `_t` are Unix times in seconds. If the attempt is read from the directory of a
    finished run, `_m` fields are the times in the log lines instead.
    """

    name: str
    spec: LaunchSpec
    layout: RunLayout
    attempt: int
    state: SeenState
    """The state of the attempt: starting, running, ended or lost, as in `Attempt.state`; or "files"
    if only the files of the run are read, so that no process can be seen.
    """
    started_m: float
    started_t: float
    trainer_side: Side = Side()
    orchestrator_side: Side = Side()
    median_step_s: float | None = None
    """The usual duration of a step in seconds, or None if not known."""
    last_activity_m: float | None = None
    """The monotonic second at which any log of the run last grew."""
    members: Sequence[Member] = ()
    """The processes that are or were part of the attempt."""
    exits: Sequence[Exit] = ()
    """How processes of the attempt have ended."""
    events: Sequence[LogEvent] = ()
    """What the log lines report, oldest first."""
    checkpoints: Sequence[Checkpoint] = ()
    """The checkpoints on the disk, complete or not, oldest first."""
    files: StepFiles = StepFiles()
    server: ServerProbe = ServerProbe()
    good_end: bool = False
    """True if the attempt has ended because its training is complete."""
    stop_requested: bool = False
    """True if somebody has ordered the agent to stop the run, so nothing that follows from the stop
    is a failure.
    """
    stopped_before: frozenset[int] = frozenset()
    """The numbers of those earlier attempts that the agent was ordered to stop."""
    stops: Mapping[int, Stop] = field(default_factory=dict)
    """For a run of which only the files are read: by attempt, the end by a signal that its logs
    show.
    """
    history: Sequence[StepRecord] = ()
    """The numbers (loss, reward and so on) of the last steps of this attempt, with `side` (such as
    trainer), `step` and `m`, the monotonic second at which the step finished. The steps of one side
    stand together, in order.
    """
    resume: int | None = None
    """The step that this attempt was to resume from, -1 for the latest one, or None for a fresh
    start.
    """
    config: FlatSettings | None = None
    """The run's settings by dotted key, those of the config file overridden by those of the command
    line, or None if they are unknown.
    """
    environment: RunEnvironment | None = None
    """What is scanned only at long intervals, such as sizes and local W&B runs. None before the
    first of these scans.
    """
    with_pod: bool = False
    """True if the attempt ended because the whole pod did: it was rebooted, or its container was
    stopped and started again.
    """
    untouched_s: float | None = None
    """For a run of which only the files are read: for how many seconds nobody has written to its
    logs and checkpoints, by the clock of the machine that reads them. None for every other run.
    """
    leaving: Intent | None = None
    """How far the run had come when the agent was ordered to end, as the agent recorded it."""

    @property
    def trainer(self) -> Trainer:
        """Return the run's trainer. Raises BadRequest if this program knows no trainer with the
        run's trainer id.
        """
        return registry.get(self.spec.trainer)

    @property
    def over(self) -> bool:
        """Return True if the attempt is known to have ended."""
        return self.state in ("ended", "lost")

    def setting(self, *keys: str) -> Any:
        """Return the value of the first of these dotted keys that the run's settings have. Return
        None if they have none of them, or if the settings are unknown.
        """
        for key in keys:
            if self.config is not None and key in self.config:
                return self.config[key]
        return None

    def under(self, prefix: str) -> FlatSettings:
        """Return the settings whose dotted keys begin with `prefix` and a dot, by their full keys.
        The result is empty if there are none or if the settings are unknown.
        """
        return FlatSettings(self.config or {}).under(prefix)

    def alive(self, *components: str) -> list[Member]:
        """Return the living processes with these parts in the run (components such as "trainer" or
        "inference"), in the order of the arguments.
        """
        found = []
        for component in components:
            found += [m for m in self.living if m.component == component]
        return found

    @property
    def living(self) -> list[Member]:
        """Return all living processes of the attempt."""
        return [m for m in self.members if m.alive]

    def exit_of(self, member: Member) -> Exit | None:
        """Return how a process of the run ended, or None if it lives or that is unknown."""
        return next((end for end in self.exits if end.identity == member.identity), None)

    def first(self, component: str) -> Member | None:
        """Return the first process with this part in the run (a component such as "trainer"), alive
        or ended. Return None if there was none.
        """
        return next((m for m in self.members if m.component == component), None)

    def ever(self, component: str) -> bool:
        """Return True if this attempt has or had a process with this part in the run (a component
        such as "trainer").
        """
        return self.first(component) is not None

    def events_of(self, kind: str, side: str | None = None) -> list[LogEvent]:
        """Return the events (meanings of log lines) of the kind `kind`, for example "step", oldest
        first. With `side`, only those are returned that this side (such as "trainer") wrote.
        """
        found = []
        for e in self.events:
            if e.event.kind == kind and side in (None, e.event.side):
                found.append(e)
        return found

    def last_event(self, kind: str, side: str | None = None, **values: Any) -> LogEvent | None:
        """Return the newest event (meaning of a log line) of the kind `kind`, for example "step",
        or None if there is none. With `side`, only events that this side (such as "trainer") wrote
        count. With `values`, only events count that have these values.
        """
        for event in reversed(self.events_of(kind, side)):
            if values.items() <= event.event.values.items():
                return event
        return None

    @property
    def winding_down(self) -> LogEvent | None:
        """Return the trainer's final line if it has written one and no process of the trainer or
        the orchestrator lives any more, else None. What ends after that line is no failure: the
        launcher then ends the processes that it has started, the inference server first, and that
        takes up to a minute.
        """
        if self.alive("trainer", "rank", "orchestrator"):
            return None
        return self.last_event("finished", "trainer")

    @property
    def steps(self) -> list[int]:
        """Return the steps of all checkpoints on the disk, complete or not, oldest first."""
        return [c.step for c in self.checkpoints]

    @property
    def complete(self) -> dict[int, Checkpoint]:
        """Return the complete checkpoints on the disk by their step, oldest first."""
        return {c.step: c for c in self.checkpoints if c.complete}

    @property
    def newest_complete(self) -> Checkpoint | None:
        """Return the complete checkpoint with the highest step, or None if no checkpoint is
        complete.
        """
        complete = self.complete
        if complete:
            return complete[max(complete)]
        return None

    @property
    def fallback(self) -> str | None:
        """Return "start-afresh" if no checkpoint is complete: the id of the playbook (described
        repair) to use in place of one that resumes. Return None if a checkpoint is complete.
        """
        return None if self.complete else "start-afresh"


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A process that holds memory of the GPU with the device index `gpu`. `mem` is bytes, or None
    if unknown. `component` is its part in the run, for example "engine". `run` is the run to which
    the process belongs, if that run's attempt lives. `dead_run` is the run of this pod whose
    attempt has ended and to which the process is proved to have belonged. Both are None for a
    process of no known run. `same_user` is True if this agent's user owns the process.
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
    """What the last sample of telemetry shows of the pod's GPUs. `state` says if they could be read
    ("ok") or why not. `pids` says whether the driver's pids are those of this pod ("local"), of
    another namespace ("foreign") or "unknown". All mappings are by device index; `used` and `total`
    are bytes of memory.
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
    """By device index: the GPU's name."""
    util: Mapping[int, float] = field(default_factory=dict)
    """Percent, 0 to 100, of the last sample."""
    power: Mapping[int, float] = field(default_factory=dict)
    """The share of the power limit, 0 to 1, of the last sample."""
    mean_util: Mapping[int, float] = field(default_factory=dict)
    """Percent over the last ten minutes, only for devices that were seen for most of them."""

    def held_by(self, run: RunFacts, components: Sequence[str]) -> set[int]:
        """Return the indices of the devices on which processes of `run` with these parts in it
        (components such as "trainer") hold memory.
        """
        return {h.gpu for h in self.holders if h.run == run.name and h.component in components}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything that one scan of a pod has found, for the detectors (the agent's functions that
    look for failures). `now_m` is the time of the scan in seconds of the monotonic clock, and
    `now_t` the same as a Unix time in seconds. `coverage` lists in words what could not be seen,
    and is part of every verdict. `disks` are the filesystems that runs write to and `shm` is the
    pod's shared memory; None means not measured. `console` has what only the console can see; it is
    None if no console has supplied anything.
    """

    now_m: float
    now_t: float
    runs: Sequence[RunFacts] = ()
    gpus: GpuFacts = GpuFacts()
    coverage: Sequence[str] = ()
    disks: Sequence[Disk] | None = None
    shm: Disk | None = None
    oom_kills: int | None = None
    """How many processes in the agent's control group the kernel has killed for lack of memory
    since this agent began to scan, or None if not known.
    """
    oom_kill_m: float | None = None
    """The monotonic second at which that number was last seen to grow."""
    console: ConsoleFacts | None = None
    unseen: frozenset[str] = frozenset()
    """The names of runs that could not be looked at in this scan and so are missing in `runs`. They
    may go on or have ended: what was known of them before stays.
    """

    def disk(self, run: str) -> Disk | None:
        """Return the filesystem that the run `run` writes its output to, or None if that is
        unknown, for example because it was not measured in the last minute.
        """
        return next((disk for disk in self.disks or () if run in disk.runs), None)

    def fullest(self, run: str) -> Disk | None:
        """Return the fullest of the filesystems that the run `run` writes to, or None if none was
        measured.
        """
        measured = []
        for disk in self.disks or ():
            if disk.share is not None and (run in disk.runs or run in disk.others):
                measured.append(disk)
        return max(measured, key=lambda disk: disk.share or 0.0, default=None)

    def rows(self, what: str, run: RunFacts) -> list[Mapping[str, Any]]:
        """Return the rows about the run `run` in the list `what`, for example "pods", that the
        console has supplied. The lists, and the keys of the dictionaries in them, are described at
        class ConsoleFacts. The result is empty if there is no such row or list.
        """
        if self.console is not None:
            return self.console.of(what, run.name)
        return []


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A failure of a run that a detector (a function of the agent) or a log signature (a pattern of
    log lines) reports at one moment. `failure` is the id of the failure's playbook, and `summary` a
    sentence for people. `anchor` is a text that names the first evidence; the incident's id is made
    from it, so that the same cause, seen again, is the same incident. `coverage` lists what could
    not be seen.
    """

    failure: str
    run: str
    attempt: int
    summary: str
    evidence: Sequence[Evidence]
    anchor: str
    severity: Severity | None = "critical"
    role: Role | None = "root"
    """None here and in `severity` means that the failure's playbook decides."""
    coverage: Sequence[str] = ()
    playbook: str | None = None
    """The id of another playbook than the failure's own, if the own one cannot repair this case."""
    title: str = ""
    """A title for people, or "" for that of the playbook."""
    count: int = 1
    """How many times the failure was seen. The evidence has the first and the latest."""
    others: Sequence[str] = ()
    """The names of the other runs without which the failure cannot be seen."""
