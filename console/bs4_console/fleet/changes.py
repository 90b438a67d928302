"""What changes on a pod, one plain sentence for each change: for a terminal without a screen, a
screen reader, or a pipe.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from bs4_console.failures.playbooks import advice
from bs4_console.pods.observer import ago
from bs4_console.pods.state import ActionView, IncidentView, PodState, RunState
from bs4_console.printable import one_line

Kind = Literal["pod", "run", "step", "incident", "action", "checkpoint"]

#: Seconds between two lines about the steps of a run. Runs make a step in 2 to 200 s.
STEP_S = 60.0
#: A run that ended longer ago than this many seconds is no news to somebody who begins to watch.
OLD_S = 3600.0
#: An incident or a step that is older than this many seconds says for how long.
LATE_S = 60.0
#: Kinds of actions that are not told: plans change nothing, and a release only says how much of the
#: journal a console has copied.
_QUIET = frozenset({"plan", "release"})


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change on a pod, for a person who watches. `kind` says what has changed: the "pod", a
    "run", its training "step", an "incident", an "action" or a "checkpoint". `t` is the Unix time
    in seconds at which this console knew of it. `run` is the name of the run that it is about, or
    "" for the pod itself. `text` says in one sentence what has changed, and `next` what a person
    can do, or "".
    """

    t: float
    kind: Kind
    pod: str
    run: str
    text: str
    next: str = ""
    old: bool = False
    """True if somebody who begins to watch only now need not be told of it as news."""

    @property
    def sentence(self) -> str:
        """Return the change as one line without its time: the name of the pod (and of the run, if
        it is about one), what has changed, and what to do next.
        """
        place = f"{self.pod}/{self.run}" if self.run else self.pod
        told = f"{place}: {self.text}"
        if self.next:
            told += f" Next: {self.next}"
        return told


def repair(incident: IncidentView, pod: str, verb: Literal["plan", "run"] = "plan") -> str:
    """Return the command line that plans (`verb` "plan") or carries out ("run") the repair of
    `incident` on the pod named `pod`. If no playbook, which is a file with such a repair, is known
    for it, return the command line that shows what a person can do. The names in it are quoted for
    a shell.
    """
    if incident.playbook is None:
        return f"bs4-console playbook show {shlex.quote(incident.failure)}"
    words = ["bs4-console", "playbook", verb, incident.playbook, "--pod", pod]
    if incident.run:
        words += ["--run", incident.run]
    return shlex.join(words)


@dataclass
class _Told:
    """What was told of one pod: the state of each subject, when the last step of each run was
    told, and whether everything was told once.
    """

    states: dict[tuple[str, ...], object] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)
    whole: bool = False

    def news(self, subject: tuple[str, ...], state: object) -> bool:
        """Return True if `subject` was in another state when it was last asked for, or was never
        asked for. From now on it counts as told.
        """
        if subject in self.states and self.states[subject] == state:
            return False
        self.states[subject] = state
        return True


class Changes:
    """Compares the states of pods with those that it was given before, and returns what has changed
    since, as one sentence for each change.
    """

    def __init__(self, step_s: float = STEP_S, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing told. At most one step of each run is told in `step_s` seconds.
        `clock` returns monotonic seconds.
        """
        self._step_s, self._clock = step_s, clock
        self._told: dict[str, _Told] = {}

    def observe(self, pod: PodState, *, whole: bool) -> list[Change]:
        """Return what has changed on `pod` since the last call for it. While `whole` is False, only
        the connection is compared, because the pod's journal (the agent's log of actions and
        incidents) is not all read yet. The first call with `whole` True returns the present state
        of every run, incident and action, without what ended more than an hour (OLD_S) ago.
        """
        told = self._told.setdefault(pod.name, _Told())
        changes = list(_link(pod, told))
        if not whole:
            return changes
        news = list(self._known(pod, told))
        if not told.whole:
            told.whole = True
            news = [change for change in news if not change.old]
        return changes + news

    def checkpoints(self, pod: PodState, run: str, state: object, text: str) -> list[Change]:
        """Return one change if `state`, a value that describes the checkpoints of `run`, differs
        from that in the last call for this run, or if this is the first call. Return an empty list
        if not. `text` says in a sentence how the checkpoints are now; it becomes the text of the
        change.
        """
        told = self._told.setdefault(pod.name, _Told())
        if told.news(("checkpoints", run), state):
            return [_change(pod, "checkpoint", text, run=run)]
        return []

    def _known(self, pod: PodState, told: _Told) -> Iterator[Change]:
        """Yield what is new of the pod's runs, incidents and actions."""
        now = time.time() + (pod.link.clock_offset or 0.0)
        for run in list(pod.runs.values()):
            attempt = run.view.attempt
            if told.news(("run", run.name), (run.word, attempt and attempt.number)):
                yield _run(pod, run, now)
            if run.word == "running" and self._step_is_due(told, run):
                yield _step(pod, run, self._clock())
        for incident in list(pod.ledger.incidents.values()):
            if told.news(("incident", incident.id), (incident.state, incident.severity)):
                yield _incident(pod, incident, now)
        for action in list(pod.ledger.actions.values()):
            if action.kind not in _QUIET:
                yield from _action(pod, action, told)

    def _step_is_due(self, told: _Told, run: RunState) -> bool:
        """Return True if the run has a new step and enough time has passed since the last one that
        was told. The step then counts as told.
        """
        now, last = self._clock(), told.steps.get(run.name)
        attempt = run.view.attempt
        if run.step is None or attempt is None or (last is not None and now - last < self._step_s):
            return False
        if run.trainer_steps[-1].get("attempt") != attempt.number:
            return False  # it is of an earlier attempt
        if not told.news(("step", run.name), run.step):
            return False
        told.steps[run.name] = now
        return True


