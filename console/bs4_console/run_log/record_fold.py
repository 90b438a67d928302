"""Builds the record that a run keeps itself, from the journal and the steps of its pod: live, or as
the console has mirrored them.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

from bs4_common.ledger import AttemptView, TrackedRow
from bs4_console.errors import RefusedError
from bs4_console.locations import data_dir
from bs4_console.pods.gate.plans import Launched, launched
from bs4_console.pods.mirror import Mirror, continues, homes
from bs4_console.pods.port import Transport
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, IncidentView, PodState, RunState
from bs4_console.printable import one_line
from bs4_console.run_log import validation
from bs4_console.run_log.hardware import seen
from bs4_console.run_log.record import Attempt, Incident, Note, RunRecord
from bs4_console.run_log.text import utc

_WANDB = "https://wandb.ai"
#: Seconds. When a process began is known to a few hundredths only.
_SLACK_S = 1.0
_NAME = re.compile(r"[\w.-]{1,128}")


@dataclass(frozen=True, kw_only=True)
class _Saved:
    """What is saved of the agent's home `home` under one pod's name, in the directory `root`.
    `newest` is True if it is the home that was read last under that name.
    """

    root: Path
    home: str
    newest: bool


def mirrored(present: Collection[str] = ()) -> Iterator[PodState]:
    """Yield the state of every pod of which data is saved on this machine, as it was last read. No
    pod is contacted. A pod that was made anew under its name has a state for each agent's home; all
    but the newest are `former`.

    A machine that was read under several names has one state, with what was read under all of them.
    Its name is one of `present`, the names in the inventory, if that has one of them.
    """
    for machine in _machines():

        def worth(saved: _Saved) -> tuple[bool, bool, float]:
            used = saved.root / "home"
            read_t = used.stat().st_mtime if used.is_file() else 0.0
            return saved.newest and saved.root.name in present, saved.newest, read_t

        named = max(machine, key=worth)
        others = [saved.root for saved in machine if saved is not named]
        mirror = Mirror(named.root, write=False, others=others)
        mirror.use(named.home)
        state = PodState(name=named.root.name, former=not named.newest)
        session = PodSession(state, _no_transport, mirror, "", deploy=False)
        session.replay()
        yield state


def other_names(pod: str) -> list[str]:
    """Return the other names under which a machine was read that was read under the name `pod`."""
    found = []
    for machine in _machines():
        names = [saved.root.name for saved in machine]
        if pod in names:
            found += [name for name in names if name != pod]
    return found


def _machines() -> list[list[_Saved]]:
    """Return what is saved of each machine, under all names under which it was read."""
    found: list[list[_Saved]] = []
    root = data_dir() / "pods"
    for directory in sorted(root.iterdir()) if root.is_dir() else []:
        known = homes(directory) if directory.is_dir() else []
        for home in known:
            saved = _Saved(root=directory, home=home, newest=home == known[-1])
            for machine in found:
                if all(_same(other, saved) for other in machine):
                    machine.append(saved)
                    break
            else:
                found.append([saved])
    return found


def _same(one: _Saved, other: _Saved) -> bool:
    same_id = one.home == other.home
    return same_id and continues(one.root / one.home, other.root / other.home)


def fold(pod: PodState, run: RunState) -> RunRecord:
    """Return the record of `run` for the run log, which is this machine's record of all runs. It
    has the run's config, attempts, results, incidents and so on, as the state of its pod shows
    them.
    """
    view = run.view
    plans = launches(pod, view.name)
    newest = plans[max(plans)] if plans else Launched()
    attempts = [attempt for _, attempt in sorted(view.attempts.items())]
    rewards = run.series("reward")
    record = RunRecord(
        name=view.name,
        status=run.word.upper(),
        model=_option(view.argv, "--model.name") or newest.model,
        config=view.config,
        version=newest.version,
        lineage=newest.based_on,
        phase=newest.phase,
        price=newest.price,
        pod=pod.name,
        trainer=view.trainer,
        step=run.step,
        max_steps=view.max_steps,
        reward=rewards[-1][1] if rewards else None,
        pace_s=run.step_seconds() if run.series("time_s") else None,
        source=pod.name,
        validation=validation.curves_of(run.eval_points),
        hardware=seen(pod),
        wandb=" ".join(wandb_links(view.tracked)),
        rewards=rewards,
    )
    if attempts:
        record.started_t = attempts[0].started_t
        record.date = time.strftime("%Y-%m-%d", time.gmtime(record.started_t))
        record.start = utc(record.started_t)
        record.ended_t = attempts[-1].ended_t
        if attempts[-1].state != "ended" and not pod.former:
            record.still_on = pod.name
    if record.ended_t is not None:
        record.end = utc(record.ended_t)
    for attempt in attempts:
        resumed = ""
        if attempt.resume is not None:
            resumed = f", resumed from step {attempt.resume}"
        ended = ""
        if attempt.ended_t is not None:
            how = f"{_how(attempt.good, attempt.code, attempt.signal)} {attempt.detail}"
            stop = pod.stop_of(view.name, attempt)
            if stop is not None and not attempt.good:
                how = f"stopped by {one_line(stop.who) or 'nobody named'}"
            ended = f"ended {utc(attempt.ended_t)}, {how}".strip()
        plan = plans.get(attempt.number, Launched())
        record.attempts.append(
            Attempt(
                title=f"{_beginning(attempt.number, attempt.started_t)}{resumed}",
                text=ended,
                started_t=attempt.started_t,
                ended_t=attempt.ended_t,
                good=attempt.good,
                resume=attempt.resume,
                overrides=list(attempt.overrides),
                phase=plan.phase,
                number=attempt.number,
                config_digest=plan.digest,
                config_version=plan.version,
                config_based_on=plan.based_on,
                versions=dict(plan.versions),
                hardware=dict(plan.hardware),
                commit=plan.commit,
                pod=pod.name,
            )
        )
    for incident in sorted(pod.ledger.incidents.values(), key=attrgetter("opened_t")):
        if incident.run == view.name:
            record.incidents.append(_incident(incident, pod.ledger.actions.values()))
    for note in view.notes:
        who, text = one_line(note.get("who", "")), one_line(note.get("text", ""))
        record.notes.append(Note(note["t"], who, text))
    return record


def continued(records: Iterable[RunRecord]) -> RunRecord:
    """Return one record of a run that began on one pod and went on on others. `records` are its
    records, one for each pod, at least one. Attempts, incidents, notes and rewards of all pods are
    joined in their order, and the start is the first one. Everything else is taken from the record
    of the pod on which the run began last. The text of an attempt also says what it was launched
    with.
    """
    ordered = sorted(records, key=lambda record: record.started_t or 0.0)
    *_, last = ordered
    if len(ordered) == 1:
        return _launched_with(last)
    attempts, incidents, notes = [], [], []
    rewards: dict[int, float] = {}
    for record in ordered:
        for attempt in record.attempts:
            attempts.append(replace(attempt, title=f"{attempt.title}, on {attempt.pod}"))
        incidents += record.incidents
        notes += record.notes
        rewards.update(record.rewards)
    first = ordered[0]
    return _launched_with(
        replace(
            last,
            attempts=attempts,
            incidents=incidents,
            notes=notes,
            rewards=sorted(rewards.items()),
            started_t=first.started_t,
            start=first.start,
            date=first.date,
        )
    )


def _launched_with(record: RunRecord) -> RunRecord:
    """Return the record with what each attempt was launched with in its text. An attempt whose
    config has no version, as behind a restore that brought the file without the registry beside it,
    gets that of another attempt with the same config.
    """
    known: dict[str, Attempt] = {}
    for attempt in record.attempts:
        if attempt.config_digest and attempt.config_version:
            known[attempt.config_digest] = attempt
    attempts, newest = [], Attempt(title="")
    for attempt in record.attempts:
        named = attempt if attempt.config_version else known.get(attempt.config_digest, attempt)
        told = replace(
            attempt, config_version=named.config_version, config_based_on=named.config_based_on
        )
        told.text = "; ".join(filter(None, (one_line(told.launch), attempt.text)))
        attempts.append(told)
        if told.config_digest:
            newest = told
    return replace(
        record,
        attempts=attempts,
        version=record.version or newest.config_version,
        lineage=record.lineage or newest.config_based_on,
    )


def with_written(own: RunRecord, written: RunRecord) -> None:
    """Add to the record `own`, which pods recorded, the attempts and incidents that the run has in
    an imported document, `written`. Those that the document has from an export of `own` are left
    out, also if that was before they ended.
    """
    begun, opened = [], set()
    for attempt in own.attempts:
        if attempt.started_t is not None:
            begun.append(_beginning(attempt.number, attempt.started_t))
    for incident in own.incidents:
        opened.add(_plain(incident.title))
    attempts = [one for one in written.attempts if not one.title.startswith(tuple(begun))]
    incidents = [one for one in written.incidents if _plain(one.title) not in opened]
    own.attempts = [*attempts, *own.attempts]
    own.incidents = [*incidents, *own.incidents]


def _beginning(number: int | None, started_t: float) -> str:
    """Return how the title of an attempt begins that an agent observed. No other attempt of the run
    on its pod begins so.
    """
    return f"Attempt {number}: {utc(started_t)}"


def _plain(title: str) -> str:
    """Return the title of an incident as it comes out of a document that it was written to."""
    return " ".join(title.replace("**", "").split())


def wandb_links(tracked: Iterable[TrackedRow]) -> list[str]:
    """Return the address of the page of each W&B run in `tracked`, the entries of a pod's journal
    (the agent's log of actions and incidents) about W&B, without repeats. An entry without an
    entity, a project or an id has no page. If an entry does not name the server, it is W&B's own.
    """
    found = []
    for entry in tracked:
        parts = [str(entry.get(key) or "") for key in ("entity", "project", "id")]
        server = str(entry.get("server") or _WANDB).rstrip("/")
        whole = all(_NAME.fullmatch(part) for part in parts)
        link = f"{server}/{parts[0]}/{parts[1]}/runs/{parts[2]}"
        if whole and server.startswith(("https://", "http://")) and link not in found:
            found.append(link)
    return found


def launches(pod: PodState, run: str) -> dict[int, Launched]:
    """Return {number of the attempt: what was launched} from the confirmed plan by which each
    attempt of the run was launched. Attempts without such a plan are left out: those that were
    started by hand or by a playbook.
    """
    known = pod.runs.get(run)
    attempts = {} if known is None else known.view.attempts
    found: dict[int, Launched] = {}
    for action in pod.ledger.actions.values():
        plan = action.body.get("plan")
        if action.kind != "launch" or action.run != run or not isinstance(plan, dict):
            continue
        number = _launched_attempt(action, attempts.values())
        if number is not None:
            found[number] = launched(plan)
    return found


def _launched_attempt(launch: ActionView, attempts: Iterable[AttemptView]) -> int | None:
    """Return the number of the attempt that a launch has started, or None if it has started none.
    A launch that waits, or that ended before its run trained, does not say it. It held the run
    while it went on, so what began meanwhile is its attempt.
    """
    said = launch.result.get("attempt")
    if isinstance(said, int):
        return said
    until = launch.updated_t if launch.ended else math.inf
    for attempt in attempts:
        if launch.accepted_t - _SLACK_S <= attempt.started_t <= until:
            return attempt.number
    return None


def _incident(incident: IncidentView, actions: Iterable[ActionView]) -> Incident:
    tried = []
    for a in actions:
        if a.kind == "playbook" and a.incident == incident.id:
            playbook = a.playbook or incident.playbook or incident.failure
            tried.append(f"{playbook} ({a.state}, {utc(a.accepted_t)})")
    return Incident(
        f"{incident.title} ({utc(incident.opened_t)})",
        f"{incident.failure}: {incident.summary} [{incident.state}]",
        incident.state,
        incident.opened_t,
        tried,
    )


def _how(good: bool | None, code: int | None, signal: int | None) -> str:
    if good:
        return "well"
    if signal:
        return f"by signal {signal}"
    if code is not None:
        return f"with exit code {code}"
    return "nobody saw how"


def _option(argv: list[str], name: str) -> str:
    for word, value in pairwise(argv):
        if word == name:
            return value
    return ""


def _no_transport() -> Transport:
    raise RefusedError("A mirrored pod is not connected to.")
