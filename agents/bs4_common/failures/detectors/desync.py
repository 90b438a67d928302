"""The 2026-01 step desync: the packer waits for rollouts of a step that the orchestrator will never
write.

The packer starts at W, the largest step directory in run_default/checkpoints, whatever was resumed
(trainer/runs.py of 2026-01-07); the orchestrator writes from its own step. No error, no timeout, no
log line at INFO. The files alone decide it, so a finished run directory shows it as well as a live
one.
"""

from __future__ import annotations

from collections.abc import Sequence

from bs4_common.failures.compiled import Parameters
from bs4_common.failures.evidence import file_evidence
from bs4_common.failures.facts import Facts, Finding, RunFacts


def step_desync(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if the trainer of a
    run of prime-rl's version of January 2026 waits for the rollouts of a step that the orchestrator
    will never write, because the orchestrator began at another step. The step numbers of the run's
    checkpoint and rollout files prove that. Else, or if the run has ended or the trainer has
    finished a step, return an empty list. `parameters` is not used.
    """
    over = run.state in ("ended", "lost")
    if over or run.stop_requested:
        return []
    files, start = run.files, run.started_t
    before = (step for step, mtime in files.orchestrator_checkpoints.items() if mtime <= start)
    awaited = max(before, default=0)
    written = sorted(step for step, mtime in files.rollouts.items() if mtime > start)
    packed = max(files.rank_files.values(), default=start) > start
    if not written or packed or awaited in written or run.trainer_side.steps:
        return []
    evidence = [
        file_evidence(
            run.layout.orchestrator_checkpoints / f"step_{awaited}",
            f"the newest leftover: the trainer waits for rollouts of step {awaited}",
        ),
        file_evidence(
            run.layout.run_dir / "rollouts" / f"step_{written[0]}",
            f"the orchestrator writes from step {written[0]} on",
        ),
    ]
    if barrier := run.last_event("barrier", "orchestrator"):
        evidence.append(barrier.evidence())
    return [
        Finding(
            failure="step-desync",
            run=run.name,
            attempt=run.attempt,
            summary=f"The trainer waits for step {awaited}, the orchestrator writes step "
            f"{written[0]}: neither will ever move.",
            evidence=evidence,
            anchor=f"files:step_{awaited}:step_{written[0]}",
            playbook=run.fallback,
        )
    ]
