"""The fold of a journal: the present state of a pod's runs, incidents, actions, plans and modes.

The fold is pure and incremental. The agent rebuilds its state with it after a restart, and the
console shows a pod with it. The same records always give the same answer, even years later over a
directory of finished segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from bs4_common.checkpoints.sync_view import SyncRecord, SyncView
from bs4_common.failures.evidence import Evidence
from bs4_common.states import ActionState, IncidentState, Role, RunState, Severity, StepState, Where

#: Types of records that are folded; each has a method of its own.
FOLDED = frozenset(
    {
        "agent",
        "gap",
        "mode",
        "order",
        "guard",
        "sync",
        "report",
        "note",
        "run",
        "incident",
        "plan",
        "action",
    }
)
#: What the fold may raise for a record that no agent writes.
NOT_FOLDED = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError)
#: Fields that are texts in every record, because things are found by them.
_NAMES = ("run", "event", "action", "kind", "playbook", "plan_hash", "incident", "failure")
#: Steps that one action can have at most.
ACTION_STEPS_MOST = 1_000
#: Ended rotations of a run that stay in memory.
ROTATIONS_KEPT = 50
#: The state of a step after each event.
_STEP_STATES: dict[str, StepState] = {
    "intent": "running",
    "step-done": "done",
    "step-skipped": "skipped",
    "step-failed": "failed",
}
#: Events after which an action does nothing more.
ACTION_ENDS: frozenset[ActionState] = frozenset(
    {"done", "failed", "plan-changed", "busy", "interrupted", "refused"}
)


class TrackedRow(TypedDict, total=False):
    """Where W&B shows one side of a run (trainer or orchestrator): the W&B run's id, project,
    entity and server.
    """

    side: str
    id: str
    project: str
    entity: str
    server: str


class StepRow(TypedDict, total=False):
    """One step of an action as the record of its acceptance shows it to a person: title and
    command.
    """

    title: str
    command: str


class JournalRecord(SyncRecord, total=False):
    """A record of the journal, the agent's log of actions and incidents. `type` is the type of the
    record, such as "run", "incident" or "action", and each type has its own of these fields;
    docs/wire.md lists them. An older or newer agent may have other fields.
    """

    m: float
    """Seconds of the monotonic clock of the machine's boot with the id `b`."""
    b: str
    """The id of the boot in which the record was made."""
    seq: int
    """The number of the record in the journal, from 1."""
    prev: str
    """The SHA-256 of the journal's line before, in hex."""
    type: str
    # Runs and their attempts.
    trainer: str
    output_dir: str
    cwd: str
    config: str
    argv: list[str]
    max_steps: int | None
    """The number of steps after which the run ends, or None."""
    attempt: int
    started_t: float
    """Wall seconds since 1970."""
    resume: int | None
    """The step from which the attempt was started, or None for a fresh start."""
    overrides: list[str]
    """The words that follow the config on the command line."""
    container: str
    runs: Sequence[TrackedRow]
    """Where W&B shows each side of the run (trainer or orchestrator)."""
    code: int | None
    """The exit code of the launcher, or None."""
    signal: int | None
    """The number of the signal that ended the launcher, or None."""
    good: bool | None
    """True if the attempt ended well, False if not, None if that is not known."""
    # Notes.
    checklist_every: int
    """After how many steps a console asks for the run's checklist; 0 is never."""
    checklist_step: int
    """The step for which a person went through the checklist."""
    # Incidents.
    incident: str
    failure: str
    title: str
    role: Role
    severity: Severity
    summary: str
    playbook: Any
    """The id of a playbook, as a text. In the record of a plan that is no playbook's, it is the
    kind of the plan, such as "launch". An incident has None if no playbook repairs it.
    """
    where: Where
    evidence: list[Evidence]
    coverage: list[str]
    """What could not be seen, in words."""
    # Plans and actions.
    action: str
    """The key (the id) of the action."""
    kind: str
    """The kind of the action, such as "launch"."""
    plan_hash: str
    """The hash by which a person confirms the plan."""
    expires_m: float
    """Seconds of the monotonic clock."""
    expires_t: float
    """Wall seconds since 1970."""
    plan: dict[str, Any]
    refused: str
    """Why no plan could be made."""
    home: str
    """The id of the agent's home directory."""
    body: dict[str, Any]
    """The action as it was submitted."""
    command: str
    result: dict[str, Any]
    """What the action returned."""
    # Orders, modes, notes, reports and the agent itself.
    mode: str
    """The mode of a playbook for a run: "observe", "ask" or "auto"."""
    text: str
    """The text of a note."""
    last: int | None
    """How many of the newest complete checkpoints stay on the disk, or None if the order that said
    so was taken back.
    """
    at_least: int
    """How many of them stay while the disk has no room for the next."""
    synced: bool
    """True if a checkpoint is deleted only after it was verified in the object store."""
    best: str | None
    """The metric whose best checkpoint stays too."""
    report: str
    """The name of the stream with the crash report."""
    sha256: str
    """The digest of the crash report, in hex."""
    missing: Sequence[str]
    """What the crash report does not have."""
    version: str
    """The version of the agent."""
    bundle: str
    pid: int
    thread: str
    """The thread of the agent in which a fault happened."""
    gap_s: float
    """For how many seconds the agent did not watch the pod."""
    stream: str
    """The stream in which bytes were lost."""
    reason: str
    """Why these bytes were lost."""


