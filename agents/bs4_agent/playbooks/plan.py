"""Plans: the concrete steps of one playbook for one run, and the hash that a person confirms."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from bs4_agent.playbooks.pod_actions import (
    Context,
    Planned,
    PodActions,
    hashed_steps,
    steps_as_dicts,
    steps_from_dicts,
)
from bs4_agent.playbooks.steps import STEPS
from bs4_common.checkpoints.inventory import complete_steps
from bs4_common.errors import NotApplicable
from bs4_common.failures.compiled import Playbook, digest
from bs4_common.failures.facts import RunFacts

#: Seconds after which a plan is no longer valid, because the pod may have changed.
LIFETIME_S = 15 * 60

#: The steps that do something else when the run would resume from another training step.
_RESUMING = frozenset({"move_steps", "relaunch", "restore_set"})


class Guards(TypedDict):
    """Values on which a plan depends besides its steps. The plan's hash covers them, so a plan with
    other values has another hash.
    """

    typed_name: bool
    """True if a person must type the run's name."""
    danger: str
    """How dangerous the playbook is, as its file says, for example "restart"."""
    resume: int | None
    """The training step to resume from. None if there is none, or if no step of the plan depends on
    it.
    """


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of one playbook for one run: the steps with everything that they will do.

    The plan may be confirmed until `expires_m`, in seconds of the monotonic clock since the pod was
    booted. `attempt` is the number of the run's newest attempt. `steps` are the steps of the
    playbook. `resume` is the training step of the checkpoint from which the run would resume, or
    None if there is none or if no step of the plan depends on it, so that such a plan stays valid
    when the run saves a checkpoint. `incident` is the id of the incident that the plan repairs, or
    "".
    """

    playbook: Playbook
    run: str
    attempt: int
    incident: str
    resume: int | None
    steps: Sequence[Planned]
    expires_m: float

    @property
    def hash(self) -> str:
        """Return the hash, in hexadecimal digits, of what the plan would do: of the playbook, the
        run, its attempt, the `guards`, and the kind, parameters and targets of every step.
        """
        return digest(
            {
                "playbook": self.playbook.sha256,
                "run": self.run,
                "attempt": self.attempt,
                "steps": hashed_steps(self.steps),
                "guards": self.guards,
            }
        )

    @property
    def guards(self) -> Guards:
        """Return further values that the plan's hash covers, so that the plan is not valid any more
        if one of them changes.
        """
        return {
            "typed_name": self.playbook.typed_name,
            "danger": self.playbook.danger,
            "resume": self.resume,
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as a dictionary of JSON values, in the form in which the journal has it
        and a console shows it.
        """
        return {
            "playbook": self.playbook.id,
            "title": self.playbook.title,
            "danger": self.playbook.danger,
            "typed_name": self.playbook.typed_name,
            "run": self.run,
            "attempt": self.attempt,
            "incident": self.incident,
            "resume": self.resume,
            "steps": steps_as_dicts(self.steps),
            "verify": dict(self.playbook.verify),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], playbook: Playbook, expires_m: float) -> Plan:
        """Return the plan in `data`, a dictionary that `as_dict` has made. `playbook` and
        `expires_m` are given separately, because the dictionary does not contain them. Raises
        KeyError or TypeError if `data` is no such dictionary.
        """
        return cls(
            playbook=playbook,
            run=data["run"],
            attempt=data["attempt"],
            incident=data["incident"],
            resume=data["resume"],
            steps=steps_from_dicts(data["steps"]),
            expires_m=expires_m,
        )


def resumable(facts: RunFacts) -> int | None:
    """Return the training step of the newest complete checkpoint, from which a run would resume. A
    checkpoint is complete if every program of the trainer (for prime-rl, trainer and orchestrator)
    has saved its part. Return None if no checkpoint is complete.
    """
    return max(complete_steps(facts.checkpoints), default=None)


def previous(facts: RunFacts) -> int | None:
    """Return the training step of the checkpoint from which a run can resume if the checkpoint that
    it last resumed from is bad. That is the newest complete checkpoint below the training step from
    which the last attempt was started. If the last attempt was not started from a given step, it is
    the second-newest complete checkpoint. Return None if there is no such checkpoint.
    """
    complete = complete_steps(facts.checkpoints)
    limit = facts.spec.resume
    if limit is None:
        limit = max(complete, default=0)
    return max((step for step in complete if step < limit), default=None)


def _goes_back(playbook: Playbook) -> bool:
    """Return True if the playbook resumes from an older step than the failed attempt did."""
    return any(
        kind == "relaunch" and parameters.get("resume") == "previous"
        for kind, parameters in playbook.fix
    )


def make(
    pod_actions: PodActions,
    playbook: Playbook,
    run: str,
    action: str,
    incident: str = "",
    confirmed: Plan | None = None,
) -> Plan:
    """Return a plan of the playbook for the present state of the run named `run`. Nothing is
    changed on the pod. `action` is the action's key, and `incident` the id of the incident that the
    plan repairs, or "".

    `confirmed` is an earlier plan of the same playbook that is made again, or None. The steps of
    the new plan keep their limits (how many processes or files they may touch) from that plan. The
    checkpoint to restore is also taken from it, so that the object store, which may be slow, is not
    queried again.

    Raises NotApplicable if the playbook is for other trainers, has no repair, or has a step that
    does not fit the run.
    """
    facts = pod_actions.run_facts(run)
    if not playbook.applies_to(facts.spec.trainer):
        raise NotApplicable(
            f"{playbook.id} does not apply to {facts.spec.trainer}; `playbook list` shows "
            "what does."
        )
    if not playbook.fix:
        raise NotApplicable(
            f"{playbook.id} has no automatic fix; `playbook show {playbook.id}` says what to do."
        )
    before = confirmed.steps if confirmed is not None else ()
    resume = previous(facts) if _goes_back(playbook) else resumable(facts)
    stored = None
    if resume is None:
        stored = next((step for step in before if step.kind == "restore_set"), None)
    if stored is not None:
        resume = stored.parameters["step"]
    elif resume is None and "restore_set" in dict(playbook.fix):
        resume = (pod_actions.remote_step(run) or {}).get("step")
    context = Context(pod_actions, run, action, resume)
    steps = []
    for kind, parameters in playbook.fix:
        if kind == "restore_set" and stored is not None:
            steps.append(stored)
        elif (step := STEPS[kind].plan(context, parameters)) is not None:
            steps.append(_limited(step, before))
    if not any(step.kind in _RESUMING for step in steps):
        resume = None
    return Plan(
        playbook=playbook,
        run=run,
        attempt=facts.attempt,
        incident=incident,
        resume=resume,
        steps=steps,
        expires_m=time.monotonic() + LIFETIME_S,
    )


def _limited(step: Planned, before: Sequence[Planned]) -> Planned:
    """Return the planned step with the limit that it has among the confirmed steps `before`, or
    `step` itself if they have no such step. A limit follows the number of processes or directories
    of the moment, which may change without making the plan another one. The step's `check` holds
    the limit.
    """
    for one in before:
        limited = {**step.parameters, "limit": one.parameters.get("limit")}
        if one.kind == step.kind and limited == one.parameters:
            return dataclasses.replace(step, parameters=limited)
    return step
