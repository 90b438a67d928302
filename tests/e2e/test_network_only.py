"""What only looks like a lost pod: the way to it is cut for an hour, or it takes connections and
says no word. Nothing is rented.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from bs4_console.cli import recover
from bs4_console.recovery import config as controller_config
from bs4_console.recovery import recovery_io
from bs4_console.recovery.controller import Controller
from bs4_console.recovery.lease import Lease
from bs4_practice import bare
from tests.e2e import journals, rented
from tests.e2e.rented import Rig
from tests.support.cable import cable

pytestmark = [
    pytest.mark.long,
    pytest.mark.beside,
    pytest.mark.skipif(not bare.usable(), reason="a bare practice pod needs git"),
]
TRAINER = "prime-rl"
HOUR = 3600.0


class Clock:
    """The controller's own: it can be put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead

    def wall(self) -> float:
        return time.time() + self.ahead

    async def sleep(self, seconds: float) -> None:
        self.ahead += seconds


@contextlib.asynccontextmanager
async def watching(at: Rig, clock: Clock, patch: pytest.MonkeyPatch) -> AsyncIterator[Controller]:
    """The controller as `recover --watch` makes it, by another clock and with a lease that settles
    sooner.
    """
    for name, value in at.console.environment.items():
        patch.setenv(name, value)
    config = controller_config.read()["demo"]
    async with recover.controller_of(
        argparse.Namespace(plan=None, moved=False, dry_run=False, json=False), config
    ) as one:
        one.clock, one.wall, one.sleep = clock, clock.wall, clock.sleep
        one.hands.clock = clock  # type: ignore[attr-defined]
        one.lease = Lease(
            one.hands.store, config.layout, "tester", ttl_s=60.0, settle_s=1.0, margin_s=20.0
        )  # type: ignore[attr-defined]
        yield one


async def until(condition: Callable[[], Any], what: str) -> Any:
    try:
        async with asyncio.timeout(180):
            while not (found := await asyncio.to_thread(condition)):
                await asyncio.sleep(0.1)
            return found
    except TimeoutError:
        raise AssertionError(f"waited in vain for {what}") from None


def done_to(at: Rig) -> list[str]:
    """Every action that anybody has begun on the pod, and every process life of its run and its
    agent.
    """
    told = [
        r["action"]
        for r in journals.records(at.pod.home)
        if r["type"] == "action" and r["event"] == "accepted"
    ]
    attempts = sorted(
        path.parent.name for path in (at.pod.home / ".bs4/runs/demo/attempts").glob("*/shim.json")
    )
    return [*told, *attempts, *map(str, journals.agents(at.pod.home))]


@pytest.mark.timeout(900)
async def test_an_hour_without_the_link_costs_nothing_and_rents_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with rented.rig(TRAINER, step_seconds=0.3) as at:
        async with cable(at.pod.host, at.pod.port) as link:
            at.meet(link.port)
            await asyncio.to_thread(at.train)
            await asyncio.to_thread(at.sync)
            await until(at.pointed, "the first upload")
            clock = Clock()
            async with watching(at, clock, monkeypatch) as one:
                before = await one.poll()
                assert (before.word, before.exit_code) == ("watching", 0), before
                known = one.records.last_step()
                assert known is not None
                untouched = done_to(at)

                await link.pull_out()
                cut, verdicts = clock(), []
                while clock() - cut < HOUR:
                    outcome = await one.poll()
                    assert outcome.word == "watching", outcome
                    assert outcome.verdict is not None
                    verdicts.append(outcome.verdict.word)
                    # The run goes on: it trains, and its pod saves what it has trained.
                    pointed, step = at.pointed(), at.steps(at.pod)[-1]
                    await until(lambda step=step: at.steps(at.pod)[-1] > step, "another step")
                    if len(verdicts) in (1, 4):
                        await until(
                            lambda pointed=pointed: at.pointed() > pointed, "another upload"
                        )
                    clock.ahead += 600.0
                assert set(verdicts[1:]) == {"network-only"}, verdicts
                assert set(verdicts) <= {"network-only", "unknown"}
                assert one.records.last_step() == known, "nothing was heard of it"
                trained = at.steps(at.pod)[-1]

                await link.plug_in()
                # the pod's agent may not have read the newest line yet when it is looked at
                async with asyncio.timeout(90):
                    while True:
                        back = await one.poll()
                        assert back.verdict is not None
                        assert (back.verdict.word, back.exit_code) == ("fine", 0)
                        if (one.records.last_step() or 0) >= trained > known:
                            break
                state = await asyncio.to_thread(one.records.load)
                assert state is not None
                assert (state.phase, state.attempts, state.spent(0.0, clock.wall())) == (
                    "watching",
                    (),
                    0.0,
                )
            assert at.spent() == []
            assert list(at.cloud.market.rented) == [at.first.id]
            assert done_to(at) == untouched
            complete = at.complete()
            await until(lambda: at.pointed() >= complete, "the newest set in the store")
            shown = (await asyncio.to_thread(at.console, "runs", "list", "--json")).json["runs"]
            assert shown[0]["step"] >= trained


@pytest.mark.timeout(600)
async def test_a_machine_that_says_no_word_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs at the provider and takes connections: nothing is rented for it, and its run goes
    on.
    """
    with rented.rig(TRAINER, step_seconds=0.3) as at:
        # Not by a stop of its SSH server: a test that is killed hard could not take that back, and
        # the pod would stay for ever.
        async with cable(at.pod.host, at.pod.port) as link:
            at.meet(link.port)
            await asyncio.to_thread(at.train)
            clock = Clock()
            async with watching(at, clock, monkeypatch) as one:
                assert (await one.poll()).exit_code == 0
                untouched, step = done_to(at), at.steps(at.pod)[-1]
                link.mute()
                # nothing will come, however long it is waited for
                with monkeypatch.context() as brief:
                    brief.setattr(recovery_io, "LOOK_S", 3.0)
                    brief.setattr(recovery_io, "GREET_S", 1.0)
                    outcome = await one.poll()
                assert outcome.verdict is not None
                assert (outcome.word, outcome.verdict.word) == ("watching", "hung"), outcome
                await until(lambda: at.steps(at.pod)[-1] > step, "the run, which went on")
                assert (at.spent(), done_to(at)) == ([], untouched)
                link.speak()
                back = await one.poll()
                assert back.verdict is not None
                assert back.verdict.word == "fine"