@dataclass(kw_only=True)
class AttemptView:
    """One attempt of a run (one start, with the processes that came of it), as the journal, the
    agent's log of actions and incidents, shows it. `resume` is the step from which it was started,
    or None for a fresh start. `good` is True if it ended well, False if not, and None while it
    runs. `code` and `signal` are the exit code and the ending signal of its launcher, `ended_t` is
    when it ended, and `detail` is a sentence about the end. `overrides` are the words that follow
    the config on the command line. `container` is the container in which it ran, or "". `started_t`
    and `ended_t` are Unix times in seconds.
    """

    number: int
    started_t: float
    resume: int | None = None
    state: RunState = "running"
    code: int | None = None
    signal: int | None = None
    good: bool | None = None
    ended_t: float | None = None
    detail: str = ""
    overrides: list[str] = field(default_factory=list)
    container: str = ""


@dataclass(kw_only=True)
class RunView:
    """One run, as the journal (the agent's log of actions and incidents) shows it: its paths and
    settings, and its attempts (its starts) by number. `adopted` is True if it was started by hand
    and not by the agent. `config`, `argv` (the command line) and `max_steps` (the number of steps
    after which the run ends, or None) are those of its newest attempt; in the journal of an older
    agent, `config` and `max_steps` are those of its first. `registered_t` is the Unix time in
    seconds of the first record about the run. `notes` are the records of people's notes about it.
    """

    name: str
    trainer: str = ""
    output_dir: str = ""
    cwd: str = ""
    config: str = ""
    argv: list[str] = field(default_factory=list)
    adopted: bool = False
    registered_t: float = 0.0
    max_steps: int | None = None
    attempts: dict[int, AttemptView] = field(default_factory=dict)
    notes: list[JournalRecord] = field(default_factory=list)
    tracked: list[TrackedRow] = field(default_factory=list)
    """Where W&B shows each side (such as the trainer), as W&B's client printed it in the log of
    attempt `tracked_attempt`.
    """
    tracked_attempt: int = 0

    @property
    def attempt(self) -> AttemptView | None:
        """Return the newest attempt of the run, or None if the run was never started."""
        if self.attempts:
            return self.attempts[max(self.attempts)]
        return None


@dataclass(kw_only=True)
class IncidentView:
    """One incident, a failure of a run with its evidence, as the journal (the agent's log of
    actions and incidents) shows it. `failure` is the id of the failure. `state` is "open" while the
    failure is seen, "cleared" after it went away by itself, and "resolved" after a repair was
    verified. `opened_t` and `updated_t` are Unix times in seconds. `coverage` lists what could not
    be seen. `playbook` is the id of the playbook (the described repair) for the failure, or None,
    and `where` says if the pod or the console carries it out.
    """

    id: str
    failure: str
    title: str
    run: str
    attempt: int
    role: Role
    """How the failure relates to others. A "cascade" or "symptom" is a consequence, which is not
    shown beside its "root", the cause.
    """
    severity: Severity
    summary: str
    opened_t: float
    updated_t: float
    state: IncidentState = "open"
    evidence: list[Evidence] = field(default_factory=list)
    coverage: list[str] = field(default_factory=list)
    playbook: str | None = None
    where: Where = "pod"


@dataclass
class StepView:
    """One step of an action, as the journal (the agent's log of actions and incidents) shows it.
    `state` is waiting, running, done, skipped or failed. `title` and `command` describe the step
    for a person, and `detail` says how it ended. `started_t` and `ended_t` are Unix times in
    seconds, or None.
    """

    title: str
    command: str = ""
    state: StepState = "waiting"
    detail: str = ""
    started_t: float | None = None
    ended_t: float | None = None


