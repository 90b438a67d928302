"""Detector for silence: nothing moves any more, and no phase explains it.

Every side that has what it needs must give a sign within a few of the run's own steps. A side that
waits depends on the other side, so the finding names which side has to move. The pace is the run's
own: the longer of the trainer's median step time and the median distance between its step lines (a
checkpoint or a broadcast lies between them). A step of 2.5 times the usual length is slow, not
dead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bs4_common.failures.compiled import Parameters
from bs4_common.failures.evidence import process_evidence
from bs4_common.failures.facts import Facts, Finding, GpuFacts, LogEvent, RunFacts
from bs4_common.failures.phases import ORCHESTRATOR, TRAINER, Activity, activities
from bs4_common.failures.series import gaps, pace_s
from bs4_common.runs.model import Member

#: Usual steps: 2.8, less if a scan every 2 s would come after the third step, and never so few that
#: 2.5 would be dead.
STEPS, WITHIN, SLOW = 2.8, 3.0, 2.6
_LOOK_S = 3.0
#: Seconds: the shortest limit, the longest limit (a median can be half an hour), and the limit
#: before the first step (models load and compile).
LOW_S, HIGH_S, START_S = 8.0, 7200.0, 2700.0
#: Before this many steps the run's pace is unknown, and the catalog's rule holds: seconds and usual
#: steps.
SETTLED, EARLY_S, EARLY_STEPS = 3, 600.0, 5.0
#: A stopped process certainly does nothing, so one usual step is enough.
STOPPED_S, STOPPED_STEPS = 3.0, 1.0
#: Seconds that a phase may take without a log line: for example a 47 GB checkpoint to a network
#: disk, or an evaluation of thousands of rollouts.
PHASE_S = {"checkpoint": 900.0, "evaluation": 1800.0, "weight sync": 720.0, "end": 900.0}
#: Seconds that the one-token requests take that recognise a hung server. Their finding is the cause
#: and has its own name.
PROBE_S = 65.0
#: If the GPUs of the side that has to move compute, it is slow, and it gets this many times its
#: limit.
BUSY_FACTOR, BUSY_UTIL, BUSY_POWER = 4.0, 50.0, 0.4
#: A run with this many steps beyond twice the pace among its last twenty varies by nature.
LONG_TAIL, TAIL_MARGIN, TAIL_CAP = 3, 1.2, 6.0

_PROCESSES = {TRAINER: ("rank", "trainer"), ORCHESTRATOR: ("orchestrator", "env-server")}
_GPUS = {TRAINER: ("rank", "trainer"), ORCHESTRATOR: ("inference", "engine", "worker")}


@dataclass(frozen=True)
class _Silent:
    """A side (trainer or orchestrator) that has been silent for longer than `limit_s` seconds.
    `stopped` is the side's process if a signal has stopped it (SIGSTOP), or None.
    """

    activity: Activity
    limit_s: float
    stopped: Member | None = None


def run_stalled(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence; its role is symptom:
    it is a consequence, not a cause) if a side of a live run (trainer or orchestrator) has been
    silent for longer than can be explained by the run's usual duration of a step and by its present
    phase (for example the saving of a checkpoint), or one of its processes is stopped by a signal.
    Else return an empty list. `parameters["steps"]` is how many usual durations of a step a silence
    may last (default 2.8); before the first step a fixed time counts.
    """
    if (
        run.state not in ("starting", "running")
        or run.good_end
        or run.winding_down
        or run.stop_requested
        or run.spec.component != "rl"
    ):
        return []
    sides = activities(run)
    silent = _stopped(facts, run, sides) or _overdue(
        facts, run, sides, float(parameters.get("steps", STEPS))
    )
    if silent is None:
        return []
    return [_finding(facts, run, sides, silent)]


def _overdue(
    facts: Facts, run: RunFacts, sides: Mapping[str, Activity], steps: float
) -> _Silent | None:
    """Return the side that has to move and has been silent for too long, or None. If each side
    waits for the other, the side that began to wait last is judged.
    """
    moving = [a for a in sides.values() if not a.waits_for and a.phase != "end"]
    if not moving:
        waiting = sorted(sides.values(), key=lambda a: a.since_m, reverse=True)
        moving = [a for a in waiting if a.waits_for][:1]
    for activity in moving:
        limit = _limit_s(facts, run, activity, steps)
        quiet = facts.now_m - activity.since_m
        if (
            quiet >= limit
            and not _rate_limited(facts, run, limit)
            and not (quiet < limit + PROBE_S and _server_in_doubt(run, activity))
        ):
            return _Silent(activity, limit)
    return None