def _change(
    pod: PodState, kind: Kind, text: str, *, run: str = "", to_do: str = "", old: bool = False
) -> Change:
    """Return a change that this console knows of now. Each of its texts becomes one line, because
    a text from a pod must not look like another change.
    """
    line = one_line(text).strip()
    if not line.endswith((".", "!", "?", "`")):
        line += "."
    return Change(
        t=time.time(), kind=kind, pod=pod.name, run=run, text=line, next=one_line(to_do), old=old
    )


def _link(pod: PodState, told: _Told) -> Iterator[Change]:
    """Yield what is new of the link, and of what became of a pod that does not answer."""
    link, lost = pod.link, pod.lost
    if told.news(("link",), link.state):
        if link.up:
            yield _change(pod, "pod", "connected")
        elif link.state not in ("new", "connecting"):
            text = link.detail or f"there is no link ({link.state})"
            yield _change(pod, "pod", text, to_do=link.next_step)
    word = "" if lost is None or lost.word in ("unknown", "fine") else lost.word
    if told.news(("lost",), word) and lost is not None and word:
        yield _change(pod, "pod", lost.sentence, to_do=lost.next_step)


def _run(pod: PodState, run: RunState, now: float) -> Change:
    attempt, text, to_do, old = run.view.attempt, f"the run is {run.word}", "", False
    if attempt is not None and attempt.ended_t is None:
        text += f", attempt {attempt.number}"
    elif attempt is not None and attempt.ended_t is not None:
        old = now - attempt.ended_t > OLD_S
        text = f"the run {'was' if run.word == 'stopped' else 'has'} {run.word}"
        if run.step is not None:
            text += f" after step {run.step}"
        if run.word == "failed":
            how = f"signal {attempt.signal}" if attempt.signal else f"exit code {attempt.code}"
            text += f": {attempt.detail or how}"
        # An open incident has a command of its own.
        if run.word != "finished" and not pod.ledger.open_incidents(run.name):
            words = ["bs4-console", "launch", run.view.config or "CONFIG"]
            command = shlex.join([*words, "--pod", pod.name, "--run", run.name])
            to_do = f"`{command}` starts it again; it shows a plan and asks first."
    return _change(pod, "run", text, run=run.name, to_do=to_do, old=old)


def _step(pod: PodState, run: RunState, now: float) -> Change:
    """Return the change that the run has finished a step. `now` is in monotonic seconds."""
    text = f"step {run.step} is done"
    if run.view.max_steps:
        text = f"step {run.step} of {run.view.max_steps} is done"
    if run.step_seen is not None and now - run.step_seen > LATE_S:
        text = f"{text.removesuffix(' is done')} was done {ago(now - run.step_seen)} ago"
    rewards, pace, left = run.series("reward"), run.step_seconds(), run.eta_seconds()
    if any(incident.severity == "critical" for incident in pod.ledger.open_incidents(run.name)):
        left = None  # nothing says that it gets there
    if rewards:
        text += f", reward {rewards[-1][1]:.3f}"
    if pace is not None:
        text += f", {pace:.1f} s a step"
    if left is not None:
        text += f", {ago(left)} left"
    return _change(pod, "step", text, run=run.name)


def _incident(pod: PodState, incident: IncidentView, now: float) -> Change:
    if incident.state != "open":
        over = "cleared by itself"
        if incident.state == "resolved":
            over = "mended and verified"
        lasted = ago(max(0.0, incident.updated_t - incident.opened_t))
        text = f"{over} after {lasted}: {incident.title}"
        return _change(pod, "incident", text, run=incident.run, old=True)
    text = f"{incident.severity}: {incident.title}"
    if now - incident.opened_t > LATE_S:
        text += f", for {ago(now - incident.opened_t)}"
    if incident.summary:
        text += f". {incident.summary}"
    return _change(pod, "incident", text, run=incident.run, to_do=_to_do(pod, incident))


def _to_do(pod: PodState, incident: IncidentView) -> str:
    """Return what a person can do about an open incident, with the command to type."""
    if incident.playbook is None:
        first = "".join(advice(incident.failure)[:1])
        return f"{first} `{repair(incident, pod.name)}` says more.".strip()
    if pod.read_only:
        return f"`{repair(incident, pod.name)}` shows the repair and changes nothing."
    command = repair(incident, pod.name, "run")
    return f"`{command}` shows each step of the repair and asks before the first."


def _action(pod: PodState, action: ActionView, told: _Told) -> Iterator[Change]:
    """Yield what is new of an action and of each of its steps that has begun. An action that begins
    is told before its steps, and its end after them.
    """
    # The first step turns `accepted` into `running`, which is no news beside the step.
    begins = action.state in ("accepted", "running")
    own = told.news(("action", action.key), "running" if begins else action.state)
    who = action.who or "the agent"
    if own and begins:
        yield _change(pod, "action", f"{action.what} begun by {who}", run=action.run)
    for number, step in enumerate(action.steps, 1):
        if step.state == "waiting" or not told.news((action.key, str(number)), step.state):
            continue
        text = f"{action.what}, step {number} of {len(action.steps)} {step.state}: {step.title}"
        if step.detail:
            text += f", {step.detail}"
        yield _change(pod, "action", text, run=action.run, old=action.ended)
    if own and not begins:
        text = f"{action.what} {action.state}"
        if action.kind == "note":
            text = f"{who} noted: {action.body.get('text', '')}"
        elif action.detail:
            text += f": {action.detail}"
        yield _change(pod, "action", text, run=action.run, old=action.ended)