@dataclass(kw_only=True)
class ActionView:
    """One action (something that a person asked the agent to do, or that it does by itself), as the
    journal, the agent's log, shows it. `key` is its unique id, `kind` is for example "launch",
    `who` is the person who submitted it, and `body` what they submitted. `state` is the name of the
    last event that the journal has for it. `playbook` is the id of its playbook and `incident` that
    of the incident which it repairs, or "". `plan_hash` is the hash of the plan that a person has
    confirmed, or "". `result` has what the action gives back to the person, for example
    `plan_hash`, `recovered` or a message. Times (`accepted_t`, `updated_t`) are Unix times in
    seconds.
    """

    key: str
    kind: str
    who: str
    run: str
    state: ActionState
    accepted_t: float
    updated_t: float
    playbook: str = ""
    plan_hash: str = ""
    incident: str = ""
    body: dict[str, Any] = field(default_factory=dict)
    """The submission, and the confirmed plan under "plan": enough to continue after the agent was
    killed.
    """
    steps: list[StepView] = field(default_factory=list)
    detail: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    cancelled_by: str = ""
    """Who submitted the stop that ends this action early, or ""."""

    @property
    def ended(self) -> bool:
        """Return True if the action has ended, whether well or not."""
        return self.state in ACTION_ENDS

    @property
    def what(self) -> str:
        """Return what the action is, as text for a person: "stop", "launch", "playbook step-desync"
        (the repair with that id) or "plan step-desync" (a plan of it).
        """
        if self.playbook in ("", self.kind):
            return self.kind
        return f"{self.kind} {self.playbook}"


@dataclass(kw_only=True)
class PlanView:
    """One plan, which says what an action would do and which a person can confirm, as the journal
    (the agent's log of actions and incidents) shows it. `action` is the key of the action that made
    it, and `playbook` the id of its playbook or the kind of the action that it plans, such as
    "launch". It was made at `t`, a Unix time in seconds, for the run's attempt `attempt`. It
    expires at `expires_m` in seconds of the monotonic clock of the boot with the id `boot`;
    `expires_t` is about the same moment as a Unix time in seconds. `plan` says everything that the
    action would do. `refused` says why no plan could be made, and is "" if a plan was made. `home`
    is the id of the agent's home that the plan is for, or "" in the journal of an older agent.
    """

    action: str
    playbook: str
    run: str
    attempt: int
    plan_hash: str
    expires_m: float
    expires_t: float
    boot: str
    t: float
    plan: dict[str, Any]
    refused: str = ""
    home: str = ""


