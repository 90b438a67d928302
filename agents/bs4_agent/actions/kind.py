"""What one kind of action (a launch, a set-up, a merge) is to the executor, which does what all
kinds have in common: it plans, compares, locks, journals, carries out, ends early and resumes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypedDict, TypeVar

from bs4_agent.actions.safe_points import Turn
from bs4_agent.actions.submission import Submission
from bs4_agent.playbooks.pod_actions import Planned
from bs4_common.ledger import ActionView, PlanView


class Plan(Protocol):
    """The methods that the plans of all kinds of actions have, so that the executor can compare
    them and write them into the journal.
    """

    @property
    def hash(self) -> str:
        """Return the hash, in hexadecimal digits, of everything that the plan would do. A person
        confirms the plan by it.
        """

    @property
    def expires_m(self) -> float:
        """Return the time until which the plan may be confirmed, in seconds of the
        monotonic clock.
        """

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as a dictionary of JSON values, in the form in which the journal has it
        and a console shows it.
        """


class Stepped(Protocol):
    """What an action does: steps, which the executor carries out one after the other."""

    @property
    def steps(self) -> Sequence[Planned]:
        """Return the steps in the order in which they are carried out."""


class SteppedPlan(Plan, Stepped, Protocol):
    """A plan that consists of steps."""


P = TypeVar("P", bound=Stepped)
S = TypeVar("S", bound=SteppedPlan)


@dataclass(frozen=True)
class Underway(Generic[P]):
    """An action that is being carried out: its `key` and its `plan`. `turn` is the object with
    which it marks the points at which a newer agent may take over or a stop may end the action.
    `verifying` is a function that writes into the journal what the action waits for while it
    verifies its result.
    """

    key: str
    plan: P
    turn: Turn
    verifying: Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """How an action has ended after all its steps. `reached` is True if it has reached its goal.
    `detail` is a sentence for a person, and `result` has the values for a program; both are written
    into the journal.
    """

    reached: bool
    detail: str
    result: Mapping[str, Any]


class PlanFields(TypedDict, total=False):
    """What the journal's record of an accepted action has about its plan."""

    plan_hash: str
    playbook: str
    """The name of the plan."""
    incident: str
    """The id of the incident that the plan repairs."""


class Kind(ABC, Generic[P]):
    """One kind of action, such as the stop of a run. What an action of it does is of the type `P`.
    There is one object for each kind on a pod.

    `name` is the kind's name in submitted actions and the journal. `steps` maps the kind of a step
    to the object that carries out such steps (`playbooks.pod_actions.Step`). `goes_first` is True
    if such an action is accepted although another one works on the run, and works on it next.
    """

    name: ClassVar[str]
    steps: ClassVar[Mapping[str, Any]]
    goes_first: ClassVar[bool] = False

    def hold(self, run: str) -> str:
        """Return the name that an action on `run` reserves while it works, so that no other action
        with the same name works then. This is `run` itself, unless actions of this kind may work
        beside others on the same run.
        """
        return run

    def direct(self, asked: Submission) -> tuple[str, P] | None:
        """Return the run on which `asked` acts, and what is carried out, if `asked` names no plan
        that a person has confirmed but says itself what to do. Return None if it has to name such a
        plan. Raises an AgentError if that may not be done.
        """
        return None

    @abstractmethod
    def left(self, action: ActionView) -> P:
        """Return what is carried out by `action`, which was under way when the agent was restarted.
        Raises KeyError, TypeError, ValueError or an AgentError if that cannot be told any more.
        """

    def too_late(self, action: ActionView) -> str:
        """Return why `action`, which was under way when the agent was restarted, is not continued
        any more although it could be, as a phrase for the journal. Return "" if it is continued.
        """
        return ""

    def await_turn(self, key: str, run: str) -> bool:
        """Wait until the action `key` may begin on `run`, and return True. Return False if that
        takes too long; the journal then has how the action ended.
        """
        return True

    def left_hold(self, action: ActionView) -> str:
        """Return the name that `action`, which was under way when the agent was restarted, reserves
        while it is continued, or "" if what is left of it needs no reservation.
        """
        return self.hold(action.run)

    @abstractmethod
    def context(self, action: Underway[P]) -> Any:
        """Return the object that is passed as `context` to the steps (the objects in `steps`) while
        this action is carried out.
        """

    @abstractmethod
    def verify(self, action: Underway[P], context: Any) -> Outcome:
        """Find out if the action has reached its goal, after all its steps were carried out with
        the object `context` (see the method of that name), and return how it has ended. Raises
        Cancelled if a stop of the run ends the action before that.
        """

    def reached(self, plan: P) -> None:
        """Do what follows from the success of `plan`, such as closing an incident. This is called
        after the success was written into the journal.
        """

    def keep(self, key: str, plan: P, payload: bytes) -> None:
        """Store what the action `key` needs besides its `plan` and its run, until `forget` is
        called: for a set-up, the secrets that a person submitted with it, which `payload` has as
        bytes. Raises BadRequest if they are not the secrets that `plan` needs, and Busy if somebody
        else uses what is needed.
        """

    def forget(self, key: str) -> None:
        """Delete what `keep` has stored for the action `key`, because the action has ended or does
        not begin. This may be called more than once.
        """


class PlannedKind(Kind[S]):
    """A kind of action, such as the set-up of a pod, whose plan is made and confirmed before.

    Its `name` is also the name of its plans, and the key under which a request for one has its
    fields. `planner` is the console command that makes such plans; messages name it. An accepted
    plan is made again and compared by its hash, but sizes that are only shown may have changed.
    `keeps_confirmed` is True if the journal then has the plan as it was confirmed, and False if it
    has the new one.
    """

    planner: ClassVar[str]
    keeps_confirmed: ClassVar[bool] = False

    def plan_name(self, asked: Submission) -> str:
        """Return the word that the journal's records of the plan that `asked` asks for or confirms
        have in their field `playbook`: the name of this kind of action, or the id of a playbook.
        Raises an AgentError if `asked` names a playbook that does not exist.
        """
        return self.name

    @abstractmethod
    def asked(self, asked: Submission) -> tuple[str, Callable[[str], S]]:
        """Return the run for which `asked` asks for a plan ("" for none), and a function that makes
        the plan for the action with the given key. Making a plan changes nothing on the pod; it
        may take long, and may raise an AgentError that says why there is no plan. Raises
        BadRequest, at once, if the request is malformed.
        """

    @abstractmethod
    def read(self, data: Mapping[str, Any]) -> S:
        """Return the plan in `data`, a dictionary that its `as_dict` has made, perhaps in an
        earlier version of the agent. Raises KeyError, TypeError, ValueError or an AgentError if it
        cannot be read.
        """

    def left(self, action: ActionView) -> S:
        """Return the plan of `action`, which was under way when the agent was restarted. Raises the
        same errors as `read`.
        """
        return self.read(action.body["plan"])

    @abstractmethod
    def again(self, key: str, confirmed: S) -> S:
        """Make the plan `confirmed`, which a person has confirmed, again from the present state of
        the pod, for the action `key`, and return the new plan. Raises an AgentError if that is not
        possible any more.
        """

    def refuse(self, asked: Submission, view: PlanView) -> None:
        """Raise Refused if the journalled plan `view` may not be carried out, or not without
        something more in the submission `asked`.
        """

    def fields(self, plan: S, plan_hash: str) -> PlanFields:
        """Return the fields, besides the steps, that the journal's record of an accepted action has
        about its plan. `plan_hash` is the plan's hash.
        """
        return {"plan_hash": plan_hash}
