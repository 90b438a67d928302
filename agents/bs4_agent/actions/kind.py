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
    """Something that consists of steps, such as the plan of an action; the executor carries the
    steps out one after the other.
    """

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
    """The fields that say by which plan an action is carried out, in the journal's record that the
    action is accepted. A kind leaves out fields that it does not have.
    """

    plan_hash: str
    playbook: str
    """The name of the plan: the id of a playbook, or the name of the kind of action."""
    incident: str
    """The id of the incident that the plan repairs."""


class Kind(ABC, Generic[P]):
    """One kind of action, such as the stop of a run. `P` is the type of what one such action
    carries out, usually a plan. There is one object for each kind on a pod.

    `name` is the kind's name in submitted actions and the journal. `steps` maps the kind of a step
    to the object that carries out such steps (`playbooks.pod_actions.Step`). `goes_first` is True
    if such an action is accepted even while another action works on the run, and gets the run next.
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
        """Return two things if the submitted action `asked` says itself what to do and needs no
        confirmed plan: the run on which it acts, and what is carried out. Return None if it has to
        name a plan that a person has confirmed. Raises an AgentError if the action may not be
        carried out.
        """
        return None

    @abstractmethod
    def left(self, action: ActionView) -> P:
        """Return what the agent has to carry out to continue `action`, which was under way when the
        agent was restarted. Usually that is the action's plan. Raises KeyError, TypeError,
        ValueError or an AgentError if it cannot be found out any more.
        """

    def too_late(self, action: ActionView) -> str:
        """Return a phrase for the journal that says why `action`, which was under way when the
        agent was restarted, comes too late to be continued. Return "" if it may be continued.
        """
        return ""

    def await_turn(self, key: str, run: str) -> bool:
        """Wait until the action `key` may begin on `run`, and return True. Return False if that
        takes too long; the action has then ended, and the journal says how.
        """
        return True

    def left_hold(self, action: ActionView) -> str:
        """Return the name that stays reserved for `action`, usually the run's, so that no other
        action with the same name works meanwhile (see `hold`). This is asked when the agent was
        restarted while `action` was under way, and continues it. Return "" if the rest of `action`
        needs no reservation.
        """
        return self.hold(action.run)

    @abstractmethod
    def context(self, action: Underway[P]) -> Any:
        """Return the object that is passed as `context` to the steps (the objects in `steps`) while
        this action is carried out.
        """

    @abstractmethod
    def verify(self, action: Underway[P], context: Any) -> Outcome:
        """Find out if the action has reached its goal, after all its steps were carried out, and
        return how it has ended. `context` is the object that the method `context` returned for this
        action. Raises Cancelled if a stop of the run ends the action while this waits.
        """

    def reached(self, plan: P) -> None:
        """Do what follows from the success of `plan`, such as closing an incident. This is called
        after the success was written into the journal.
        """

    def keep(self, key: str, plan: P, payload: bytes) -> None:
        """Store what the action `key` needs besides its `plan`, until `forget` is called. A set-up,
        for example, stores the secrets that a person has submitted with it, which are the bytes in
        `payload`. Raises BadRequest if these are not the secrets that `plan` needs, and Busy if
        what the action needs is in use by somebody else.
        """

    def forget(self, key: str) -> None:
        """Delete what `keep` has stored for the action `key`, because the action has ended or does
        not begin. This may be called more than once.
        """


class PlannedKind(Kind[S]):
    """A kind of action, such as the set-up of a pod, of which a plan is made and confirmed by a
    person before it is carried out. `S` is the type of its plans.

    `name` is also the name of these plans, and the field of the request that says what to plan.
    `planner` is the console command that makes such plans; messages name it. Right before an action
    is accepted, its plan is made again. If the hash is still the same, only values that are shown
    to a person, such as sizes, can differ. `keeps_confirmed` says which of the two plans the record
    of the acceptance has: True for the confirmed one, False for the new one.
    """

    planner: ClassVar[str]
    keeps_confirmed: ClassVar[bool] = False

    def plan_name(self, asked: Submission) -> str:
        """Return the name of the plan that the submission `asked` asks for or confirms: the name of
        this kind of action, or the id of a playbook. The journal's records have it in the field
        `playbook`. Raises an AgentError if `asked` names a playbook that does not exist.
        """
        return self.name

    @abstractmethod
    def asked(self, asked: Submission) -> tuple[str, Callable[[str], S]]:
        """Return two things: the run for which `asked` asks for a plan ("" for none), and a
        function that takes the key of an action and makes the plan for it. Making a plan changes
        nothing on the pod; it may take long, and may raise an AgentError that says why there is no
        plan. Raises BadRequest, at once, if the request is malformed.
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
        """Make a confirmed plan again from the present state of the pod, and return the new plan.
        `confirmed` is the plan as a person has confirmed it, and `key` the key of the action.
        Raises an AgentError if such a plan is not possible any more.
        """

    def refuse(self, asked: Submission, view: PlanView) -> None:
        """Raise Refused if the plan `view`, as the journal has it, may not be carried out, or if
        the submission `asked` lacks something that this plan requires, such as the run's name that
        a person must type. Do nothing otherwise.
        """

    def fields(self, plan: S, plan_hash: str) -> PlanFields:
        """Return the fields about the plan `plan`, whose hash is `plan_hash`, for the journal's
        record that the action is accepted. The steps are not among them.
        """
        return {"plan_hash": plan_hash}
