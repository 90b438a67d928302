"""What the console knows of one pod, with the age of everything."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bs4_agent.ledger import ActionView, IncidentView, Ledger, PlanView, RunView, StepView
from bs4_agent.trainers.steps import EVAL
from bs4_console.errors import LinkState
from bs4_console.pods.links import Links
from bs4_console.pods.records import RecordRefused
from bs4_console.pods.samples import Samples
from bs4_console.pods.witness import Sight, without_the_pod

if TYPE_CHECKING:
    from bs4_console.pods.liveness import Verdict

__all__ = [
    "ActionView",
    "IncidentView",
    "Ledger",
    "Link",
    "PlanView",
    "PodState",
    "RunState",
    "RunView",
    "StepView",
]

#: Telemetry older than this is shown as stale. The agent samples at 1 Hz and a read waits a round
#: trip, so 5 s is never normal.
STALE_S = 5.0
#: Steps kept in memory per run and side for the curves.
STEP_HISTORY = 20_000
#: Runs and incidents of one pod that are shown; a pod that names more is not believed.
RUNS_MOST, INCIDENTS_MOST = 1_000, 5_000
#: Records among which the newest step is looked for: so far lines have come late.
_LATE = 8
#: Telemetry samples kept in memory (ten minutes at 1 Hz); older ones are read back from the mirror.
TELEMETRY_HISTORY = 600


@dataclass(kw_only=True)
class Link:
    """The connection to a pod. It says nothing about the runs there. Times are the console's
    monotonic seconds.
    """

    state: LinkState = "new"
    """new, connecting (the first time), up, or the word of the error that stands (unreachable,
    refused, lost, auth failed, ...).
    """
    since: float = field(default_factory=time.monotonic)
    """Since when it has been up, or not up."""
    detail: str = ""
    next_step: str = ""
    rtt: float | None = None
    """Seconds, the lowest of the last pings."""
    clock_offset: float | None = None
    """Pod wall clock minus ours, at the lowest round trip; shown above 2 s, applied only to ages
    and where pods are merged.
    """
    attempts: int = 0
    retry_at: float | None = None
    last_up: float | None = None

    @property
    def up(self) -> bool:
        return self.state == "up"

    def set(self, state: LinkState, detail: str = "", next_step: str = "") -> None:
        if "up" in (state, self.state) and state != self.state:
            # lost, then unreachable: it has been down since it was lost
            self.since = time.monotonic()
        if state == "up":
            self.attempts, self.retry_at = 0, None
        if self.state == "up" or state == "up":
            self.last_up = time.monotonic()
        self.state, self.detail, self.next_step = state, detail, next_step


@dataclass(kw_only=True)
class RunState:
    """One run on one pod: the journalled view plus its live numbers."""

    view: RunView
    trainer_steps: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=STEP_HISTORY))
    orchestrator_steps: deque[dict[str, Any]] = field(
        default_factory=lambda: deque(maxlen=STEP_HISTORY)
    )
    eval_points: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=STEP_HISTORY))
    """Points of its validations and evaluations: `side` is `eval:` and the name, `val` the
    value.
    """
    components: list[dict[str, Any]] = field(default_factory=list)
    alive: bool = False
    stopped: bool = False
    """The newest attempt ended because somebody had submitted its stop: no failure, whatever its
    exit code.
    """
    step_seen: float | None = None
    """Console monotonic time at which the newest step was recorded on the pod: its age, also when
    it was read much later.
    """

    @property
    def name(self) -> str:
        return self.view.name

    @property
    def step(self) -> int | None:
        """The newest finished step of the trainer (the orchestrator runs ahead of it). Lines of
        verl come late: of the last few records of an attempt the highest counts.
        """
        if not self.trainer_steps:
            return None
        attempt = self.trainer_steps[-1].get("attempt")
        recent = (self.trainer_steps[-n] for n in range(1, min(_LATE, len(self.trainer_steps)) + 1))
        return max(int(row["step"]) for row in recent if row.get("attempt") == attempt)

    def series(self, key: str) -> list[tuple[int, float]]:
        """(step, value) of one metric, oldest first; the last attempt to do a step wins;
        non-numbers are left out.
        """
        if key in ("reward", "async_level", "off_policy", "trainable", "truncation"):
            rows = self.orchestrator_steps
        else:
            rows = self.trainer_steps
        values = {}
        for row in rows:
            if isinstance(row.get(key), (int, float)):
                values[row["step"]] = row[key]
        return sorted(values.items())

    def step_seconds(self) -> float | None:
        """Median duration of the last 20 trainer steps, in seconds."""
        recent = sorted(
            row["time_s"]
            for row in list(self.trainer_steps)[-20:]
            if isinstance(row.get("time_s"), (int, float))
        )
        return recent[len(recent) // 2] if recent else None

    def eta_seconds(self) -> float | None:
        """Seconds to max_steps at the present pace; None while either is unknown or nothing
        runs.
        """
        pace, last, goal = self.step_seconds(), self.step, self.view.max_steps
        if pace is None or last is None or not goal or not self.alive:
            return None
        return max(0, goal - 1 - last) * pace

    @property
    def word(self) -> str:
        """registered, starting, running, finished, failed, stopped: for the screen and for
        sorting.
        """
        attempt = self.view.attempt
        if attempt is None:
            return "registered"
        if attempt.state == "ended":
            if attempt.good:
                return "finished"
            if self.stopped:
                return "stopped"
            return "failed"
        if self.step is not None:
            return "running"
        return "starting"


@dataclass(kw_only=True)
class PodState:
    """Everything shown of one pod. Mutated only by its session, on the event loop; `changed` is
    called after each batch of changes.
    """

    name: str
    address: str = ""
    read_only: bool = False
    link: Link = field(default_factory=Link)
    hello: dict[str, Any] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    telemetry: Samples = field(default_factory=lambda: Samples(TELEMETRY_HISTORY))
    telemetry_seen: float | None = None
    """Console monotonic time when the newest telemetry record arrived; for one that was kept from
    earlier, when it was recorded.
    """
    notes: dict[str, str] = field(default_factory=dict)
    """What is wrong with this view itself, a sentence each, by subject: `mirror` (this machine
    keeps nothing more), or a stream with a record that was not understood.
    """
    runs: dict[str, RunState] = field(default_factory=dict)
    streams: list[str] = field(default_factory=list)
    links: Links = field(default_factory=Links)
    sights: dict[str, Sight] = field(default_factory=dict)
    """By run, what W&B said at the last look (checks/outside.py); empty where nobody asked."""
    unseen: tuple[str, ...] = ()
    """What W&B could not be asked at that look, and why, as phrases."""
    provider: Sight | None = None
    """What the pod's provider said of its machine at the last look; None where nobody asked."""
    lost: Verdict | None = None
    """What became of the pod while nothing answers there, or that it was rebooted
    (fleet/liveness_watch.py). None else.
    """
    progress: str = ""
    """What the connection is doing right now ("uploading the agent"), for the screen."""
    listeners: list[Callable[[PodState], None]] = field(default_factory=list)

    def changed(self) -> None:
        for listener in self.listeners:
            listener(self)

    @property
    def latest(self) -> dict[str, Any]:
        return self.telemetry.newest or {}

    def age(self) -> float | None:
        """Seconds since the newest telemetry arrived here, or None when none ever did."""
        if self.telemetry_seen is None:
            return None
        return time.monotonic() - self.telemetry_seen

    @property
    def stale(self) -> bool:
        age = self.age()
        return age is None or age > STALE_S

    def forget(self) -> None:
        """Another agent's home answers under this name: nothing known before is of this pod."""
        self.ledger = Ledger()
        self.telemetry.clear()
        self.telemetry_seen = None
        self.runs.clear()
        self.links = Links()
        self.sights.clear()
        self.unseen, self.provider, self.lost = (), None, None
        self.streams = []
        self.notes.clear()

    def apply_journal(self, record: dict[str, Any]) -> None:
        """Fold one checked record (pods/records.py). RecordRefused when the pod has too many runs
        or incidents already.
        """
        self._within_limits(record)
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
        run.stopped = self._was_stopped(view)

    def _within_limits(self, record: dict[str, Any]) -> None:
        known = self.ledger
        if (
            record.get("type") == "run"
            and record["run"] not in known.runs
            and len(known.runs) >= RUNS_MOST
        ):
            raise RecordRefused(f"the pod has {RUNS_MOST:,} runs already")
        if (
            record.get("type") == "incident"
            and record["incident"] not in known.incidents
            and len(known.incidents) >= INCIDENTS_MOST
        ):
            raise RecordRefused(f"the pod has {INCIDENTS_MOST:,} incidents already")

    def _was_stopped(self, view: RunView) -> bool:
        attempt = view.attempt
        if attempt is None or attempt.ended_t is None:
            return False
        stops = []
        for action in self.ledger.actions.values():
            if action.kind == "stop" and action.run == view.name:
                stops.append(action.accepted_t)
        return any(attempt.started_t <= asked <= attempt.ended_t for asked in stops)

    def apply_telemetry(self, record: dict[str, Any], *, kept: bool = False) -> None:
        """`kept`: from the mirror, so as old as it says."""
        self.links.fill(record)
        self.telemetry.append(record)
        if kept:
            self.telemetry_seen = self._recorded(record)
        else:
            self.telemetry_seen = time.monotonic()
        for entry in record.get("runs") or ():
            if run := self.runs.get(entry["run"]):
                run.components, run.alive = entry.get("components") or [], bool(entry.get("alive"))

    def apply_step(self, run: str, record: dict[str, Any]) -> None:
        if (state := self.runs.get(run)) is None:
            return
        # Read at once: a record without them must not be half taken in.
        side, _, seen = record["side"], record["step"], self._recorded(record)
        if side.startswith(EVAL):
            state.eval_points.append(record)
            return
        (state.trainer_steps if side == "trainer" else state.orchestrator_steps).append(record)
        state.step_seen = seen

    def _recorded(self, record: dict[str, Any]) -> float:
        """Console monotonic time at which the pod wrote `record`, by its own clock as it is now."""
        ours = float(record["t"]) - (self.link.clock_offset or 0.0)
        return time.monotonic() - max(0.0, time.time() - ours)

    def worst(self) -> tuple[int, str]:
        """(rank, phrase) of what needs a person first: 0 nothing, 1 notice, 2 warning, 3 unknown, 4
        critical.
        """
        incidents = self.ledger.open_incidents()
        if any(i.severity == "critical" for i in incidents):
            return 4, next(i.title for i in incidents if i.severity == "critical")
        if not self.link.up and self.link.state not in ("new", "connecting"):
            if self.link.detail:
                known = f"{self.link.state}: {self.link.detail}"
            else:
                known = self.link.state
            told = ""
            for run, sight in self.sights.items():
                if run in self.runs and (text := without_the_pod(run, sight)):
                    told = text
                    break
            return 3, f"{known} {told}".strip()
        if incidents:
            return 2, incidents[0].title
        failed = []
        for r in self.runs.values():
            if r.word == "failed":
                failed.append(r)
        if failed:
            return 2, f"{failed[0].name} ended badly"
        return 0, ""
