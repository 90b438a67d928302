"""kill -9 of the agent at a moment that its own journal names."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Any

from bs4_practice import tree
from bs4_practice.stage import Stage
from tests.e2e import journals

Record = dict[str, Any]
Moment = Callable[[Record], bool]

_LOOK_S = 0.002


def at(event: str, step: int | None = None) -> Moment:
    """The first record of an action with this event (of this step). For an intent, the one that
    names what will be done.
    """

    def is_it(record: Record) -> bool:
        return (
            record["event"] == event
            and record.get("step") == step
            and (event != "intent" or "title" in record)
        )

    return is_it


async def kill_agent_at(
    stage: Stage, key: Callable[[], str | None], moment: Moment, timeout: float = 120.0
) -> tuple[int, float]:
    """SIGKILL for the agent as soon as `moment` is on disk. (its pid, the wall time)."""
    victim = tree.look(int(stage.session.state.hello["pid"]))
    assert victim is not None, "the agent that greeted is gone"
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        action = key()
        if action is not None and any(
            moment(r) for r in journals.of_action(stage.pod.home, action)
        ):
            assert tree.send(victim, signal.SIGKILL)
            return victim.pid, time.time()
        await asyncio.sleep(_LOOK_S)
    raise AssertionError(f"the moment to kill the agent did not come within {timeout:g} s")