class Ledger:
    """The present state of a pod as it follows from its journal, the agent's log of actions and
    incidents. Call `apply` for the journal's records in order; then read the attributes, for
    example `runs` or `incidents`.
    """

    def __init__(self, records: Iterable[JournalRecord] = ()) -> None:
        self.runs: dict[str, RunView] = {}
        self.incidents: dict[str, IncidentView] = {}
        self._incident_records = 0
        self._open: tuple[int, dict[str | None, list[IncidentView]]] = -1, {}
        """The open incidents in their order, by run and all (None), as of so many records."""
        self.actions: dict[str, ActionView] = {}
        self.plans: dict[str, PlanView] = {}
        self.modes: dict[tuple[str, str], str] = {}
        self.orders: dict[str, JournalRecord] = {}
        """By run: its order for checkpoints (keep-last). `last` is None once it was withdrawn."""
        self.guard: dict[str, JournalRecord] = {}
        """By run: the last record of its retention: refused, emergency or relieved."""
        self.syncs: dict[str, SyncView] = {}
        """By run: its sync to an object store, from the first order on."""
        self.agent: JournalRecord = {}
        self.watch_gaps: list[JournalRecord] = []
        self.faults: list[JournalRecord] = []
        """Defects of the agent itself, each in a thread that had to be started again."""
        self.gaps: list[JournalRecord] = []
        self.last_seq = -1
        self.reports: dict[tuple[str, int], JournalRecord] = {}
        """The newest crash report of each attempt."""
        self.last_t = 0.0
        """Wall second of the newest record."""
        for record in records:
            self.apply(record)

    def apply(self, raw: Mapping[str, Any]) -> None:
        """Update what this ledger knows of runs, incidents, actions and orders by `raw`, one record
        of the journal (the agent's log). A record of an unknown type is ignored, so that an older
        console can read the journal of a newer agent. Raises an exception of the tuple NOT_FOLDED
        (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) if a field of `raw` is
        missing or has a wrong type; an agent never writes such a record.
        """
        record = _checked(raw)
        self.last_seq = record.get("seq", self.last_seq)
        self.last_t = record.get("t", self.last_t)
        kind = record.get("type")
        if isinstance(kind, str) and kind in FOLDED:
            getattr(self, f"_{kind}")(record)

    def open_incidents(self, run: str | None = None) -> list[IncidentView]:
        """Return the open incidents, only those of `run` unless it is None. Root causes come first,
        then the older before the newer.
        """
        looked, by_run = self._open
        if looked != self._incident_records:
            # The count is read first: what another thread applies meanwhile is looked at next time.
            looked, by_run = self._incident_records, {None: []}
            found = [i for i in list(self.incidents.values()) if i.state == "open"]
            for incident in sorted(found, key=lambda i: (i.role != "root", i.opened_t)):
                by_run[None].append(incident)
                by_run.setdefault(incident.run, []).append(incident)
            self._open = looked, by_run
        return list(by_run.get(run, ()))

    def unfinished(self, kind: str) -> list[ActionView]:
        """Return the actions of this kind (for example "launch") that have not ended, oldest first;
        empty if there are none.
        """
        found = []
        for a in list(self.actions.values()):
            if a.kind == kind and not a.ended:
                found.append(a)
        return found

    def actions_of(self, kind: str, run: str) -> list[ActionView]:
        """Return the actions of this kind (for example "launch") on this run, oldest first, ended
        ones included.
        """
        found = []
        for a in list(self.actions.values()):
            if a.kind == kind and a.run == run:
                found.append(a)
        return found

    def mode(self, run: str, playbook: str) -> str:
        """Return the mode of a playbook for a run: "observe" (only show the failure), "ask" (plan
        the repair, then wait for a person) or "auto" (repair without asking). It is "observe" until
        somebody has set it.
        """
        return self.modes.get((run, playbook), "observe")

    def _agent(self, record: JournalRecord) -> None:
        if record["event"] == "watch-gap":
            self.watch_gaps.append(record)
        elif record["event"] == "fault":
            self.faults.append(record)
        else:
            self.agent = record

    def _gap(self, record: JournalRecord) -> None:
        self.gaps.append(record)

    def _mode(self, record: JournalRecord) -> None:
        self.modes[(record["run"], record["playbook"])] = record["mode"]

    def _order(self, record: JournalRecord) -> None:
        self.orders[record["run"]] = record
        self.guard.pop(record["run"], None)

    def _guard(self, record: JournalRecord) -> None:
        self.guard[record["run"]] = record

    def _sync(self, record: JournalRecord) -> None:
        self.syncs.setdefault(record["run"], SyncView()).apply(record)

    def _report(self, record: JournalRecord) -> None:
        if record["event"] == "written":
            self.reports[record["run"], record["attempt"]] = record

    def _note(self, record: JournalRecord) -> None:
        if run := self.runs.get(record["run"]):
            run.notes.append(record)

    def _run(self, record: JournalRecord) -> None:
        """Apply a record of a run."""
        name, event = record["run"], record["event"]
        if event == "removed":
            self.runs.pop(name, None)
            return
        run = self.runs.setdefault(name, RunView(name=name, registered_t=record["t"]))
        for key in ("trainer", "output_dir", "cwd", "config", "argv", "max_steps"):
            if (value := record.get(key)) is not None:
                setattr(run, key, value)
        run.adopted = run.adopted or event == "adopted"
        number = record.get("attempt")
        if event == "attempt-started" and number is not None:
            if "max_steps" in record:
                # None too: this attempt's config sets no end, whatever the one before had set.
                run.max_steps = record["max_steps"]
            run.attempts[number] = AttemptView(
                number=number,
                started_t=float(record.get("started_t") or record["t"]),
                resume=record.get("resume"),
                overrides=[str(word) for word in record.get("overrides") or ()],
                container=str(record.get("container") or ""),
            )
        elif event == "tracked" and number is not None:
            run.tracked = [entry.copy() for entry in record.get("runs") or ()]
            run.tracked_attempt = number
        elif event == "attempt-ended" and number is not None:
            attempt = run.attempts.setdefault(
                number, AttemptView(number=number, started_t=record["t"])
            )
            attempt.state, attempt.ended_t = "ended", record["t"]
            attempt.code, attempt.signal = record.get("code"), record.get("signal")
            attempt.good, attempt.detail = record.get("good"), record.get("detail", "")

    def _incident(self, record: JournalRecord) -> None:
        """Apply a record of an incident."""
        try:
            self._apply_incident(record)
        finally:
            self._incident_records += 1

    def _apply_incident(self, record: JournalRecord) -> None:
        event, key = record["event"], record["incident"]
        known = self.incidents.get(key)
        if event in ("cleared", "resolved"):
            if known is not None:
                known.state, known.updated_t = event, record["t"]
            return
        if known is None or event == "opened":
            known = self.incidents[key] = IncidentView(
                id=key,
                failure=record["failure"],
                title=str(record.get("title") or record["failure"]),
                run=record.get("run", ""),
                attempt=record.get("attempt", 0),
                role=record.get("role", "root"),
                severity=record.get("severity", "critical"),
                summary=record.get("summary", ""),
                opened_t=record["t"],
                updated_t=record["t"],
                playbook=record.get("playbook"),
                where=record.get("where", "pod"),
            )
        known.state, known.updated_t = "open", record["t"]
        for name in ("role", "severity", "summary", "evidence", "coverage"):
            if (value := record.get(name)) is not None:
                setattr(known, name, value)

    def _plan(self, record: JournalRecord) -> None:
        """Apply a record of a plan."""
        self.plans[record.get("plan_hash") or record["action"]] = PlanView(
            action=record["action"],
            playbook=record["playbook"],
            run=record.get("run", ""),
            attempt=record.get("attempt", 0),
            plan_hash=record.get("plan_hash", ""),
            expires_m=record.get("expires_m", 0.0),
            expires_t=record.get("expires_t", 0.0),
            boot=record["b"],
            t=record["t"],
            plan=record.get("plan", {}),
            refused=record.get("refused", ""),
            home=record.get("home", ""),
        )

    def _action(self, record: JournalRecord) -> None:
        """Apply a record of an action."""
        key, event = record["action"], record["event"]
        action = self.actions.get(key)
        if action is None:
            action = self.actions[key] = ActionView(
                key=key,
                kind=record.get("kind", ""),
                who=record.get("who", ""),
                run=record.get("run", ""),
                state=event,
                accepted_t=record["t"],
                updated_t=record["t"],
            )
        for name in ("playbook", "plan_hash", "incident", "body"):
            if value := record.get(name):
                setattr(action, name, value)
        action.updated_t = record["t"]
        if event == "accepted" and "steps" in record:
            steps: Sequence[StepRow] = record["steps"]
            action.steps = [StepView(s["title"], s.get("command", "")) for s in steps]
        if event in _STEP_STATES:
            self._action_step(action, record, event)
            return
        if event == "cancel":
            action.cancelled_by = record.get("who", "")
        action.state = event
        action.detail = record.get("detail", action.detail)
        action.result = {**action.result, **record.get("result", {})}
        if action.ended and action.kind == "rotate":
            self._forget_rotations(action)

    def _forget_rotations(self, newest: ActionView) -> None:
        """Keep only the last ended rotations of a run in memory. A run of a week makes thousands,
        and the journal has them all.
        """
        ended = []
        for a in self.actions_of("rotate", newest.run):
            if a.ended:
                ended.append(a.key)
        for key in ended[:-ROTATIONS_KEPT]:
            del self.actions[key]

    @staticmethod
    def _action_step(action: ActionView, record: JournalRecord, event: str) -> None:
        """Apply a record of one step of an action."""
        index = record["step"]
        if not 0 <= index < ACTION_STEPS_MOST:
            raise ValueError(f"an action has no step {index!r:.20}")
        while len(action.steps) <= index:
            action.steps.append(StepView(""))
        step = action.steps[index]
        step.title = record.get("title", step.title)
        step.command = record.get("command", step.command)
        step.detail = record.get("detail", step.detail)
        step.state = _STEP_STATES[event]
        if event == "intent":
            step.started_t = record["t"]
        else:
            step.ended_t = record["t"]
        action.state = "running"


def _checked(record: Any) -> JournalRecord:
    """Return a record of the journal. Raises TypeError if a name in it is no text, or its time or
    number is no number.
    """
    for name in _NAMES:
        if not isinstance(record.get(name), str | None):
            raise TypeError(f"{name!r} of a record is no text")
    for name in ("t", "seq"):
        if not isinstance(record.get(name, 0), (int, float)):
            raise TypeError(f"{name!r} of a record is no number")
    checked: JournalRecord = record
    return checked
