"""What each side of a run (trainer or orchestrator) is doing, as far as its log lines show: its
phase, since when, its last message, and the side that it waits for.

Nothing here judges. Step numbers link the sides: the trainer's step N trains batch N of the
orchestrator and gives policy N (policy N + 1 on 2026-01). A side that has what it needs is working.
A side that lacks it waits for the other side.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bs4_common.failures.facts import LogEvent, RunFacts, Side
from bs4_common.states import Phase

TRAINER, ORCHESTRATOR = "trainer", "orchestrator"

#: Kinds of events that show that work was done. A heartbeat counts only with new numbers. Warnings
#: about failed rollouts do not count, and neither do the inference server's own lines: it finishes
#: earlier requests even if every other side has stopped.
_NEWS = frozenset(
    {
        "step",
        "start-step",
        "eval",
        "eval-start",
        "save",
        "barrier",
        "holding",
        "policy-update",
        "starting",
        "ready",
        "resume",
        "finished",
    }
)
_PHASES: dict[str, Phase] = {
    "save": "checkpoint",
    "eval-start": "evaluation",
    "policy-update": "weight sync",
    "rate-limited": "rate-limit wait",
}


@dataclass(frozen=True)
class Activity:
    """What one side of a run (trainer or orchestrator) is doing now.

    `since_m` is the monotonic second of its last sign of life or, if later, that at which it got
    what it had waited for. `waits_for` is the name of the side that it waits for, or "" if it waits
    for no other side. `awaits` says in words what it waits for or works on. `last` is its newest
    log line that shows work, or None.
    """

    side: str
    phase: Phase
    since_m: float
    waits_for: str
    awaits: str
    last: LogEvent | None


def activities(run: RunFacts) -> dict[str, Activity]:
    """Return what each side of a run is doing now, by its name ("trainer", "orchestrator"), as far
    as logs and steps show it. A verl run has only the trainer.
    """
    events = _by_side(run.events)
    trainer, orchestrator = run.trainer_side, run.orchestrator_side
    found = {TRAINER: _trainer(run, events.get(TRAINER, []), trainer, orchestrator)}
    if ORCHESTRATOR in run.trainer.traits.sides:
        found[ORCHESTRATOR] = _orchestrator(
            run, events.get(ORCHESTRATOR, []), trainer, orchestrator
        )
    return found


def start_up(run: RunFacts) -> str:
    """Return a phrase that says what each side of a run that has not finished a step yet is doing,
    for example `trainer: start-up (its model), orchestrator: rollout (the first batch)`.
    """
    if run.spec.component == "inference":
        return "inference: start-up (its model)"
    if run.spec.component == "eval":
        ready = run.last_event("ready", "eval") is not None
        return (
            f"eval: {'rollout (its first result)' if ready else 'start-up (the inference server)'}"
        )
    doing = activities(run)
    if run.spec.component in doing:
        doing = {run.spec.component: doing[run.spec.component]}
    waits = []
    for name, one in doing.items():
        waits.append(f"{name}: {one.phase} ({'waits for ' if one.waits_for else ''}{one.awaits})")
    return ", ".join(waits)


def _by_side(events: Iterable[LogEvent]) -> dict[str, list[LogEvent]]:
    """Return the events grouped by the side that wrote them."""
    sides: dict[str, list[LogEvent]] = {}
    for event in events:
        sides.setdefault(event.event.side, []).append(event)
    return sides


def next_step(run: RunFacts) -> int | None:
    """Return the number of the step that the trainer works on now: the one after its last step, or,
    before the first step, the one at which its log says that it starts. Return None if neither is
    known.
    """
    if run.trainer_side.last_step is not None:
        return run.trainer_side.last_step + 1
    for event in run.events_of("starting", TRAINER):
        if event.event.values.get("what") == "position":
            return event.event.step
    return None


def _trainer(run: RunFacts, events: list[LogEvent], own: Side, other: Side) -> Activity:
    """Return what the trainer is doing now."""
    last = _news(events)
    said_m = _said_m(run, own, last)
    if _has(events, "finished"):
        return Activity(TRAINER, "end", said_m, "", "nothing more", last)
    silent = last is None and own.last_step_m is None
    if silent or (own.steps == 0 and not _in_loop(events)):
        return Activity(TRAINER, "start-up", said_m, "", "its model", last)
    wanted = next_step(run)
    if _phase_of(events) == "checkpoint":
        saved_m = _saved_m(run, last)
        if saved_m is None:
            step = "?" if last is None or last.event.step is None else last.event.step
            what = f"the checkpoint of step {step}"
            return Activity(TRAINER, "checkpoint", said_m, "", what, last)
        said_m = max(said_m, saved_m)
    if (phase_of := run.trainer.traits.phase) is not None:
        # No line says what it does within a step, but the title of its busiest worker does.
        doing = phase_of(
            member.cmdline[0] for member in run.members if member.alive and member.cmdline
        )
        return Activity(TRAINER, doing or "train", said_m, "", f"step {wanted}", last)
    if other.last_step is None or (wanted is not None and other.last_step < wanted):
        batch = f"batch {wanted}" if wanted is not None else "the first batch"
        return Activity(TRAINER, "waiting", said_m, ORCHESTRATOR, batch, last)
    since = max(said_m, _step_m(run, ORCHESTRATOR, wanted) or said_m)
    return Activity(TRAINER, "train", since, "", f"step {wanted}", last)


def _orchestrator(run: RunFacts, events: list[LogEvent], other: Side, own: Side) -> Activity:
    """Return what the orchestrator is doing now."""
    last = _news(events)
    said_m = _said_m(run, own, last)
    if _has(events, "finished"):
        return Activity(ORCHESTRATOR, "end", said_m, "", "nothing more", last)
    if last is None and own.last_step_m is None:
        return Activity(ORCHESTRATOR, "start-up", said_m, "", "the inference server", last)
    needs = _needed_step(run, events, own)
    done = _done(run)
    if needs is not None and (done is None or done < needs):
        return Activity(
            ORCHESTRATOR, "waiting", said_m, TRAINER, f"the policy after step {needs}", last
        )
    # If it had been waiting, its work began again when the trainer let it continue.
    since = max(said_m, _step_m(run, TRAINER, needs) or said_m)
    batch = f"batch {own.last_step + 1}" if own.last_step is not None else "the first batch"
    phase = _phase_of(events)
    began = _has(events, "ready", "start-step", "policy-update", "heartbeat")
    if phase == "rollout" and own.steps == 0 and not began:
        return Activity(ORCHESTRATOR, "start-up", said_m, "", "the inference server", last)
    awaits = {
        "evaluation": "the evaluation",
        "checkpoint": "its checkpoint",
        "weight sync": "the weight update",
    }.get(phase, batch)
    return Activity(ORCHESTRATOR, phase, since, "", awaits, last)


def _needed_step(run: RunFacts, events: list[LogEvent], own: Side) -> int | None:
    """Return the trainer's step without which the orchestrator does not continue, as its log shows
    it, or None if it needs none.
    """
    for event in reversed(events):
        kind, values = event.event.kind, event.event.values
        if kind == "barrier":
            # The first step makes policy 1.
            if "checkpoint" in values:
                return int(values["checkpoint"]) - 1 + run.trainer.first_step
            return None
        if kind == "holding" and "needed_policy" in values:
            return int(values["needed_policy"])
        if kind == "holding" and values.get("dispatcher") == "paused":
            if own.last_step is None:
                return None
            return own.last_step - 1
        if kind == "holding" and values.get("dispatcher") == "resumed":
            return None
    return None


def _done(run: RunFacts) -> int | None:
    """Return the trainer's last finished step, of this attempt or of the checkpoint that it started
    from, or None if it is unknown.
    """
    first = next_step(run)
    return None if first is None else first - 1


def _step_m(run: RunFacts, side: str, step: int | None) -> float | None:
    """Return the second of the monotonic clock at which `side` wrote its line of `step`, or None if
    that line is no longer known.
    """
    for event in reversed(run.events):
        if event.event.kind == "step" and event.event.side == side and event.event.step == step:
            return event.m
    return None


def _saved_m(run: RunFacts, save: LogEvent | None) -> float | None:
    """Return the second of the monotonic clock at which the trainer's part of the checkpoint
    announced by `save` was complete, or None while it is not. The files show this, no log line
    does.
    """
    for checkpoint in run.checkpoints:
        if (
            save is not None
            and checkpoint.step == save.event.step
            and "trainer" not in checkpoint.missing
        ):
            return run.started_m + checkpoint.newest_mtime - run.started_t
    return None


def _phase_of(events: list[LogEvent]) -> Phase:
    """Return the phase that the newest opening line shows, or "rollout" if a later line has closed
    it.
    """
    for event in reversed(events):
        kind = event.event.kind
        if kind in _PHASES:
            return _PHASES[kind]
        if kind == "heartbeat" and int(event.event.values.get("eval", 0) or 0) > 0:
            return "evaluation"
        if kind in _NEWS or (kind == "heartbeat" and "have" in event.event.values):
            break
    return "rollout"


def _news(events: list[LogEvent]) -> LogEvent | None:
    """Return the newest event that shows that work was done, or None. Of heartbeats with equal
    numbers, the first one counts.
    """
    newest: LogEvent | None = None
    for event in events:
        if event.event.kind in _NEWS or event.event.kind == "rate-limited":
            newest = event
    beat = _changed_beat([e for e in events if e.event.kind == "heartbeat"])
    if beat is not None and (newest is None or beat.m > newest.m):
        return beat
    return newest


def _changed_beat(beats: list[LogEvent]) -> LogEvent | None:
    """Return the first of the equal heartbeats at the end, or None if there are no heartbeats."""
    first: LogEvent | None = None
    for beat in reversed(beats):
        if first is not None and beat.event.values != first.event.values:
            break
        first = beat
    return first


def _has(events: list[LogEvent], *kinds: str) -> bool:
    """Return True if any event is of one of these kinds."""
    return any(event.event.kind in kinds for event in events)


def _in_loop(events: list[LogEvent]) -> bool:
    """Return True if the trainer has reported that its training loop or its broadcast starts."""
    for e in events:
        if e.event.kind == "starting" and e.event.values.get("what") in ("loop", "broadcast"):
            return True
    return False


def _said_m(run: RunFacts, side: Side, last: LogEvent | None) -> float:
    """Return the second of the monotonic clock at which a side last showed work, by its last step
    or its newest event, or at which the run started if neither is known.
    """
    if last is None:
        if side.last_step_m is None:
            return run.started_m
        return side.last_step_m
    if side.last_step_m is None:
        return last.m
    return max(side.last_step_m, last.m)
