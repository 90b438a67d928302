"""The launch of a run as a kind of action, from the request to the first step: what is planned,
what is confirmed, the steps, and when it has succeeded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bs4_agent.actions.kind import Outcome, PlanFields, PlannedKind, Underway
from bs4_agent.actions.submission import Submission
from bs4_agent.launch import validation
from bs4_agent.launch.plan import ARCHIVE, AWAITED, FIRST_STEP, MOVE, NAME, LaunchPlan, direct
from bs4_agent.playbooks.plan import LIFETIME_S
from bs4_agent.playbooks.pod_actions import Planned, Say, Stepping, Target, Waiting, targets_at
from bs4_agent.pod import Pod
from bs4_common.errors import BadRequest, LaunchFailed, Refused
from bs4_common.ledger import ActionView, Ledger, PlanView


@dataclass
class LaunchContext:
    """The object that the steps of a launch get: the pod, the plan of the launch, and the key of
    the action. `pause` sleeps for a number of seconds, and raises Cancelled if the action is to
    end.
    """

    pod: Pod
    plan: LaunchPlan
    key: str
    pause: Callable[[float], None]
    first: int | None = None
    """The first training step that was seen to be done."""
    waited: bool = False
    """True once the run was seen to work."""

    @property
    def run(self) -> str:
        """Return the name of the run."""
        return self.plan.spec.run

    def attempt(self) -> int:
        """Return the number of the attempt that this launch has started. Raises LaunchFailed if
        there is none.
        """
        number = self.pod.launched(self.run, self.key)
        if number is None:
            raise LaunchFailed(
                f"The attempt of {self.run} that this launch had started is not known any more; "
                "look at the pod, then launch again."
            )
        return number

    def await_first_step(self, say: Say) -> None:
        """Wait until the run has finished its first training step. For an inference server, wait
        until it answers, and for an evaluation, until it has a result. Return at once if an earlier
        call has waited already. `say` is called with each phase of the start as text. Raises
        LaunchFailed if the run ends before that, or if it takes longer than 45 minutes. Raises
        Cancelled if the action is to end.
        """
        if not self.waited:
            self.first = self.pod.wait_first_step(self.run, self.attempt(), say, self.pause)
            self.waited = True


class ArchiveLogs(Stepping):
    """The step of a launch that keeps the logs of the attempt before, because a trainer may delete
    them when it starts. See `playbooks.pod_actions.Step` for the methods.
    """

    def done(self, context: LaunchContext, planned: Planned) -> bool:
        """Return True if this action has prepared an attempt, which it does only after the logs are
        archived. The logs that lie in the old places now are those of the new attempt.
        """
        return context.pod.claimed(context.run, context.key)

    def act(
        self, context: LaunchContext, planned: Planned, targets: Sequence[Target], say: Say
    ) -> str:
        """Archive the logs on the pod, and return a sentence about the result. Raises StepFailed if
        a file cannot be archived, and Refused if another user owns a directory or may write to it.
        """
        return context.pod.archive_logs(context.run)


class MoveAside(Stepping):
    """The step of a launch that moves aside what the trainer would delete, or would resume from by
    mistake. See `playbooks.pod_actions.Step` for the methods.
    """

    def done(self, context: LaunchContext, planned: Planned) -> bool:
        """Return True if this action has prepared an attempt (a start of the run). It does that
        only after it has moved everything, so what lies in the old places now is the new attempt's
        and must stay.
        """
        return context.pod.claimed(context.run, context.key)

    def check(self, context: LaunchContext, planned: Planned) -> Sequence[Target]:
        """Return one target for each path that the confirmed plan moves aside."""
        return targets_at(context.plan.moves)

    def act(
        self, context: LaunchContext, planned: Planned, targets: Sequence[Target], say: Say
    ) -> str:
        """Move the paths of the plan to the run's trash (a directory in which removed files are
        kept), and return a sentence about the result. What this action moved there before a restart
        of the agent stays there. Raises StepFailed if the disk reports an error, and Refused if a
        path is not the run's own.
        """
        plan = context.plan
        return context.pod.move_aside(plan.spec, plan.moves, context.key)


class Start(Stepping):
    """The step that starts an attempt of the run, at most once for an action's key. See
    `playbooks.pod_actions.Step` for the methods.
    """

    def done(self, context: LaunchContext, planned: Planned) -> bool:
        """Return True if this action has started an attempt already."""
        return context.pod.launched(context.run, context.key) is not None

    def act(
        self, context: LaunchContext, planned: Planned, targets: Sequence[Target], say: Say
    ) -> str:
        """Start the attempt and return a phrase with its number. Raises RunExists, BadConfig,
        BadRequest or LaunchFailed if it cannot be started.
        """
        return f"attempt {context.pod.launch(context.plan.spec, context.key)} runs"


class FirstStep(Waiting):
    """The step that waits until the run is seen to work: until its first training step is done, or
    its server answers, or its evaluation has a result.
    """

    def wait(self, context: LaunchContext, say: Say) -> str:
        """Wait until the run is seen to work, and return a phrase that says by what, such as the
        number of its first step. Raises LaunchFailed if the run ends before, or nothing is seen in
        time.
        """
        context.await_first_step(say)
        if context.first is None:
            return AWAITED[context.plan.spec.component][1]
        return f"step {context.first} is done"


STEPS: Mapping[str, Any] = {
    ARCHIVE: ArchiveLogs(),
    MOVE: MoveAside(),
    "start": Start(),
    FIRST_STEP: FirstStep(),
}


class Launch(PlannedKind[LaunchPlan]):
    """The kind of action that starts an attempt of a run; see `actions.kind.Kind` for the methods.
    `ledger` has the actions of this pod.
    """

    name, planner, steps = NAME, "launch --plan", STEPS
    keeps_confirmed = True

    def __init__(self, pod: Pod, ledger: Ledger) -> None:
        self._pod, self._ledger = pod, ledger

    def asked(self, asked: Submission) -> tuple[str, Callable[[str], LaunchPlan]]:
        """Return two things: the name of the run in the request `asked.body["launch"]`, whose
        fields `launch.plan.make` describes, and a function that takes the key of an action and
        makes the plan for it. `asked.body["record"]`, if given, is a table that is stored in the
        plan unchanged, for the console. Raises BadRequest if the request is malformed.
        """
        launch, record = asked.table(NAME), asked.body.get("record") or {}
        if not isinstance(record, Mapping):
            raise BadRequest("`record` of a plan is a table; send it so.")
        run = validation.spec_of({**launch, "resume": None}).run
        return run, lambda key: self._pod.plan_launch(launch, record, self._tries(run))

    def refuse(self, asked: Submission, view: PlanView) -> None:
        """Raise Refused if the plan moves checkpoints aside and `asked.body["confirm_run"]`, which
        a person has typed, is not the run's name. Do nothing otherwise.
        """
        if view.plan.get("typed_name") and asked.body.get("confirm_run") != view.run:
            raise Refused(
                f"This start moves checkpoints of {view.run} aside; confirm it by typing the "
                "run's name."
            )

    def read(self, data: Mapping[str, Any]) -> LaunchPlan:
        """Return the plan in `data`, a dictionary that its `as_dict` has made. Raises KeyError,
        TypeError or ValueError if `data` is no such dictionary.
        """
        return LaunchPlan.from_dict(data)

    def again(self, key: str, confirmed: LaunchPlan) -> LaunchPlan:
        """Make the plan `confirmed` again, from its request and the present state of the pod, and
        return the new plan. `key` is not used. Raises an error of `launch.plan.make` if the launch
        is not possible any more.
        """
        tries = self._tries(confirmed.spec.run)
        return self._pod.plan_launch(confirmed.asked, confirmed.record, tries)

    def fields(self, plan: LaunchPlan, plan_hash: str) -> PlanFields:
        """Return the plan's name, "launch", and its hash `plan_hash`, in the form in which the
        journal (the agent's log of actions and incidents) records that the plan is carried out.
        """
        return {"playbook": NAME, "plan_hash": plan_hash}

    def direct(self, asked: Submission) -> tuple[str, LaunchPlan] | None:
        """Return two things if `asked.body` has no `plan_hash`: the name of the run, and a plan
        that starts the run exactly as the body says, with the keys that `launch.validation.spec_of`
        reads, and moves nothing aside. Return None if the body has a `plan_hash`. Raises BadRequest
        if the body is malformed, and Refused if such a start is known to hang or to lose work.
        """
        body = asked.body
        if body.get("plan_hash") is not None:
            return None
        spec = validation.spec_of(body)
        validation.preflight(self._pod.runs, spec, checked=bool(body.get("preflight", True)))
        return spec.run, direct(spec, self._pod.command_line(spec), wait=body.get("wait", True))

    def left(self, action: ActionView) -> LaunchPlan:
        """Return what `action` launches: its confirmed plan, or what its body describes. Raises
        BadRequest if the body describes no launch.
        """
        body = action.body
        if "plan" in body:
            return self.read(body["plan"])
        spec = validation.spec_of(body)
        command = next((step.command for step in action.steps), "")
        return direct(spec, command, wait=body.get("wait", True))

    def too_late(self, action: ActionView) -> str:
        """Return why the launch comes too late to be continued after a restart of the agent: it has
        started nothing yet, and was accepted more than 15 minutes ago. The pod may have been away
        for days, and nobody expects the run then. Return "" if the launch may be continued.
        """
        # A clock that was put back says as little about the age.
        age_s = abs(time.time() - action.accepted_t)
        if age_s <= LIFETIME_S or self._pod.launched(action.run, action.key) is not None:
            return ""
        aside = ""
        kinds = [step.get("kind") for step in action.body.get("plan", {}).get("steps", ())]
        done = [
            kind for kind, step in zip(kinds, action.steps, strict=False) if step.state == "done"
        ]
        if MOVE in done:
            aside = " What it had moved aside before lies in the run's trash."
        return (
            f"it was accepted {age_s / 60.0:.0f} minutes ago and had not started the run when the "
            f"agent or the pod ended; launch again if the run is still wanted.{aside}"
        )

    def context(self, action: Underway[LaunchPlan]) -> LaunchContext:
        """Return the LaunchContext with which the steps of the launch work."""
        return LaunchContext(self._pod, action.plan, action.key, action.turn.pause)

    def verify(self, action: Underway[LaunchPlan], context: LaunchContext) -> Outcome:
        """Wait until the run is seen to work, and return the outcome, a success. If the plan does
        not wait for a working run, return a success at once, because the run was started. After a
        restart of the agent, the run has to be seen to work again. Raises LaunchFailed if the run
        ends before it works, or does not work in time.
        """
        result = {"attempt": context.attempt()}
        if not action.plan.waits:
            return Outcome(True, f"{context.run} was started", result)
        with action.turn.rest():
            context.await_first_step(action.verifying)
        does = "trains"
        if context.first is None:
            does = AWAITED[action.plan.spec.component][2]
        else:
            result["step"] = context.first
        return Outcome(True, f"{context.run} {does}", result)

    def _tries(self, run: str) -> int:
        """Return how many launches of the run have ended. The number is part of the plan's hash,
        which makes the action's key: a new try is a new action.
        """
        return sum(action.ended for action in self._ledger.actions_of(NAME, run))
