"""Carries out a confirmed plan: journals the intent, checks again, acts and verifies. It also goes
on after the agent itself was killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from bs4_agent.errors import AgentError, Cancelled, PlanChanged, StepFailed
from bs4_agent.ledger import ActionView
from bs4_agent.playbooks.plan import Plan
from bs4_agent.playbooks.pod_actions import Context, Planned, PodActions
from bs4_agent.playbooks.steps import STEPS
from bs4_agent.playbooks.verify import VERIFIERS


class Recorder(Protocol):
    """A function that appends one record of the type `type_` with the given fields to the pod's
    journal, and returns the record. With `sync`, the record is on disk when it returns.
    """

    def __call__(self, type_: str, /, *, sync: bool = False, **fields: Any) -> Mapping[str, Any]:
        """Write one record and return it. `sync` waits until it is on disk and raises SpoolFull if
        that fails.
        """


class StepRunner:
    """Carries out the steps of a plan, one after the other, and journals each.

    Each step's `done` is called first, so that a repetition after a kill -9 at any instant does
    nothing twice. `record` appends to the journal, and `key` is the action's key. `rest` returns a
    context in which a newer agent may take over (a safe point). `kinds` maps the kind of a step to
    the object that carries it out, and `context` is what these objects work with.
    """

    def __init__(
        self,
        record: Recorder,
        key: str,
        run: str,
        steps: Sequence[Planned],
        rest: Callable[[], AbstractContextManager[None]],
        *,
        kinds: Mapping[str, Any],
        context: Any,
    ) -> None:
        """Store what the runner needs. `rest` is a context in which this agent may be replaced by
        another one (a safe point).
        """
        self._record, self._key, self._run, self._steps, self._rest = record, key, run, steps, rest
        self._kinds, self._context = kinds, context

    def run(self, before: ActionView | None = None) -> bool:
        """Carry out the steps, verify the result, and return True if the goal was reached. An error
        of a step is journalled and gives False. `before` is the action as an earlier agent left it,
        whose finished steps are not repeated; None for a new action.

        Raises Cancelled if a stop of the run ends the action early; the caller journals that.
        """
        earlier = before.steps if before else ()
        try:
            for index, planned in enumerate(self._steps):
                if index < len(earlier) and earlier[index].state in ("done", "skipped"):
                    continue
                with self._rest():
                    pass  # another agent may take over between two steps
                self._step(index, planned)
        except Cancelled:
            raise
        except PlanChanged as error:
            self._event("plan-changed", detail=error.message, result={"recovered": False})
            return False
        except AgentError as error:
            self._event(
                "failed", detail=error.message, result={"recovered": False, "error": error.type}
            )
            return False
        return self._verify()

    def _step(self, index: int, planned: Planned) -> None:
        """Carry out one step. An OSError becomes StepFailed."""
        try:
            self._carry_out(index, planned)
        except OSError as error:
            detail = (
                f"{error.filename or 'A file'} cannot be used: {error.strerror}; put that right, "
                "then repeat."
            )
            self._event("step-failed", step=index, title=planned.title, detail=detail)
            raise StepFailed(detail) from error

    def _carry_out(self, index: int, planned: Planned) -> None:
        """Carry out one step, and journal its intent and its result."""
        step = self._kinds[planned.kind]
        if step.done(self._context, planned):
            self._event("step-skipped", step=index, title=planned.title, detail="already so")
            return
        targets = step.check(self._context, planned)
        self._event(
            "intent",
            sync=True,
            step=index,
            title=planned.title,
            command=planned.command,
            targets=[dict(t) for t in targets],
        )
        try:
            detail = step.act(self._context, planned, targets, lambda text: self._say(index, text))
        except AgentError as error:
            self._event("step-failed", step=index, title=planned.title, detail=error.message)
            raise
        self._event("step-done", sync=True, step=index, title=planned.title, detail=detail)

    def _verify(self) -> bool:
        """Journal the end of the action and return True if the goal was reached."""
        raise NotImplementedError

    def _end(self, detail: str, result: Mapping[str, Any], *, reached: bool) -> bool:
        """Journal the end of the action and return `reached`: True if the goal was reached."""
        self._event("done" if reached else "failed", sync=True, detail=detail, result=result)
        return reached

    def _say(self, index: int, text: str) -> None:
        """Journal the progress of a step."""
        self._event("intent", step=index, detail=text)

    def _event(self, event: str, *, sync: bool = False, **fields: Any) -> None:
        """Append an `action` record to the journal."""
        self._record("action", sync=sync, action=self._key, run=self._run, event=event, **fields)


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
        )
        self._world, self._plan, self._pause = pod_actions, plan, pause

    def _verify(self) -> bool:
        """Wait until training advances, journal the verdict, and return True if the run has
        recovered.
        """
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
        return self._end(verdict.detail, result, reached=verdict.recovered)
