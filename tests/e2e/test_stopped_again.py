"""A run that the console stopped is started again, with another config: its stop is no failure of
the new attempt, and the new config counts.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from bs4_console.launch import guide
from bs4_console.launch.guide import LaunchRequest
from bs4_console.run_log.record_fold import fold
from bs4_practice.stage import Stage, staged

pytestmark = [pytest.mark.long, pytest.mark.beside]

ASKED = LaunchRequest(run="demo", trainer="prime-rl", config="configs/rl.toml")


def incidents(stage: Stage) -> list[tuple[str, int, str]]:
    """Every incident that was ever opened, also those that are over: failure, attempt, summary."""
    return [(i.failure, i.attempt, i.summary) for i in stage.ledger.incidents.values()]


def attempt_of(stage: Stage) -> int:
    """The number of the run's newest attempt, 0 before there is one."""
    run = stage.session.state.runs.get("demo")
    if run is None or run.view.attempt is None:
        return 0
    return run.view.attempt.number


async def ended(stage: Stage, key: str) -> Any:
    async with asyncio.timeout(120):
        async for action in stage.session.follow_action(key):
            last = action
    return last


async def stopped(stage: Stage) -> None:
    """Wait until the run has passed its first checkpoint, and stop it by the console."""
    await stage.until(lambda: attempt_of(stage) == 1, 60, "the first attempt")
    await stage.until(lambda: [s for _, s in stage.steps() if s >= 6], 120, "a checkpoint")
    await stage.must("stop", run="demo")
    await stage.until(
        lambda: stage.session.state.runs["demo"].view.attempt.ended_t is not None,
        180,
        "the end of the attempt",
    )


@pytest.mark.timeout(400)
async def test_a_launch_after_a_stop_of_ours_raises_nothing_and_its_config_counts() -> None:
    async with staged("prime-rl", step_seconds=1.0) as stage:
        await stage.launch()
        await stopped(stage)
        assert incidents(stage) == []
        configs = stage.pod.project / "configs"
        text = (configs / "rl.toml").read_text()
        assert "max_steps = 10000" in text
        (configs / "rl2.toml").write_text(text.replace("max_steps = 10000", "max_steps = 300"))
        view = await guide.plan(stage.session, replace(ASKED, config="configs/rl2.toml"))
        assert view.plan["resume"] is not None
        assert any(
            "h to step 300 at" in line for line in guide.plan_lines(view, stage.session.state)
        )
        action = await ended(stage, await guide.start(stage.session, view, confirmed=True))
        assert action.state == "done", action.detail
        assert action.result["attempt"] == 2
        assert incidents(stage) == []
        run = stage.session.state.runs["demo"]
        record = fold(stage.session.state, run)
        assert (run.view.config, run.view.max_steps) == ("configs/rl2.toml", 300)
        assert (record.config, record.max_steps) == ("configs/rl2.toml", 300)


@pytest.mark.timeout(400)
async def test_a_start_by_hand_after_a_stop_of_ours_raises_nothing() -> None:
    """Both starts append to one file, as with `>> by-hand.log`."""
    async with staged("prime-rl", step_seconds=1.0) as stage:
        log = stage.pod.home / "by-hand.log"
        await stage.pod.spawn(stage.pod.launch_command(), log=log)
        await stopped(stage)
        assert "Received SIGTERM" in log.read_text()
        began = time.time()
        await stage.pod.spawn(stage.pod.launch_command("--resume"), log=log)
        await stage.until(lambda: attempt_of(stage) == 2, 60, "the second attempt")
        await stage.until(lambda: [t for t, _ in stage.steps() if t > began], 120, "a step")
        assert incidents(stage) == []
