"""Merging a step of a verl run into a Hugging Face directory on its pod: what is asked for, the
pod's plan, and its confirmation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bs4_agent.trainers import registry
from bs4_console.errors import NotApplicableError, RefusedError
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, PlanView, PodState, RunState

#: What stands where a playbook's id does.
NAME = "merge"


@dataclass(frozen=True)
class Asked:
    """One merge. `step` None: the newest that is whole. `target` "": below the run's directory; a
    relative one counts from its cwd.
    """

    run: str
    step: int | None = None
    target: str = ""

    def body(self) -> dict[str, Any]:
        return {"run": self.run, "step": self.step, "target": self.target}


async def plan(live: PodSession, asked: Asked) -> PlanView:
    """The pod's plan. NotApplicableError when there is nothing that could be merged, RefusedError
    with the reason when it may not be.
    """
    key = await live.submit("plan", merge=asked.body())
    async for action in live.follow_action(key):
        if action.state == "failed":
            nothing = action.result.get("error") == "not-applicable"
            raise (NotApplicableError if nothing else RefusedError)(action.detail)
    return next(
        view for view in reversed(list(live.state.ledger.plans.values())) if view.action == key
    )


async def begin(live: PodSession, view: PlanView) -> str:
    """Confirm a plan; the action's key."""
    return await live.submit(NAME, run=view.run, plan_hash=view.plan_hash)


def under_way(state: PodState, run: str) -> ActionView | None:
    """A merge of the run that has not ended: it is watched, and not begun a second time."""
    for a in state.ledger.actions.values():
        if a.kind == NAME and a.run == run and not a.ended:
            return a
    return None


def words(view: PlanView) -> list[str]:
    """What a person reads beside the steps."""
    body = view.plan
    lines = [
        (
            f"disk: up to {body['needed'] / 1e9:.2f} GB while it goes on; "
            f"{body['free'] / 1e9:.1f} GB are free there"
        )
    ]
    return lines + [f"note: {text}" for text in body["notes"]]


def possible(run: RunState) -> bool:
    """Whether the run's trainer writes shards that can be put together."""
    return run.view.trainer in registry.ids() and registry.get(run.view.trainer).merges


def told(action: ActionView) -> str:
    """How a merge stands, in one line."""
    step, target = (
        action.body.get("plan", {}).get("resume"),
        action.body.get("plan", {}).get("target", ""),
    )
    if action.ended:
        if action.state == "done":
            return action.detail
        return f"step {step} was not merged: {action.detail}"
    running = None
    for s in reversed(action.steps):
        if s.state == "running":
            running = s
            break
    said = "under way"
    if running is not None and running.detail:
        said = running.detail
    return f"step {step} into {target}: {said}"
