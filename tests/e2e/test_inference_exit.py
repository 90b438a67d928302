"""An inference server that ends with another code than 0 is noticed by the launcher, which ends the
run; the agent says why.
"""

from __future__ import annotations

import time

import pytest

from bs4_practice import faults
from bs4_practice.scenarios import train
from bs4_practice.stage import staged

pytestmark = pytest.mark.beside

#: Both launchers look at their children every second and give them seconds to end.
NOTICED_S = 30.0


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("trainer", ["prime-rl-2026-01", "prime-rl"])
async def test_the_run_ends_within_half_a_minute_and_the_incident_says_so(trainer: str) -> None:
    async with staged(trainer) as stage:
        await train(stage)
        (server,) = faults.find(stage.pod, "inference")
        killed = time.time()
        faults.kill(server)
        run = stage.session.state.runs["demo"]
        await stage.until(lambda: run.word == "failed", 120, "the end of the run")
        assert run.view.attempt is not None
        assert run.view.attempt.ended_t is not None
        ended_s = run.view.attempt.ended_t - killed
        assert ended_s < NOTICED_S
        assert run.view.attempt.good is False
        assert run.view.attempt.code not in (0, None)
        assert faults.find(stage.pod, "launcher") == []
        incident = await stage.incident("inference-exited", 120)
        assert (incident.run, incident.severity) == ("demo", "critical")
        assert any(
            e["source"] == "launcher" and "Inference failed with exit code" in e["text"]
            for e in incident.evidence
        )
        print(
            f"{trainer}: ended after {ended_s:.1f} s, incident after "
            f"{incident.opened_t - killed:.1f} s"
        )
