"""Detector for the current generation's resume trap: the largest step directory holds only the
orchestrator's half.

The orchestrator saves a step when it ships it and once more while it dies, so its newest checkpoint
often has no trainer half. A plain `--resume` takes the largest number, and the trainer ends with
FileNotFoundError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bs4_agent.detect.facts import Facts, Finding, RunFacts, file_evidence


def resume_latest_partial(
    facts: Facts, run: RunFacts, parameters: Mapping[str, Any]
) -> Sequence[Finding]:
    """Return a finding if the run resumed from its largest step, which lacks the trainer's half,
    and died of it.
    """
    if (
        run.spec.trainer != "prime-rl"
        or not run.checkpoints
        or run.trainer_side.steps
        or run.good_end
    ):
        return []
    newest = run.checkpoints[-1]
    if newest.complete or "trainer" not in newest.missing:
        return []
    part = f"step_{newest.step}/trainer"
    failure = next((e for e in run.events_of("fatal") if part in e.text), None)
    if failure is None:
        return []
    return [
        Finding(
            failure="resume-latest-partial",
            run=run.name,
            attempt=run.attempt,
            summary=(
                f"The run resumed from step {newest.step}, of which only the orchestrator's half "
                "exists."
            ),
            evidence=[
                failure.evidence(),
                file_evidence(
                    run.layout.orchestrator_checkpoints / f"step_{newest.step}",
                    f"missing: {', '.join(newest.missing)}",
                ),
            ],
            anchor=f"files:step_{newest.step}",
            playbook=run.fallback,
        )
    ]
