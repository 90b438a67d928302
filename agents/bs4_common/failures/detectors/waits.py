"""Detectors for waits that are normal for a step or two and a sign of a failure after that."""

from __future__ import annotations

from collections.abc import Sequence

from bs4_common.failures.compiled import Parameters
from bs4_common.failures.facts import Facts, Finding, LogEvent, RunFacts
from bs4_common.failures.phases import ORCHESTRATOR, TRAINER, activities
from bs4_common.failures.series import pace_s

_BARRIER_LOW_S = 30.0


def async_barrier_wait(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence; its role is symptom:
    it is a consequence, not a cause) if the orchestrator of a running run has waited at its barrier
    for the trainer's next step for at least `parameters["steps"]` (must be given) times the usual
    duration of a trainer's step and at least 30 seconds. Else return an empty list. Time in which
    the trainer saves a checkpoint does not count. Nothing is found while the usual length of a step
    is unknown.
    """
    pace = pace_s(run)
    if run.state != "running" or run.good_end or run.stop_requested or pace is None:
        return []
    sides = activities(run)
    waiting, trainer = sides[ORCHESTRATOR], sides[TRAINER]
    limit = max(float(parameters["steps"]) * pace, _BARRIER_LOW_S)
    barrier = run.last_event("barrier", ORCHESTRATOR)
    # Time in which the trainer wrote a checkpoint does not count as time without a step.
    waited = facts.now_m - max(waiting.since_m, trainer.since_m)
    if (
        waiting.waits_for != TRAINER
        or barrier is None
        or trainer.phase == "checkpoint"
        or waited < limit
    ):
        return []
    text = (
        f"The orchestrator has waited for {waiting.awaits} for more than "
        f"{float(parameters['steps']):g} usual steps."
    )
    evidence = [barrier.evidence(), *([trainer.last.evidence()] if trainer.last else [])]
    return [
        Finding(
            failure="async-barrier-wait",
            run=run.name,
            attempt=run.attempt,
            summary=text,
            evidence=evidence,
            anchor=f"barrier:{run.trainer_side.last_step}:{run.orchestrator_side.last_step}",
            severity="info",
            role="symptom",
        )
    ]


def packer_starved(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence; its role is symptom:
    it is a consequence, not a cause) if the trainer's packer, which waits for rollouts, has logged
    more than `parameters["times"]` timeouts (must be given) since the trainer's last step, else an
    empty list.
    """
    timeouts: list[LogEvent] = []
    for event in run.events:
        if event.event.side != TRAINER:
            continue
        if event.event.kind == "step":
            timeouts = []
        elif event.event.kind == "waiting-batch" and event.text.startswith("Timeout"):
            timeouts.append(event)
    if len(timeouts) <= int(parameters["times"]) or run.good_end or run.stop_requested:
        return []
    step = run.trainer_side.last_step
    after = f"since its step {step}" if step is not None else "since its start"
    text = (
        "The trainer's packer has waited in vain for rollouts more than "
        f"{int(parameters['times'])} times {after}."
    )
    return [
        Finding(
            failure="packer-starved",
            run=run.name,
            attempt=run.attempt,
            summary=text,
            evidence=[timeouts[0].evidence(), timeouts[-1].evidence()],
            anchor=f"packer:{step}",
            severity="info",
            role="symptom",
        )
    ]


def drain_deadlock(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if the orchestrator
    of a run that is not over has paused until the trainer gives it a new policy, and the trainer
    has finished or is gone, so that no new policy will come. Else return an empty list.
    `parameters` is not used.
    """
    if run.good_end or run.stop_requested or run.over:
        return []
    holding = []
    for e in run.events_of("holding"):
        if "dispatcher" in e.event.values:
            holding.append(e)
    if (
        not holding
        or holding[-1].event.values["dispatcher"] != "paused"
        or run.last_event("finished", ORCHESTRATOR)
    ):
        return []
    finished = run.last_event("finished", TRAINER)
    if finished is None and not _trainer_gone(run):
        return []
    if run.state == "running" and not run.alive("orchestrator"):
        return []
    what = "is gone" if finished is None else "has finished"
    text = (
        f"The trainer {what}, and the orchestrator still waits for a new policy from it: it "
        "will never come."
    )
    paused = holding[-1]
    evidence = [paused.evidence(), *([finished.evidence()] if finished else [])]
    return [
        Finding(
            failure="drain-deadlock",
            run=run.name,
            attempt=run.attempt,
            summary=text,
            evidence=evidence,
            anchor=f"drain:{run.trainer_side.last_step}",
            severity="critical",
            role="root",
        )
    ]


def _trainer_gone(run: RunFacts) -> bool:
    """Return True if trainer processes were seen and none is left. Offline none is ever seen."""
    return (run.ever("rank") or run.ever("trainer")) and not run.alive("rank", "trainer")


def nccl_startup_hang(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if a running run
    sends weights over NCCL, neither trainer nor orchestrator has made a step, and the
    orchestrator's last sign of work is the beginning of a weight transfer. Else return an empty
    list. The finding only becomes an incident if it lasts for the playbook's hold time, because a
    transfer may take a while. `parameters` is not used.
    """
    if (
        run.state != "running"
        or run.trainer_side.steps
        or run.orchestrator_side.steps
        or run.stop_requested
        or not _by_nccl(run)
    ):
        return []
    sides = activities(run)
    last = sides[ORCHESTRATOR].last
    if last is None or last.event.kind != "policy-update":
        return []
    text = (
        "The first weight transfer over NCCL was begun and has not come about; neither side has "
        "made a step."
    )
    evidence = []
    for a in (sides[ORCHESTRATOR], sides[TRAINER]):
        if a.last is not None:
            evidence.append(a.last.evidence())
    return [
        Finding(
            failure="nccl-startup-hang",
            run=run.name,
            attempt=run.attempt,
            summary=text,
            evidence=evidence,
            anchor=f"nccl:{run.attempt}",
        )
    ]


def _by_nccl(run: RunFacts) -> bool:
    """Return True if the settings choose NCCL, or if the current generation chooses it by default:
    always, except when it trains an adapter.
    """
    kind = run.setting(
        "weight_broadcast.type",
        "trainer.weight_broadcast.type",
        "orchestrator.weight_broadcast.type",
    )
    if kind is not None:
        return bool(kind == "nccl")
    adapter = any(".lora." in key or key.endswith(".lora") for key in run.config or {})
    return run.trainer.traits.sends_by_nccl and run.config is not None and not adapter
