"""kill -9 of the agent at every boundary of a recovery: its successor finishes it, and nothing is
done twice.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e import journals
from tests.e2e.killing import at, kill_agent_at
from tests.e2e.playing import broken, ended

pytestmark = pytest.mark.beside

OLD, NEW = "prime-rl-2026-01", "prime-rl"
DESYNC = ("stop_run", "archive_logs", "move_steps", "relaunch")
EVERY = [
    ("accepted", ""),
    *((event, kind) for kind in DESYNC for event in ("intent", "step-done")),
    ("verifying", ""),
]
#: Before each kind of step that changes something, behind one, and before and after all of them.
SHORT = [
    ("step-desync/resume-ahead", OLD, "accepted", ""),
    ("step-desync/resume-ahead", OLD, "intent", "move_steps"),
    ("step-desync/resume-ahead", OLD, "step-done", "move_steps"),
    ("vllm-silent-death", OLD, "intent", "stop_run"),
    ("vllm-silent-death/started-apart", NEW, "intent", "relaunch_companion"),
    ("vllm-silent-death", NEW, "verifying", ""),
    ("stale-gpu-process", OLD, "intent", "end_processes"),
    ("stale-gpu-process", NEW, "intent", "relaunch"),
]
OTHERS = [
    case
    for case in (
        *(("step-desync/resume-ahead", OLD, *moment) for moment in EVERY),
        ("stale-gpu-process", OLD, "step-done", "end_processes"),
    )
    if case not in SHORT
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("scenario", "trainer", "event", "kind"),
    [
        *(pytest.param(*case, marks=pytest.mark.long) for case in SHORT),
        *(pytest.param(*case, marks=pytest.mark.rounds) for case in OTHERS),
    ],
)
async def test_a_killed_agent_finishes_what_it_began(
    scenario: str, trainer: str, event: str, kind: str, tmp_path: Path
) -> None:
    async with broken(scenario, trainer) as pod:
        step = pod.kinds().index(kind) if kind else None
        keys: list[str] = []
        killing = asyncio.create_task(
            kill_agent_at(pod.stage, lambda: keys[0] if keys else None, at(event, step))
        )
        keys.append(await pod.stage.session.submit("playbook", **pod.body()))
        killed, killed_t = await killing
        async with asyncio.timeout(240):
            action = await ended(pod.stage, keys[0])
        assert (action.state, action.result.get("recovered")) == ("done", True), (
            f"{action.state}: {action.detail}"
        )
        told = pod.check_recovered(keys[0], tmp_path)

        agents = journals.agents(pod.home)
        assert agents.count(killed) == 1
        assert agents[-1] != killed
        assert len(agents) == 2
        before = [r for r in told if r["t"] <= killed_t]
        assert before[-1] is not told[-1], "it was killed when all was over"
        # A step that was over stays over; only the one that the kill cut off is looked at again,
        # and begun again if it was not done.
        cut_off = set(journals.acted_steps(before)) - set(journals.finished_steps(before))
        again = {number for number, count in journals.acted_steps(told).items() if count > 1}
        assert len(cut_off) <= 1
        assert again <= cut_off
