"""A merge as an action: its plan with a hash, its two steps, and how it goes on after a kill -9."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from bs4_agent.checkpoints.merging.merge import MergeRequest, Merging, Prepared, again
from bs4_agent.checkpoints.restoring.fetch import free_bytes
from bs4_agent.playbooks.compiled import digest
from bs4_agent.playbooks.plan import LIFETIME_S
from bs4_agent.playbooks.pod_actions import Planned, picked, steps_as_dicts
from bs4_agent.playbooks.runner import Recorder, StepRunner

#: Stands in the place of a playbook's id, so no playbook may have this name.
NAME = "merge"
Rest = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class MergePlan:
    """The plan of one merge. `expires_m` is in seconds of the monotonic clock."""

    prepared: Prepared
    expires_m: float
    attempt: int = 0

    @property
    def steps(self) -> list[Planned]:
        """Return the two steps of the merge: run the merger, then put the result in its place."""
        one = self.prepared
        return [
            Planned(
                "merge",
                f"Merge step {one.step} of {one.asked.run}: {len(one.files)} files, "
                f"{one.bytes / 1e9:.2f} GB",
                "; ".join(" ".join(argv) for argv in one.commands),
                self._parameters(),
                [],
                {"cwd": str(one.cwd), "staging": str(one.staging)},
            ),
            Planned(
                "place",
                f"Put it into {one.target} when it is whole",
                f"mv {one.staging}/model {one.target}",
                {"target": str(one.target)},
                [],
                {"cwd": str(one.cwd)},
            ),
        ]

    def _parameters(self) -> dict[str, Any]:
        """Return everything that the hash covers."""
        order = self.prepared.order()
        names = ("step", "source", "target", "inside", "commands", "cwd", "files")
        return {"asked": self.prepared.asked.body(), **picked(order, *names)}

    @property
    def hash(self) -> str:
        """Return the hash that a person confirms."""
        return digest({"merge": self._parameters()})

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as it is journalled and shown."""
        one = self.prepared
        return {
            "playbook": NAME,
            "title": f"Merge step {one.step} of {one.asked.run} into {one.target}",
            "danger": "none",
            "typed_name": False,
            "run": one.asked.run,
            "attempt": 0,
            "resume": one.step,
            **self._parameters(),
            "bytes": one.bytes,
            "needed": one.needed,
            "free": free_bytes(one.staging),
            "notes": list(one.notes),
            "steps": steps_as_dicts(self.steps),
            "verify": {},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MergePlan:
        """Return the plan that `as_dict` has written. Its `expires_m` is 0."""
        return cls(again(data), 0.0)


def make(merging: Merging, asked: MergeRequest) -> MergePlan:
    """Return the plan of what a merge would do now. Raises the errors of `Merging.find`."""
    return MergePlan(merging.find(asked), time.monotonic() + LIFETIME_S)


@dataclass(frozen=True)
class MergeContext:
    """The context of the steps of a merge. `action` is the action's key."""

    merging: Merging
    prepared: Prepared
    action: str


class Merge:
    """The step that runs the merger."""

    def done(self, context: MergeContext, planned: Planned) -> bool:
        """Return True if this action has merged the model already."""
        return context.merging.merged(context.prepared, context.action)

    def check(self, context: MergeContext, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return no targets; the worker checks the step while it holds it."""
        return []  # the worker checks the step while it holds it

    def act(
        self,
        context: MergeContext,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        """Run the merger and return a sentence about the result."""
        return context.merging.merge(context.prepared, context.action, say)


class Place:
    """The step that puts the merged model in its place."""

    def done(self, context: MergeContext, planned: Planned) -> bool:
        """Return True if this action has put the model in its place already."""
        return context.merging.placed(context.prepared, context.action)

    def check(self, context: MergeContext, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return the directory that will be created."""
        return [{"path": str(context.prepared.target)}]

    def act(
        self,
        context: MergeContext,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        """Put the model in its place and return a sentence about it."""
        return context.merging.place(context.prepared, context.action)


STEPS: Mapping[str, Any] = {"merge": Merge(), "place": Place()}


class MergeRunner(StepRunner):
    """Carries out the plan of one merge."""

    def __init__(
        self, merging: Merging, record: Recorder, key: str, plan: MergePlan, rest: Rest
    ) -> None:
        super().__init__(
            record,
            key,
            plan.prepared.asked.run,
            plan.steps,
            rest,
            kinds=STEPS,
            context=MergeContext(merging, plan.prepared, key),
        )
        self._merging, self._plan = merging, plan

    def _verify(self) -> bool:
        """Journal the end of the action and return True if the model is in its place."""
        one = self._plan.prepared
        whole = self._merging.placed(one, self._key)
        detail = f"{one.target} is not there any more"
        if whole:
            detail = f"step {one.step} is merged into {one.target}"
        result = {"step": one.step, "target": str(one.target)}
        return self._end(detail, result, reached=whole)
