"""The merge and the backup of a checkpoint as kinds of actions: their plan with a hash, its two
steps and their verification.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from bs4_agent.actions.kind import Outcome, PlannedKind, Underway
from bs4_agent.actions.submission import Submission
from bs4_agent.checkpoints.merging.merge import (
    MergeBody,
    MergeFields,
    MergeParameters,
    MergeRequest,
    Merging,
    Prepared,
    again,
)
from bs4_agent.checkpoints.restoring.fetch import free_bytes
from bs4_agent.playbooks.plan import LIFETIME_S
from bs4_agent.playbooks.pod_actions import Planned, Target, steps_as_dicts
from bs4_common.failures.compiled import digest
from bs4_common.failures.detectors.reporting import size
from bs4_common.withheld import refuse_lost


@dataclass(frozen=True)
class MergePlan:
    """The plan of one merge of a checkpoint into a Hugging Face directory, or of one backup of a
    checkpoint. `prepared` says what is read and written. The plan can be confirmed until
    `expires_m`, in seconds of the monotonic clock.
    """

    prepared: Prepared
    expires_m: float

    @property
    def steps(self) -> list[Planned]:
        """Return the two steps of the plan. The first runs the merger (for a backup, it copies
        files) and writes to a staging directory; the second moves the result from there to its
        final directory.
        """
        one = self.prepared
        return [
            Planned(
                "merge",
                f"{one.verb} {one.what} of {one.asked.run}: {len(one.files)} files, "
                f"{size(one.bytes)}",
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

    def _parameters(self) -> MergeParameters:
        """Return everything that the hash covers."""
        order = self.prepared.order()
        return {
            "asked": self.prepared.asked.body(),
            "step": order["step"],
            "source": order["source"],
            "target": order["target"],
            "inside": order["inside"],
            "commands": order["commands"],
            "cwd": order["cwd"],
            "files": order["files"],
        }

    @property
    def hash(self) -> str:
        """Return the SHA-256, in hexadecimal digits, of all that the merge or backup would do: its
        request, its source, its target, its files and its commands. The hash by which a person
        confirms the plan is made from it and from other facts about the run.
        """
        return digest({self.prepared.kind: self._parameters()})

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as a dictionary of JSON values, in the form in which the journal (the
        agent's log of actions and incidents) has it and a console shows it.
        """
        one = self.prepared
        return {
            "playbook": one.kind,
            "title": f"{one.verb} {one.what} of {one.asked.run} into {one.target}",
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
        """Return the plan in `data`, a dictionary that `as_dict` has made. Its `expires_m` is 0,
        because the dictionary does not contain it. Raises Refused if a value in `data` was replaced
        by a marker such as "[redacted]" because it was a secret.
        """
        refuse_lost([data[name] for name in ("asked", "source", "target", "cwd", "commands")])
        return cls(again(cast("MergeFields", data)), 0.0)


def make(merging: Merging, asked: MergeRequest) -> MergePlan:
    """Return the plan of what the requested merge would do now. Nothing is changed on the pod.
    Raises NotApplicable, Refused or BadRequest, as `Merging.find` does, if the merge is not
    possible.
    """
    return MergePlan(merging.find(asked), time.monotonic() + LIFETIME_S)


@dataclass(frozen=True)
class MergeContext:
    """The object that the steps of a merge get: the code that merges, and what is to be merged.
    `action` is the key of the action to which the steps belong.
    """

    merging: Merging
    prepared: Prepared
    action: str


class RunMerger:
    """The step that runs the merger and leaves the merged model beside its final directory. See
    `playbooks.pod_actions.Step` for the methods.
    """

    def done(self, context: MergeContext, planned: Planned) -> bool:
        """Return True if this action has already produced the merged model."""
        return context.merging.merged(context.prepared, context.action)

    def check(self, context: MergeContext, planned: Planned) -> Sequence[Target]:
        """Return an empty list, because a merge has no targets (processes or files that exist and
        on which a step acts). The merger's own process checks the checkpoint, while it protects the
        checkpoint against removal.
        """
        return []  # the worker checks the step while it holds it

    def act(
        self,
        context: MergeContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Run the merger to its end and return a sentence about the result. `say` is called with
        progress messages. `targets` is not used, because `check` returns none. Raises PlanChanged
        if the checkpoint has changed since the plan was made, and StepFailed if the merge fails.
        """
        return context.merging.merge(context.prepared, context.action, say)


class Place:
    """The step that moves the merged model to its final directory. See `playbooks.pod_actions.Step`
    for the methods.
    """

    def done(self, context: MergeContext, planned: Planned) -> bool:
        """Return True if this action has already moved the model to its final directory."""
        return context.merging.placed(context.prepared, context.action)

    def check(self, context: MergeContext, planned: Planned) -> Sequence[Target]:
        """Return one target: the directory that will be created for the model."""
        return [{"path": str(context.prepared.target)}]

    def act(
        self,
        context: MergeContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Move the merged model to its final directory and return a sentence about the result.
        Raises PlanChanged if that directory exists by now, and StepFailed if the model is not
        complete any more.
        """
        return context.merging.place(context.prepared, context.action)


STEPS: Mapping[str, Any] = {"merge": RunMerger(), "place": Place()}


class Merge(PlannedKind[MergePlan]):
    """The kind of action that merges the shards of a checkpoint into one model; see
    `actions.kind.Kind` for the methods.
    """

    name, planner, steps = "merge", "checkpoints merge --plan", STEPS

    def __init__(self, merging: Merging) -> None:
        self._merging = merging

    def hold(self, run: str) -> str:
        """Return the name that a merge (or backup) of `run` reserves, so that only one merge (or
        backup) of a run is carried out at a time. It is not the run's own name, because the run may
        train meanwhile; and no run can have this name.
        """
        return f"the {self.name} of {run}"

    def asked(self, asked: Submission) -> tuple[str, Callable[[str], MergePlan]]:
        """Return two things: the run that the request in `asked.body["merge"]` (or "backup") names,
        and a function that takes the key of an action and makes the plan for it. Raises BadRequest
        if the request is malformed.
        """
        request = MergeRequest.read(cast("MergeBody", asked.table(self.name)))
        return request.run, lambda key: make(self._merging, request)

    def read(self, data: Mapping[str, Any]) -> MergePlan:
        """Return the plan in `data`, a dictionary that `as_dict` has made."""
        return MergePlan.from_dict(data)

    def again(self, key: str, confirmed: MergePlan) -> MergePlan:
        """Make the plan `confirmed` again for the present state of the pod, and return the new
        plan. Raises NotApplicable, Refused or BadRequest, as `Merging.find` does, if that merge is
        not possible any more.
        """
        return make(self._merging, confirmed.prepared.asked)

    def context(self, action: Underway[MergePlan]) -> MergeContext:
        """Return the MergeContext (the code that merges, and what is to be merged) with which the
        steps of the merge work.
        """
        return MergeContext(self._merging, action.plan.prepared, action.key)

    def verify(self, action: Underway[MergePlan], context: MergeContext) -> Outcome:
        """Return how the action ended. Its goal is reached if the merged model (for a backup, the
        copy of the checkpoint) is in its final directory and the staging directory is gone.
        Otherwise `reached` is False.
        """
        one = action.plan.prepared
        whole = self._merging.placed(one, action.key)
        detail = f"{one.target} is not there any more"
        if whole:
            did = "copied to" if one.kind == "backup" else "merged into"
            detail = f"{one.what} is {did} {one.target}"
        return Outcome(whole, detail, {"step": one.step, "target": str(one.target)})


class Backup(Merge):
    """The kind of action that copies a checkpoint to a directory of its own; see
    `actions.kind.Kind` for the methods.
    """

    name, planner = "backup", "checkpoints backup --plan"
