"""Merge a checkpoint step of a verl run into a Hugging Face directory on its pod: the request, the
pod's plan, and its confirmation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bs4_agent.trainers import registry
from bs4_console.errors import NotApplicableError, RefusedError
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, PlanView, PodState, RunState

#: The kind of the action. A plan has it in place of a playbook's id.
NAME = "merge"


@dataclass(frozen=True)
class MergeRequest:
    """The request to merge one checkpoint of a verl run into a Hugging Face directory on its pod.
    `step` is the checkpoint's training step, or None for the newest complete one. `target` is the
    directory to write; "" means one below the run's directory, and a relative path starts at the
    run's working directory.
    """

    run: str
    step: int | None = None
    target: str = ""

    def body(self) -> dict[str, Any]:
        """Return the request as the JSON object that the agent takes."""
        return {"run": self.run, "step": self.step, "target": self.target}


async def plan(live: PodSession, asked: MergeRequest) -> PlanView:
    """Have the pod make the plan of the merge `asked`, and return the plan. Raises
    NotApplicableError if the run has nothing to merge, and RefusedError if the merge is not
    allowed, each with the agent's reason.
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
    """Confirm the plan `view` of a merge by its hash, so that the pod carries it out. Return the
    key of the action that does so.
    """
    return await live.submit(NAME, run=view.run, plan_hash=view.plan_hash)


def under_way(state: PodState, run: str) -> ActionView | None:
    """Return the merge of the run `run` that has been submitted and has not ended, or None if there
    is none. A caller watches such a merge and starts no second one.
    """
    for a in state.ledger.actions.values():
        if a.kind == NAME and a.run == run and not a.ended:
            return a
    return None


def plan_lines(view: PlanView) -> list[str]:
    """Return the lines that a person reads together with the steps of the plan `view`: how much
    disk space on the pod the merge needs, how much is free there, and the plan's notes.
    """
    body = view.plan
    disk = (
        f"disk: up to {body['needed'] / 1e9:.2f} GB while it goes on; "
        f"{body['free'] / 1e9:.1f} GB are free there"
    )
    return [disk, *(f"note: {text}" for text in body["notes"])]


def possible(run: RunState) -> bool:
    """Return True if a merge makes sense for this run: its trainer writes checkpoints as shards
    that can be merged (verl).
    """
    return run.view.trainer in registry.ids() and registry.get(run.view.trainer).merges


def progress(action: ActionView) -> str:
    """Return one line about the merge `action`: how far it is, how it ended, or why it failed."""
    plan = action.body.get("plan", {})
    step = plan.get("resume")
    if action.state == "done":
        return action.detail
    if action.ended:
        return f"step {step} was not merged: {action.detail}"
    said = ""
    for one in action.steps:
        if one.state == "running":
            said = one.detail
    return f"step {step} into {plan.get('target', '')}: {said or 'under way'}"
