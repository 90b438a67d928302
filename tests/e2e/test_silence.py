"""A side of a live practice run is held by a signal: no line is ever written about it, and it is
found within three of the run's steps.
"""

from __future__ import annotations

import itertools
import statistics
import time

import pytest

from bs4_practice import faults
from bs4_practice.scenarios import advance
from bs4_practice.stage import Stage, staged

#: Seconds of one step: long enough for three of them to be longer than the few seconds below which
#: no silence counts.
STEP_S = 5.0


def usual(stage: Stage) -> float:
    """The witness's median distance between finished steps."""
    moments = [t for t, _ in stage.steps()]
    return statistics.median(later - earlier for earlier, later in itertools.pairwise(moments[1:]))


@pytest.mark.parametrize(
    ("side", "trainer"),
    [
        # Each side and each generation once; the other two are rounds.
        pytest.param("orchestrator", "prime-rl", marks=pytest.mark.long),
        pytest.param("rank", "prime-rl-2026-01", marks=pytest.mark.long),
        pytest.param("orchestrator", "prime-rl-2026-01", marks=pytest.mark.rounds),
        pytest.param("rank", "prime-rl", marks=pytest.mark.rounds),
    ],
)
async def test_a_held_side_is_a_silence_within_three_steps(side: str, trainer: str) -> None:
    async with staged(trainer, step_seconds=STEP_S) as stage:
        await stage.launch()
        await advance(stage, "demo", 6)
        assert not stage.ledger.open_incidents()
        (held,) = faults.find(stage.pod, side)
        held_at = time.time()
        faults.pause(held)
        incident = await stage.incident("run-stalled", 120.0)
        took = incident.opened_t - held_at
        print(f"{trainer} {side}: {took:.1f} s at {usual(stage):.1f} s a step: {incident.summary}")
        assert took < 3 * usual(stage)
        assert [i.failure for i in stage.ledger.open_incidents()] == ["run-stalled"]
        assert str(held.pid) in incident.summary
