"""Confirmations that name another run, attempt or machine, through a real console to real agents:
no run is started or stopped by them.
"""

from __future__ import annotations

from typing import Any

import pytest

from bs4_common.ids import ulid
from bs4_console.errors import RemoteError
from bs4_console.launch import guide, stopping
from bs4_console.launch.guide import LaunchRequest
from bs4_console.pods.state import PlanView
from bs4_practice.stage import Stage, staged

pytestmark = [pytest.mark.long, pytest.mark.beside, pytest.mark.timeout(400)]

ASKED = LaunchRequest(run="demo", trainer="prime-rl-2026-01", config="configs/rl.toml")


async def refused(stage: Stage, kind: str, **body: Any) -> tuple[str, str]:
    """Return the type and the sentence with which the agent refuses the action."""
    with pytest.raises(RemoteError) as answer:
        await stage.session.submit(kind, **body)
    return answer.value.type, answer.value.message


async def ended(stage: Stage, key: str) -> str:
    async for action in stage.session.follow_action(key):
        last = action
    return last.state


def attempts(stage: Stage) -> list[int]:
    run = stage.ledger.runs.get("demo")
    return [] if run is None else sorted(run.attempts)


async def test_a_launch_and_a_stop_do_only_what_was_confirmed_for_them() -> None:
    async with staged("prime-rl-2026-01") as stage:
        home = stage.session.home
        plan = await guide.plan(stage.session, ASKED)
        assert plan.home == home
        launch = {"run": "demo", "plan_hash": plan.plan_hash}
        assert (await refused(stage, "launch", **{**launch, "run": "nope"}))[0] == "refused"
        assert (await refused(stage, "launch", **launch, home=ulid()))[0] == "refused"
        assert attempts(stage) == []
        assert await ended(stage, await guide.start(stage.session, plan)) == "done"

        subject = stopping.subject(stage.session, stage.session.state.runs["demo"])
        assert subject == {"home": home, "run": "demo", "attempt": 1}
        assert (await refused(stage, "stop", **{**subject, "attempt": 2}))[0] == "plan-changed"
        assert (await refused(stage, "stop", **{**subject, "home": ulid()}))[0] == "refused"
        assert stage.ledger.actions_of("stop", "demo") == []
        await stage.until(lambda: [s for _, s in stage.steps() if s >= 11], 300, "a checkpoint")
        await stage.must("stop", **subject)
        await stage.until(
            lambda: stage.ledger.runs["demo"].attempts[1].ended_t is not None, 180, "the end"
        )

        # The plan of the first attempt starts no second one, and the answer has a plan that does.
        type_, sentence = await refused(stage, "launch", **launch)
        assert type_ == "plan-changed", sentence

        def new() -> PlanView | None:
            newest = list(stage.ledger.plans.values())[-1]
            return newest if newest.plan_hash[:16] in sentence else None

        anew = await stage.until(new, 30, "the new plan")
        assert (anew.home, anew.run, anew.attempt) == (home, "demo", 1)
        assert attempts(stage) == [1]
        key = await guide.start(stage.session, anew, confirmed=True)
        assert await ended(stage, key) == "done"
        assert attempts(stage) == [1, 2]
        await stage.must("stop", run="demo")


async def test_what_was_confirmed_for_a_pod_does_nothing_on_the_machine_at_its_address_now() -> (
    None
):
    async with (
        staged("prime-rl-2026-01", name="mine") as mine,
        staged("prime-rl-2026-01", name="other") as other,
    ):
        await other.launch(wait=False)
        plan = await guide.plan(mine.session, ASKED)
        subject = {"home": mine.session.home, "run": "demo", "attempt": 1}
        theirs = other.session.home
        assert theirs != mine.session.home

        # The address leads to the other machine from the next connection on.
        mine.session._transport = other.session._transport
        channel = await mine.session.connected(5.0)
        await channel.close()
        await mine.until(lambda: mine.session.home == theirs, 60, "the other machine's greeting")
        await mine.session.synced(60.0)

        type_, sentence = await refused(mine, "stop", **subject)
        assert (type_, "confirmed for another pod" in sentence) == ("refused", True)
        with pytest.raises(RemoteError) as answer:
            await guide.start(mine.session, plan)
        assert answer.value.type == "refused"
        assert other.ledger.actions_of("stop", "demo") == []
        assert attempts(other) == [1]
        assert other.ledger.runs["demo"].attempts[1].ended_t is None
        await other.must("stop", run="demo")