def _limit_s(facts: Facts, run: RunFacts, activity: Activity, steps: float) -> float:
    """Return how many seconds a side may be silent."""
    pace = pace_s(run)
    if run.trainer_side.steps == 0 or pace is None or activity.phase == "start-up":
        return START_S
    if run.trainer_side.steps < SETTLED or run.trainer.traits.phase is not None:
        return max(EARLY_S, EARLY_STEPS * pace)
    silence = max(min(steps * pace, WITHIN * pace - _LOOK_S), SLOW * pace)
    limit = max(min(max(silence, _tail_s(run, pace), LOW_S), HIGH_S), _phase_s(run, activity))
    if _busy(facts.gpus, run, activity.side) and _lives(facts, run, activity):
        return limit * BUSY_FACTOR
    return limit


def _tail_s(run: RunFacts, pace: float) -> float:
    """Return how many seconds the longest gaps of a run explain that varies by nature, or 0.0 for
    other runs.
    """
    long = [gap for gap in gaps(run) if gap > 2.0 * pace]
    if len(long) >= LONG_TAIL:
        return min(TAIL_MARGIN * max(long), TAIL_CAP * pace)
    return 0.0


def _phase_s(run: RunFacts, activity: Activity) -> float:
    """Return how many seconds this phase may take: its usual bound, or three times the longest
    duration seen in this run if at least three were seen. Return 0.0 for a phase without a bound.
    """
    bound = PHASE_S.get(activity.phase)
    if bound is None:
        return 0.0
    opening = {
        "checkpoint": "save",
        "evaluation": "eval-start",
        "weight sync": "policy-update",
    }.get(activity.phase)
    seen = _durations(run, activity.side, opening) if opening else []
    if len(seen) >= SETTLED:
        return min(bound, 3.0 * max(seen))
    return bound


def _durations(run: RunFacts, side: str, opening: str) -> list[float]:
    """Return the seconds from each earlier line of the kind `opening` to the side's next line of
    another kind.
    """
    events = []
    for e in run.events:
        if e.event.side == side and e.event.kind != "heartbeat":
            events.append(e)
    found = []
    for earlier, later in pairwise(events):
        if earlier.event.kind == opening and later.event.kind != opening:
            found.append(later.m - earlier.m)
    return found


def _rate_limited(facts: Facts, run: RunFacts, limit: float) -> bool:
    """Return True if a client said that it waits for a rate limit, and this wait and its usual time
    are not over.
    """
    for event in run.events_of("rate-limited")[-3:]:
        if facts.now_m < event.m + float(event.event.values.get("wait_s", 0.0)) + limit:
            return True
    return False


def _server_in_doubt(run: RunFacts, activity: Activity) -> bool:
    """Return True if rollouts do not come and the prober is still finding out if the inference
    server answers at all.
    """
    server = run.server
    if activity.side != ORCHESTRATOR or server.ever_ok_m is None or server.health != "ok":
        return False
    return server.failures > 0 or server.answer_m is None or server.answer_m < activity.since_m


def _busy(gpus: GpuFacts, run: RunFacts, side: str) -> bool:
    """Return True if the GPUs that this side uses compute: they are used, and not at the low power
    of a hung collective.
    """
    for g in gpus.held_by(run, _GPUS[side]):
        if gpus.util.get(g, 0.0) >= BUSY_UTIL and gpus.power.get(g, 1.0) >= BUSY_POWER:
            return True
    return False


def _lives(facts: Facts, run: RunFacts, activity: Activity) -> bool:
    """Return False if the orchestrator's heartbeats have stopped. Inference finishes its requests
    even if the orchestrator has ended, so busy GPUs alone prove nothing.
    """
    if activity.side == TRAINER:
        return True
    beats = run.events_of("heartbeat", ORCHESTRATOR)
    if len(beats) < 2:
        return not run.trainer.traits.heartbeats
    return facts.now_m - beats[-1].m < max(LOW_S, 40.0)


