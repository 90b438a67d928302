"""A newer console asks the agent to leave in the middle of a recovery: it leaves between two steps,
and its successor goes on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e import journals
from tests.e2e.killing import at
from tests.e2e.playing import broken, ended

NEWER = {"version": "999.0.0", "build": 1, "bundle": "newer"}


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("event", "kind"), [("intent", "stop_run"), ("intent", "relaunch"), ("verifying", "")]
)
async def test_an_agent_leaves_at_a_boundary_and_nothing_is_begun_twice(
    event: str, kind: str, tmp_path: Path
) -> None:
    async with broken("step-desync/resume-ahead", "prime-rl-2026-01") as pod:
        session = pod.stage.session
        first = session.state.hello["pid"]
        step = pod.kinds().index(kind) if kind else None
        key = await session.submit("playbook", **pod.body())
        reached = at(event, step)
        async with asyncio.timeout(120):
            while not any(reached(record) for record in journals.of_action(pod.home, key)):
                await asyncio.sleep(0.002)
        handover = await session.submit("handover", **NEWER)
        async with asyncio.timeout(240):
            action = await ended(pod.stage, key)
        assert (action.state, action.result.get("recovered")) == ("done", True), (
            f"{action.state}: {action.detail}"
        )
        told = pod.check_recovered(key, tmp_path)
        assert set(journals.acted_steps(told).values()) == {1}, "a step was cut off and begun again"
        assert [r["event"] for r in journals.of_action(pod.home, handover)][-1] == "done"
        agents = journals.agents(pod.home)
        assert agents[0] == first
        assert len(agents) == 2
        left = next(
            r
            for r in journals.records(pod.home)
            if r["type"] == "agent" and r["event"] == "handover"
        )
        before = [r for r in told if r["seq"] < left["seq"]]
        assert set(journals.acted_steps(before)) == set(journals.finished_steps(before)), (
            "it left in the middle of a step"
        )
        assert before[-1] is not told[-1], "it left when all was over"
