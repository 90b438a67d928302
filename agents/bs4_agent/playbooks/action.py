"""The recovery of a run by a playbook as a kind of action: its rules and its verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bs4_agent.actions.kind import Outcome, PlanFields, PlannedKind, Underway
from bs4_agent.actions.submission import Submission
from bs4_agent.playbooks.plan import Plan, make
from bs4_agent.playbooks.pod_actions import Context
from bs4_agent.playbooks.steps import STEPS
from bs4_agent.playbooks.verify import VERIFIERS
from bs4_agent.pod import Pod
from bs4_common.errors import Refused
from bs4_common.failures.compiled import Library
from bs4_common.ledger import Ledger, PlanView

#: Recoveries of a run without a new step after which no more are tried. The same fix does not work
#: the third time.
RECOVERY_LIMIT = 2


class Recovery(PlannedKind[Plan]):
    """The kind of action that repairs a run by a playbook from `library`; see `actions.kind.Kind`
    for the methods. It has succeeded if the check that the playbook names shows that training
    advances again.
    """

    name, planner, steps = "playbook", "playbook plan", STEPS

    def __init__(self, pod: Pod, library: Library, ledger: Ledger) -> None:
        self._pod, self._library, self._ledger = pod, library, ledger

    def plan_name(self, asked: Submission) -> str:
        """Return the id of the playbook `asked.body["playbook"]`. Raises UnknownPlaybook if there
        is no such playbook.
        """
        return self._library.get(str(asked.body.get("playbook"))).id

    def asked(self, asked: Submission) -> tuple[str, Callable[[str], Plan]]:
        """Return two things: the name of the run `asked.body["run"]`, and a function that takes the
        key of an action and makes the plan by which the playbook `asked.body["playbook"]` repairs
        that run. Raises UnknownPlaybook or UnknownRun if there is no such playbook or run.
        """
        playbook = self._library.get(str(asked.body.get("playbook")))
        run = self._pod.runs.get(str(asked.body.get("run"))).name
        incident = asked.body.get("incident", "")
        return run, lambda key: make(self._pod, playbook, run, key, str(incident))

    def refuse(self, asked: Submission, view: PlanView) -> None:
        """Raise Refused if the playbook moves all output of the run and
        `asked.body["confirm_run"]`, which a person has typed, is not the run's name. Raise Refused
        also if the last recoveries of the run brought no new step. Raises UnknownPlaybook if the
        plan's playbook does not exist any more.
        """
        playbook = self._library.get(view.playbook)
        if playbook.typed_name and asked.body.get("confirm_run") != view.run:
            raise Refused(
                f"{playbook.id} moves everything {view.run} has written; confirm it by "
                "typing the run's name."
            )
        last_step = self._pod.last_step_t(view.run)
        tried = sum(
            action.state == "failed" and action.accepted_t > last_step
            for action in self._ledger.actions_of(self.name, view.run)
        )
        if tried >= RECOVERY_LIMIT:
            raise Refused(
                f"{tried} recoveries of {view.run} brought no new step. Look at its logs and "
                "start it by hand once it can work."
            )

    def read(self, data: Mapping[str, Any]) -> Plan:
        """Return the plan in `data`, a dictionary that its `as_dict` has made. Raises
        UnknownPlaybook if its playbook does not exist any more. Raises KeyError or TypeError if
        `data` is no plan.
        """
        return Plan.from_dict(data, self._library.get(data["playbook"]), 0.0)

    def again(self, key: str, confirmed: Plan) -> Plan:
        """Make the plan `confirmed` again, from its playbook and the present state of the run, and
        return the new plan. Its steps keep their limits (how many processes or files they may
        touch) from the confirmed plan. `key` is the action's key. Raises NotApplicable if the
        playbook does not fit the run any more.
        """
        one = confirmed
        return make(self._pod, one.playbook, one.run, key, one.incident, one)

    def fields(self, plan: Plan, plan_hash: str) -> PlanFields:
        """Return the id of the playbook, the id of the incident that the plan repairs, and the
        plan's hash, for the journal.
        """
        return {
            "playbook": plan.playbook.id,
            "plan_hash": plan_hash,
            "incident": plan.incident,
        }

    def context(self, action: Underway[Plan]) -> Context:
        """Return the Context (the run, the pod and the action) with which the steps of the playbook
        work.
        """
        plan = action.plan
        return Context(self._pod, plan.run, action.key, plan.resume, action.turn.pause)

    def verify(self, action: Underway[Plan], context: Context) -> Outcome:
        """Wait until training advances again, or until it is clear that it does not, and return the
        outcome. What is waited for is written into the journal. Raises Cancelled if a stop of the
        run ends the action.
        """
        plan = action.plan
        kind, parameters = next(iter(plan.playbook.verify.items()))
        action.verifying(f"waiting for {parameters.get('count', 2)} new steps")
        with action.turn.rest():
            verdict = VERIFIERS[kind](
                self._pod,
                plan.run,
                plan.attempt,
                parameters,
                action.verifying,
                action.turn.pause,
            )
        result = {"recovered": verdict.recovered, "step": verdict.step}
        return Outcome(verdict.recovered, verdict.detail, result)

    def reached(self, plan: Plan) -> None:
        """Write into the journal that the incidents which this recovery has repaired are over."""
        self._pod.resolved(plan.run, plan.playbook.id, plan.incident)
