"""What a console makes of an agent's plan of a merge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_console.checkpoints import merge
from bs4_console.errors import RefusedError
from bs4_console.pods.state import ActionView, PodState


class Agent:
    """Answers a plan with what an agent of the version before understands of it."""

    def __init__(self, *known: str) -> None:
        self.state, self.known = PodState(name="pod-a"), known

    async def submit(self, kind: str, **body: Any) -> str:
        asked = {name: body["merge"][name] for name in self.known}
        view: Any = SimpleNamespace(action="key", plan={"asked": asked})
        self.state.ledger.plans["hash"] = view
        return "key"

    async def follow_action(self, key: str) -> AsyncIterator[ActionView]:
        yield ended()


def ended() -> ActionView:
    return ActionView(
        key="key", kind="plan", who="a", run="demo", state="done", accepted_t=0.0, updated_t=0.0
    )


async def test_an_older_agent_that_would_merge_a_step_instead_is_refused() -> None:
    asked = merge.MergeRequest("demo", adapter="/a", base="/b")
    agent: Any = Agent("run", "step", "target")
    with pytest.raises(RefusedError, match="older and merges only steps"):
        await merge.plan(agent, asked)
    agent = Agent("run", "step", "target", "adapter", "base")
    assert (await merge.plan(agent, asked)).plan["asked"]["adapter"] == "/a"
    agent = Agent("run", "step", "target")
    assert (await merge.plan(agent, merge.MergeRequest("demo"))).plan["asked"]["step"] is None
