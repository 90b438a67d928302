"""What one kind of action (a set-up, a restore, a merge) is to the executor, which does what all
kinds have in common: it plans, compares, locks, journals, carries out, ends early and resumes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from bs4_agent.actions.safe_points import Turn
from bs4_agent.playbooks.pod_actions import Planned
from bs4_common.errors import BadRequest
from bs4_common.ledger import PlanView


class Plan(Protocol):
    """What the plans of all kinds have in common, so that the executor can journal and compare
    them.
    """

    @property
    def hash(self) -> str:
        """Return the hash of everything that the plan would do."""

    @property
    def expires_m(self) -> float:
        """Return until when the plan may be confirmed, in seconds of the monotonic clock."""

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as a dictionary of JSON values, as it is journalled and shown."""


class SteppedPlan(Plan, Protocol):
    """A plan whose steps the executor carries out."""

    @property
    def steps(self) -> Sequence[Planned]:
        """Return the steps in the order in which they are carried out."""


P = TypeVar("P", bound=SteppedPlan)


@dataclass(frozen=True)
class Underway(Generic[P]):
    """An action that is being carried out: its `key` and `plan`. Its `turn` has the points at which
    a newer agent may take over or a stop ends the action. `verifying` journals what the
    verification waits for.
    """

    key: str
    plan: P
    turn: Turn
    verifying: Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """How an action has ended after all its steps: `reached` is True if it has reached its goal.
    `detail` is a sentence for a person and `result` the values for a program, as both are
    journalled.
    """

    reached: bool
    detail: str
    result: Mapping[str, Any]


class Kind(ABC, Generic[P]):
    """One kind of action, whose plans are of the type `P`. There is one object per kind and pod.

    `name` is the kind in submissions, plans and journals, and the field of a `plan` that asks for
    one. `planner` is the console command that makes such plans; messages name it. `steps` has the
    objects that carry out the steps of a plan (`playbooks.pod_actions.Step`), by the kind of step.
    `keeps_confirmed` is True if the record of an accepted action holds the plan in the words in
    which it was confirmed, and not as it was made again. The hash of both is the same, but sizes
    that are only shown may differ.
    """

    name: ClassVar[str]
    planner: ClassVar[str]
    steps: ClassVar[Mapping[str, Any]]
    keeps_confirmed: ClassVar[bool] = False

    def plan_name(self, body: Mapping[str, Any]) -> str:
        """Return the name under which the plan that `body` asks for or confirms is journalled.
        Raises an AgentError if there is no such plan.
        """
        return self.name

    def hold(self, run: str) -> str:
        """Return what an action on `run` holds while it works, so that no other action has it. This
        is the run, unless actions of this kind may work beside others on the same run.
        """
        return run

    @abstractmethod
    def asked(self, body: Mapping[str, Any]) -> tuple[str, Callable[[str], P]]:
        """Return the run for which `body` asks for a plan ("" for none), and a function that makes
        the plan for the action with the given key. Making a plan changes nothing on the pod; it
        may take long, and may raise an AgentError that says why there is no plan. Raises
        BadRequest, at once, if the request is malformed.
        """

    @abstractmethod
    def read(self, data: Mapping[str, Any]) -> P:
        """Return the plan that its `as_dict` has written, perhaps in an earlier version of the
        agent. Raises KeyError, TypeError, ValueError or an AgentError if it cannot be read.
        """

    @abstractmethod
    def again(self, key: str, confirmed: P) -> P:
        """Return the plan of what was confirmed as it would be made now, for the action `key`.
        Raises an AgentError if it is not possible any more.
        """

    @abstractmethod
    def context(self, action: Underway[P]) -> Any:
        """Return what the objects in `steps` work with, for this action."""

    @abstractmethod
    def verify(self, action: Underway[P]) -> Outcome:
        """Return how the action has ended, after all its steps were carried out. Raises Cancelled
        if a stop ends it meanwhile.
        """

    def refuse(self, body: Mapping[str, Any], view: PlanView) -> None:
        """Raise Refused if the journalled plan `view` may not be carried out, or not without
        something more in the submission `body`.
        """

    def fields(self, plan: P, plan_hash: str) -> dict[str, Any]:
        """Return what the record of acceptance says of the plan beside its steps."""
        return {"plan_hash": plan_hash}

    def reached(self, plan: P) -> None:
        """Do what follows from the plan having reached its goal, after that is journalled."""

    def keep(self, key: str, plan: P, payload: bytes) -> None:
        """Store what came beside the submission of the action `key` (secrets) until `forget`.
        Raises BadRequest if it does not fit the plan.
        """

    def forget(self, key: str) -> None:
        """Delete what `keep` has stored, because the action has ended or does not begin. May be
        called more than once.
        """


def table(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the table `name` of the body of a plan action. Raises BadRequest if it is none."""
    found = body[name]
    if not isinstance(found, Mapping):
        raise BadRequest(f"`{name}` of a plan is a table; send it so.")
    return found
