"""What the console knows of one pod, with the age of everything."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bs4_common.failures.evidence import Evidence, evidence_of
from bs4_common.greeting import AgentGreeting
from bs4_common.ledger import (
    ActionView,
    AttemptView,
    IncidentView,
    JournalRecord,
    Ledger,
    PlanView,
    RunView,
    StepView,
)
from bs4_common.telemetry import EVAL
from bs4_common.trainers import steps_done
from bs4_console import ceilings
from bs4_console.errors import LinkState
from bs4_console.pods.gate.rules import RecordRefused
from bs4_console.pods.gate.weight import JournalWeight, thin, weight_of
from bs4_console.pods.links import Links
from bs4_console.pods.observer import Observation, without_the_pod
from bs4_console.pods.samples import Device, DiskUsage, Process, Samples, StepRecord, Telemetry

if TYPE_CHECKING:
    from bs4_console.pods.liveness import Verdict

__all__ = [
    "ActionView",
    "AttemptView",
    "Evidence",
    "IncidentView",
    "Ledger",
    "Link",
    "PlanView",
    "PodState",
    "RunState",
    "RunView",
    "StepView",
    "evidence_of",
]

#: Seconds. Older telemetry is shown as stale. The agent samples at 1 Hz and a read takes a round
#: trip, so 5 s is never normal.
STALE_S = 5.0
#: How many runs and incidents of one pod are shown. A pod that names more is not believed.
RUNS_MOST, INCIDENTS_MOST = 1_000, 5_000
#: How many of the last records are searched for the newest step, because lines may come late.
_LATE = 8
#: How many telemetry samples are kept in memory (ten minutes at 1 Hz). Older ones are read back
#: from the mirror.
TELEMETRY_HISTORY = 600


@dataclass(kw_only=True)
class Link:
    """The state of the console's connection to one pod. (It says nothing about the runs there.)
    Times are seconds of this machine's monotonic clock.
    """

    state: LinkState = "new"
    """new, connecting (the first time only), up, or the word of the present error (unreachable,
    refused, lost, auth failed, ...).
    """
    since: float = field(default_factory=time.monotonic)
    """The time since which the link has been up, or down."""
    detail: str = ""
    """A sentence that says what is wrong with the link, or ""."""
    next_step: str = ""
    """A sentence that says what a person can do about it, or ""."""
    rtt: float | None = None
    """The shortest round trip of the last pings in seconds."""
    clock_offset: float | None = None
    """Seconds by which the pod's wall clock is ahead of this machine's, from the ping with the
    shortest round trip. It is shown if it is above 2 s, and used only for ages and for views that
    merge pods.
    """
    attempts: int = 0
    """How many times in a row it was tried to connect; 0 once the link is up."""
    retry_at: float | None = None
    """The time of the next attempt to connect, or None if none is planned."""
    last_up: float | None = None
    """The time at which the link was up last, or None if it never was."""

    @property
    def up(self) -> bool:
        """Return True if the console is connected to the pod now."""
        return self.state == "up"

    def set(self, state: LinkState, detail: str = "", next_step: str = "") -> None:
        """Change the state of the link. If it comes up or goes down, also set `since`, the time
        since which it has been up or down. `state` is "up" or the word for why the link is not up.
        `detail` says what is wrong and `next_step` what to do, each as a sentence for a person or
        "".
        """
        if "up" in (state, self.state) and state != self.state:
            # A link that was lost and is now unreachable has been down since it was lost.
            self.since = time.monotonic()
        if state == "up":
            self.attempts, self.retry_at = 0, None
        if self.state == "up" or state == "up":
            self.last_up = time.monotonic()
        self.state, self.detail, self.next_step = state, detail, next_step


def devices(pod: PodState) -> Sequence[Device]:
    """Return the GPUs in the pod's newest telemetry record, or an empty list if it has none."""
    return (pod.latest.get("gpus") or {}).get("devices") or []


def disk_percent(disk: DiskUsage) -> float | None:
    """Return how full a disk is for an ordinary user, in percent, as `df` shows it: what is
    reserved for root counts as used up. `disk` is the disk as telemetry describes it. Return None
    if its filesystem does not answer.
    """
    used, free, total = disk.get("used"), disk.get("free"), disk.get("total")
    if used is None or not total:
        return None
    room = total if free is None else used + free
    return 100.0 * float(used) / float(room or 1)


