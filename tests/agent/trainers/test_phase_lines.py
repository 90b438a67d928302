"""Lines by which a phase is known: evaluations that begin, and clients that wait for a rate
limit.
"""

from __future__ import annotations

import pytest

from bs4_common.trainers import registry

STARTS = [
    ("prime-rl-2026-01", "Running evals for checkpoint step 20 (blocking, subprocess)", 20),
    ("prime-rl-2026-01", "Running final evals (subprocess)", None),
    ("prime-rl-2026-01", "Running validation for step 7", 7),
    ("prime-rl", "Starting evals in aime25, bench (680 total rollouts)", None),
]


@pytest.mark.parametrize(("trainer_id", "text", "step"), STARTS)
def test_an_evaluation_begins(trainer_id: str, text: str, step: int | None) -> None:
    trainer = registry.get(trainer_id)
    event = trainer.event(
        "orchestrator", trainer.parse_line("orchestrator", f"21:37:07    INFO {text}".encode())
    )
    assert event is not None
    assert (event.kind, event.side, event.step) == ("eval-start", "orchestrator", step)
    assert (
        trainer.event("trainer", trainer.parse_line("trainer", f"21:37:07    INFO {text}".encode()))
        is None
    )


@pytest.mark.parametrize("trainer_id", ["prime-rl-2026-01", "prime-rl"])
@pytest.mark.parametrize("source", ["trainer", "orchestrator", "inference"])
def test_a_client_waits_for_a_rate_limit(trainer_id: str, source: str) -> None:
    trainer = registry.get(trainer_id)
    event = trainer.event(
        source, trainer.parse_line(source, b"Rate limited. Waiting 56.0s before retry [Retry 1/5].")
    )
    assert event is not None
    assert (event.kind, event.side, event.values["wait_s"]) == ("rate-limited", source, 56.0)
    quoted = trainer.parse_line(
        source, b"21:37:07   DEBUG Rate limited. Waiting 56.0s before retry [Retry 1/5]."
    )
    assert trainer.event(source, quoted) is None
