"""Carries out the plan of a playbook and waits until training advances again."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from bs4_agent.actions.steps import Outcome, Recorder, StepRunner
from bs4_agent.playbooks.plan import Plan
from bs4_agent.playbooks.pod_actions import Context, PodActions
from bs4_agent.playbooks.steps import STEPS
from bs4_agent.playbooks.verify import VERIFIERS


class Runner(StepRunner):
    """Carries out one playbook's plan for one run. It has succeeded if the playbook's verification
    shows that training advances again.
    """

    def __init__(
        self,
        pod_actions: PodActions,
        record: Recorder,
        key: str,
        plan: Plan,
        rest: Callable[[], AbstractContextManager[None]] = nullcontext,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Store what the runner needs. `pause` sleeps for a number of seconds between two polls,
        and raises Cancelled if the action is to end.
        """
        super().__init__(
            record,
            key,
            plan.run,
            plan.steps,
            rest,
            kinds=STEPS,
            context=Context(pod_actions, plan.run, key, plan.resume, pause),
            verify=self._training_advances,
        )
        self._world, self._plan, self._pause = pod_actions, plan, pause

    def _training_advances(self) -> Outcome:
        """Wait until training advances, journal what is waited for, and return the outcome."""
        kind, parameters = next(iter(self._plan.playbook.verify.items()))
        self._event("verifying", detail=f"waiting for {parameters.get('count', 2)} new steps")
        with self._rest():
            verdict = VERIFIERS[kind](
                self._world,
                self._plan.run,
                self._plan.attempt,
                parameters,
                lambda text: self._event("verifying", detail=text),
                self._pause,
            )
        result = {"recovered": verdict.recovered, "step": verdict.step}
        return Outcome(verdict.recovered, verdict.detail, result)
