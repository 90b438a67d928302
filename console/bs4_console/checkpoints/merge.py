"""Merge a checkpoint step of a verl run, or an adapter and its base, into a Hugging Face directory
on a pod, or back a step of any run up there: the request, the pod's plan, and its confirmation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from bs4_common.failures.detectors.reporting import size
from bs4_common.trainers import registry
from bs4_console.errors import NotApplicableError, RefusedError
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, PlanView, PodState, RunState

#: The kinds of the action. A plan has its kind in place of a playbook's id.
Made = Literal["merge", "backup"]


class MergeBody(TypedDict, total=False):
    """A request to merge or copy a checkpoint of the run `run`, as the JSON object that is sent to
    the agent. `step` is the checkpoint's training step (None: the newest complete one), and
    `target` the directory to write ("": the default). `adapter` and `base` are paths of a LoRA
    adapter and its model; they are missing if no adapter is merged.
    """

    run: str
    step: int | None
    target: str
    adapter: str
    base: str


@dataclass(frozen=True)
class MergeRequest:
    """The request to make a new directory on a pod from a checkpoint of the run `run`. There are
    three forms:

    * With `kind` "merge", the checkpoint of the training step `step` of a verl run (None: the
      newest complete one) is merged into a Hugging Face directory.
    * With `adapter`, the path of a LoRA adapter, that adapter is merged into the model in `base`
      instead, in the Python environment of the run. `base` "" means the model that the adapter
      names.
    * With `kind` "backup", the checkpoint of a run of any trainer is only copied.

    `target` is the directory to write. "" means one below the run's directory, or for a backup
    `checkpoints_backup/RUN` beside the run's output directory. Relative paths start at the run's
    working directory.
    """

    run: str
    step: int | None = None
    target: str = ""
    adapter: str = ""
    base: str = ""
    kind: Made = "merge"

    def body(self) -> MergeBody:
        """Return the request, without its `kind`, as the JSON object that is sent to the agent."""
        body: MergeBody = {"run": self.run, "step": self.step, "target": self.target}
        if self.adapter:
            body |= {"adapter": self.adapter, "base": self.base}
        return body


async def plan(live: PodSession, asked: MergeRequest) -> PlanView:
    """Have the pod make the plan of the merge or backup `asked`, and return the plan, which a
    person then confirms. Raises NotApplicableError, with the agent's reason, if the run has nothing
    to merge or copy. Raises RefusedError, with the agent's reason, if the agent makes no plan for
    another reason, and also if an adapter is to be merged and the agent is too old for that. Raises
    Unreachable if there is no link.
    """
    if asked.kind == "backup":
        key = await live.submit("plan", backup=asked.body())
    else:
        key = await live.submit("plan", merge=asked.body())
    async for action in live.follow_action(key):
        if action.state == "failed":
            nothing = action.result.get("error") == "not-applicable"
            raise (NotApplicableError if nothing else RefusedError)(action.detail)
    view = next(
        view for view in reversed(list(live.state.ledger.plans.values())) if view.action == key
    )
    if asked.adapter and not view.plan["asked"].get("adapter"):
        raise RefusedError(
            f"The agent of {live.state.name} is older and merges only steps.",
            f"Replace it: `bs4-console deploy --pod {live.state.name}`.",
        )
    return view


async def begin(live: PodSession, view: PlanView) -> str:
    """Confirm the plan `view` of a merge or backup by its hash, so that the pod carries it out.
    Return the key (id) of the action on the pod, by which it can be followed. Raises RefusedError
    if the pod is read-only for this console, and Unreachable if there is no link.
    """
    return await live.submit(view.playbook, run=view.run, plan_hash=view.plan_hash)


def under_way(state: PodState, run: str, kind: Made = "merge") -> ActionView | None:
    """Return the merge (or with `kind` "backup" the backup) of the run `run` that has been
    submitted to the pod and has not ended. Return None if there is none. A caller follows that
    action and starts no second one.
    """
    for a in state.ledger.actions.values():
        if a.kind == kind and a.run == run and not a.ended:
            return a
    return None


def plan_lines(view: PlanView) -> list[str]:
    """Return the lines that a person reads together with the steps of the plan `view`: how much
    disk space on the pod it needs, how much is free there, and the plan's notes.
    """
    body = view.plan
    disk = (
        f"disk: up to {size(body['needed'])} while it goes on; {size(body['free'])} are free there"
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
    what = f"step {plan.get('resume')}"
    if plan.get("asked", {}).get("adapter"):
        what = "the adapter"
    if action.state == "done":
        return action.detail
    if action.ended:
        return f"{what} was not merged: {action.detail}"
    said = ""
    for one in action.steps:
        if one.state == "running":
            said = one.detail
    return f"{what} into {plan.get('target', '')}: {said or 'under way'}"