@dataclass(kw_only=True)
class RunState:
    """One run on one pod. `view` has what the pod's journal (the agent's log of actions and
    incidents) says of the run, `trainer_steps` and `orchestrator_steps` the records of its training
    steps, and `components` its processes. Of a pod with very many steps, some of the older ones are
    left out here; the copy of the pod's data on this machine's disk has them all. `step_seen` is
    the time at which the pod recorded the newest step, in seconds of the console's monotonic clock.
    """

    view: RunView
    trainer_steps: list[StepRecord] = field(default_factory=list)
    orchestrator_steps: list[StepRecord] = field(default_factory=list)
    eval_points: list[StepRecord] = field(default_factory=list)
    """The results of the run's validations and evaluations. In each, `side` is `eval:` and the name
    of the metric, and `val` its value.
    """
    components: Sequence[Process] = ()
    alive: bool = False
    """True if processes of the run are alive."""
    stopped: bool = False
    """True if the newest attempt ended because a person submitted its stop. That is no failure,
    whatever its exit code.
    """
    step_seen: float | None = None
    """Console monotonic time at which the pod recorded the newest step. It gives the step's age
    even if the record was read much later.
    """

    @property
    def name(self) -> str:
        """Return the run's name."""
        return self.view.name

    @property
    def step(self) -> int | None:
        """Return the number of the newest training step that the trainer has finished, or None if
        it has finished none. The orchestrator may be further ahead. verl can log steps out of
        order, so the highest of the attempt's last 8 records is used.
        """
        if not self.trainer_steps:
            return None
        attempt = self.trainer_steps[-1].get("attempt")
        recent = (self.trainer_steps[-n] for n in range(1, min(_LATE, len(self.trainer_steps)) + 1))
        return max(int(row["step"]) for row in recent if row.get("attempt") == attempt)

    @property
    def steps_done(self) -> int:
        """Return how many steps the run has done, also by earlier attempts. That is another number
        than `step` if the trainer's first step has the number 0.
        """
        if self.step is None:
            return 0
        return steps_done(self.view.trainer, self.step)

    @property
    def step_of_earlier(self) -> bool:
        """Return True if `step` was finished by an earlier attempt of the run, because the present
        one has finished none yet.
        """
        present = self.view.attempt
        if present is None or not self.trainer_steps:
            return False
        number = self.trainer_steps[-1].get("attempt")
        return number is not None and number < present.number

    @property
    def has_stepped(self) -> bool:
        """Return True if the newest attempt has finished a training step."""
        return self.step is not None and not self.step_of_earlier

    def series(self, key: str) -> list[tuple[int, float]]:
        """Return the values of the metric `key` as (training step, value) pairs, sorted by step.
        For a step that several attempts did, the latest value is used. Values that are not numbers
        are left out.
        """
        rows = self.trainer_steps
        if key in ("reward", "async_level", "off_policy", "trainable", "truncation"):
            rows = self.orchestrator_steps
        values = {}
        for row in rows:
            value = row.get(key)
            if isinstance(value, (int, float)):
                values[row["step"]] = value
        return sorted(values.items())

    def step_seconds(self) -> float | None:
        """Return the median of the durations of the last 20 training steps of the trainer, in
        seconds. Return None if no step has a duration yet.
        """
        times = [row.get("time_s") for row in list(self.trainer_steps)[-20:]]
        recent = sorted(time_s for time_s in times if isinstance(time_s, (int, float)))
        return recent[len(recent) // 2] if recent else None

    def eta_seconds(self) -> float | None:
        """Return the seconds until the run reaches its max_steps at its present pace. Return None
        if the pace or max_steps is unknown, if the run is not alive, or if its newest attempt has
        finished no step yet, whose pace nobody knows.
        """
        pace, goal = self.step_seconds(), self.view.max_steps
        if pace is None or not self.has_stepped or not goal or not self.alive:
            return None
        return max(0, goal - self.steps_done) * pace

    @property
    def word(self) -> str:
        """Return the state of the run in one word: registered, starting, running, finished, failed
        or stopped. It is starting until its newest attempt has finished a training step. Screens
        show it and sort by it.
        """
        attempt = self.view.attempt
        if attempt is None:
            return "registered"
        if attempt.state != "ended":
            return "running" if self.has_stepped else "starting"
        if attempt.good:
            return "finished"
        return "stopped" if self.stopped else "failed"


@dataclass(kw_only=True)
class PodState:
    """Everything that the console shows of one pod. Only the pod's session changes it, on the event
    loop, and calls `changed` after each batch of changes.
    """

    name: str
    address: str = ""
    former: bool = False
    """True for what is saved of an earlier agent's home under this name: the pod was made anew."""
    read_only: bool = False
    looks_only: bool = False
    """True if the pod's agent has said that the SSH key of this login may only read."""
    link: Link = field(default_factory=Link)
    hello: AgentGreeting = field(default_factory=AgentGreeting)
    """The greeting of the agent. It is {} until an agent has answered."""
    ledger: Ledger = field(default_factory=Ledger)
    """What the pod's journal (the agent's log of actions and incidents) has told so far."""
    telemetry: Samples = field(default_factory=lambda: Samples(TELEMETRY_HISTORY))
    telemetry_seen: float | None = None
    """The time, in seconds of the console's monotonic clock, at which the newest telemetry record
    arrived. For a record that was saved on this machine earlier, the time at which it was recorded.
    """
    notes: dict[str, str] = field(default_factory=dict)
    """Sentences about problems of this view itself, by subject: `mirror` (this machine no longer
    keeps data), or a stream with a record that was not understood.
    """
    runs: dict[str, RunState] = field(default_factory=dict)
    streams: list[str] = field(default_factory=list)
    """The names of the streams (logs and lists of records) that can be read from the pod, such as
    "log/RUN/trainer".
    """
    links: Links = field(default_factory=Links)
    """The last PCIe and NVLink readings of each GPU. `link` is something else: the connection."""
    sights: dict[str, Observation] = field(default_factory=dict)
    """The newest observation of W&B, by run (checks/outside.py). Empty if W&B was not polled."""
    unseen: tuple[str, ...] = ()
    """Phrases that say what W&B could not be asked, and why, when it was polled last."""
    provider: Observation | None = None
    """The newest observation of the pod's provider. None if it was not polled."""
    lost: Verdict | None = None
    """The conclusion on what became of the pod, while nothing answers there or after it was
    rebooted (see fleet/liveness_watch.py). None otherwise.
    """
    progress: str = ""
    """The present step of the connection ("uploading the agent"), for the screen."""
    listeners: list[Callable[[PodState], None]] = field(default_factory=list)
    _steps_bytes: int = 0
    """Bytes of memory that the step records of all runs take at most."""
    _journal: JournalWeight = field(default_factory=JournalWeight)

    def changed(self) -> None:
        """Call every function in `listeners` with this state."""
        for listener in self.listeners:
            listener(self)

    @property
    def latest(self) -> Telemetry:
        """Return the newest telemetry record, or {} if there is none."""
        return self.telemetry.newest or {}

    def age(self) -> float | None:
        """Return the seconds since the newest telemetry arrived here, or since it was recorded if
        it was read from what is saved on this machine. Return None if there is no telemetry.
        """
        if self.telemetry_seen is None:
            return None
        return time.monotonic() - self.telemetry_seen

    @property
    def stale(self) -> bool:
        """Return True if the newest telemetry is older than 5 seconds (STALE_S), or if there is
        none at all.
        """
        age = self.age()
        return age is None or age > STALE_S

    def forget(self) -> None:
        """Clear everything that was known of the pod, because an agent with another home directory,
        so perhaps another machine, now answers under its name.
        """
        self.ledger = Ledger()
        self._journal = JournalWeight()
        self._steps_bytes = 0
        self.telemetry.clear()
        self.telemetry_seen = None
        self.runs.clear()
        self.links = Links()
        self.sights.clear()
        self.unseen, self.provider, self.lost = (), None, None
        self.streams = []
        self.notes.clear()

    def apply_journal(self, record: JournalRecord) -> None:
        """Apply one record of the pod's journal (the agent's log of actions and incidents), already
        checked by pods/gate/records.py, to the state. Raises RecordRefused if the record names a
        new run or incident and the pod has 1,000 runs or 5,000 incidents already, or if what the
        journal tells takes more than ceilings.JOURNAL_MEMORY (12 MiB) of memory.
        """
        self._within_limits(record)
        self._journal.admit(record, self.ledger)
        self.ledger.apply(record)
        if record.get("type") != "run":
            return
        name = record["run"]
        view = self.ledger.runs.get(name)
        if view is None:
            self.runs.pop(name, None)
            return
        run = self.runs.setdefault(name, RunState(view=view))
        run.view = view
        attempt = view.attempt
        run.stopped = attempt is not None and self.stop_of(name, attempt) is not None

    def _within_limits(self, record: JournalRecord) -> None:
        kind, runs, incidents = record.get("type"), self.ledger.runs, self.ledger.incidents
        if kind == "run" and len(runs) >= RUNS_MOST and record["run"] not in runs:
            raise RecordRefused(f"the pod has {RUNS_MOST:,} runs already")
        is_full = kind == "incident" and len(incidents) >= INCIDENTS_MOST
        if is_full and record["incident"] not in incidents:
            raise RecordRefused(f"the pod has {INCIDENTS_MOST:,} incidents already")

    def stop_of(self, run: str, attempt: AttemptView) -> ActionView | None:
        """Return the stop that a person submitted while this attempt of `run` lived and behind
        which it ended, or None if there was none.
        """
        if attempt.ended_t is None:
            return None
        for action in self.ledger.actions.values():
            is_stop = action.kind == "stop" and action.run == run
            if is_stop and attempt.started_t <= action.accepted_t <= attempt.ended_t:
                return action
        return None

    def apply_telemetry(self, record: Telemetry, *, kept: bool = False) -> None:
        """Apply one telemetry record, which was checked before, to the state. `kept` is True if the
        record was read from what is saved on this machine; its age is then computed from the time
        in the record. If `kept` is False, the record has just arrived, and its age counts from now.
        """
        self.links.fill(record)
        self.telemetry.append(record)
        self.telemetry_seen = self._recorded(record["t"]) if kept else time.monotonic()
        for entry in record.get("runs") or ():
            if run := self.runs.get(entry["run"]):
                run.components, run.alive = entry.get("components") or [], bool(entry.get("alive"))

    def apply_step(self, run: str, record: StepRecord) -> None:
        """Apply the record of one training step of `run`, which was checked before, to the state.
        Nothing happens if the journal (the agent's log of actions and incidents) has not named that
        run.
        """
        if (state := self.runs.get(run)) is None:
            return
        # All keys are read before anything changes: a record without one of them must not be
        # applied in part.
        side, _, seen = record["side"], record["step"], self._recorded(record["t"])
        self._steps_bytes += weight_of(record)
        if side.startswith(EVAL):
            state.eval_points.append(record)
        else:
            (state.trainer_steps if side == "trainer" else state.orchestrator_steps).append(record)
            state.step_seen = seen
        if self._steps_bytes > ceilings.STEPS_MEMORY:
            histories = []
            for each in self.runs.values():
                histories += [each.trainer_steps, each.orchestrator_steps, each.eval_points]
            self._steps_bytes = thin(histories, ceilings.STEPS_MEMORY * 3 // 4)

    def _recorded(self, t: float) -> float:
        """Return the console's monotonic time of the wall second `t` of the pod, by the pod's clock
        as it is now.
        """
        return time.monotonic() - max(
            0.0, time.time() - (float(t) - (self.link.clock_offset or 0.0))
        )

    def worst(self) -> tuple[int, str]:
        """Return the most serious problem of this pod and its runs as (severity, phrase). A higher
        number is more serious: 0 is no problem (1 is not used), 2 a run that failed or an open
        incident that is not critical, 3 a pod that cannot be reached, and 4 a critical incident.
        The phrase is for a person, and "" if there is no problem.
        """
        incidents = self.ledger.open_incidents()
        for incident in incidents:
            if incident.severity == "critical":
                return 4, incident.title
        if not self.link.up and self.link.state not in ("new", "connecting"):
            phrase: str = self.link.state
            if self.link.detail:
                phrase = f"{phrase}: {self.link.detail}"
            for name, sight in self.sights.items():
                if name in self.runs and (text := without_the_pod(name, sight)):
                    return 3, f"{phrase} {text}".strip()
            return 3, phrase.strip()
        if incidents:
            return 2, incidents[0].title
        for run in self.runs.values():
            if run.word == "failed":
                return 2, f"{run.name} ended badly"
        return 0, ""
