"""Carry out a confirmed plan: journal the intent, check again, act, verify; and go on after the
agent itself was killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from bs4_agent.errors import AgentError, Cancelled, PlanChanged, StepFailed
from bs4_agent.ledger import ActionView
from bs4_agent.playbooks.plan import Plan
from bs4_agent.playbooks.steps import STEPS
from bs4_agent.playbooks.verify import VERIFIERS
from bs4_agent.playbooks.world import Context, Planned, World


class Recorder(Protocol):
    """Writes one journal record. `sync`: on disk before it returns; SpoolFull when it cannot be."""

    def __call__(
        self, type_: str, /, *, sync: bool = False, **fields: Any
    ) -> Mapping[str, Any]: ...


class StepRunner:
    """Typed steps, one after the other. Every step asks `done` first, so that running it again
    after a kill -9 at any instant does nothing twice. `kinds` and `context` belong together: what a
    step of each kind does, and what it does it to.
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
        """`rest`: a context in which this agent may be replaced by another one
        (boundaries.Boundaries).
        """
        self._record, self._key, self._run, self._steps, self._rest = record, key, run, steps, rest
        self._kinds, self._context = kinds, context

    def run(self, before: ActionView | None = None) -> bool:
        """To the verdict. `before`: what an earlier life of the agent has journalled of this
        action. True when it was achieved.

        Cancelled, which whoever runs it journals, when a stop of the run has ended it early.
        """
        if before:
            finished = set()
            for i, s in enumerate(before.steps):
                if s.state in ("done", "skipped"):
                    finished.add(i)
        else:
            finished = set()
        try:
            for index, planned in enumerate(self._steps):
                if index not in finished:
                    with self._rest():
                        pass  # the line between two steps
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
        raise NotImplementedError

    def _say(self, index: int, text: str) -> None:
        self._event("intent", step=index, detail=text)

    def _event(self, event: str, *, sync: bool = False, **fields: Any) -> None:
        self._record("action", sync=sync, action=self._key, run=self._run, event=event, **fields)


class Runner(StepRunner):
    """One playbook's plan for one run, verified by training that moves again."""

    def __init__(
        self,
        world: World,
        record: Recorder,
        key: str,
        plan: Plan,
        rest: Callable[[], AbstractContextManager[None]] = nullcontext,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`pause`: sleeps for so many seconds between two looks; raises Cancelled when the action
        is to end.
        """
        context = Context(world, plan.run, key, plan.resume, pause)
        super().__init__(record, key, plan.run, plan.steps, rest, kinds=STEPS, context=context)
        self._world, self._plan, self._pause = world, plan, pause

    def _verify(self) -> bool:
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
        self._event(
            "done" if verdict.recovered else "failed",
            sync=True,
            detail=verdict.detail,
            result=result,
        )
        return verdict.recovered