def _stopped(facts: Facts, run: RunFacts, sides: Mapping[str, Activity]) -> _Silent | None:
    """Return a side whose own process is stopped (state T: SIGSTOP or a debugger) and which has
    been quiet since, or None.
    """
    limit = max(STOPPED_S, STOPPED_STEPS * (pace_s(run) or 10 * STOPPED_S))
    for activity in sides.values():
        names: tuple[str, ...] = _PROCESSES[activity.side]
        if run.ever("rank") and "rank" in names:
            names = ("rank",)  # torchrun itself only waits for its ranks
        held = next((m for m in run.alive(*names) if m.state in ("T", "t")), None)
        said = activity.last.m if activity.last is not None else activity.since_m
        if held is not None and activity.phase != "end" and facts.now_m - said >= limit:
            return _Silent(activity, limit, held)
    return None


def _finding(
    facts: Facts, run: RunFacts, sides: Mapping[str, Activity], silent: _Silent
) -> Finding:
    """Return the finding for a silent side."""
    activity, stopped = silent.activity, silent.stopped
    others = [a for a in sides.values() if a.side != activity.side]
    evidence = []
    if stopped is not None:
        text = f"{stopped.component} is stopped (state {stopped.state})"
        evidence.append(process_evidence(stopped.identity, text))
    for a in (activity, *others):
        if a.last is not None:
            evidence.append(a.last.evidence())
    coverage = []
    if facts.gpus.state != "ok":
        coverage = [f"GPUs are {facts.gpus.state}: their load could not be looked at"]
    return Finding(
        failure="run-stalled",
        run=run.name,
        attempt=run.attempt,
        summary=_summary(run, activity, others, silent),
        evidence=evidence,
        anchor=f"stall:{run.trainer_side.last_step}:{run.orchestrator_side.last_step}",
        role="symptom",
        coverage=coverage,
        playbook=run.fallback,
    )


def _summary(run: RunFacts, activity: Activity, others: Sequence[Activity], silent: _Silent) -> str:
    """Return the finding's summary. It has no ages, so that the same silence reads the same in
    every scan.
    """
    pace = pace_s(run)
    usual = ""
    if pace is not None and run.trainer_side.steps:
        usual = f"; a step usually takes {_seconds(pace)}"
    head = f"No sign of work for more than {_seconds(silent.limit_s)}{usual}."
    if silent.stopped is not None:
        whose = "its"
        if silent.stopped.component != activity.side:
            whose = f"its {silent.stopped.component}"
        why = (
            f"The {activity.side} is held: {whose} process {silent.stopped.identity.pid} is "
            "stopped."
        )
    elif activity.waits_for:
        why = (
            f"The {activity.side} waits for the {activity.waits_for}'s {_thing(activity)}, and "
            f"the {activity.waits_for} waits for it."
        )
    elif activity.side == ORCHESTRATOR and activity.phase in (
        "rollout",
        "evaluation",
        "weight sync",
    ):
        why = (
            "The orchestrator waits for the inference server or its environments: "
            f"{activity.awaits} does not come together."
        )
    else:
        why = (
            f"The {activity.side} is busy with {activity.awaits} ({activity.phase}) and does not "
            "finish it."
        )
    tail = ""
    for a in others:
        if a.waits_for == activity.side and not activity.waits_for:
            tail = f" The {a.side} waits for the {a.waits_for}'s {_thing(a)}."
    last = "; ".join(f"{a.side}: {_said(a.last)}" for a in (activity, *others))
    return f"{head} {why}{tail} Last: {last}."


def _thing(activity: Activity) -> str:
    """Return what a side waits for, without its article."""
    return activity.awaits.removeprefix("the ")


def _said(event: LogEvent | None) -> str:
    """Return the beginning of an event's line, at most 80 characters."""
    if event is None:
        return "nothing yet"
    return event.text.partition(" | ")[0][:80].rstrip(".")


def _seconds(seconds: float) -> str:
    """Return a duration as text, in seconds below two minutes and in minutes above."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
