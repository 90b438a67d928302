"""The steps of a confirmed plan: journals the intent, checks again, acts and verifies. It also goes
on after the agent itself was killed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol

from bs4_agent.actions.kind import Kind, P, Underway
from bs4_agent.actions.safe_points import Turn
from bs4_agent.playbooks.pod_actions import Planned, Unheld, Waiting
from bs4_common.errors import AgentError, Interrupted, PlanChanged, SpoolFull, StepFailed
from bs4_common.ledger import ActionView


class Recorder(Protocol):
    """A function that appends one record to the pod's journal. `type_` is the type of the record,
    and the other arguments are its fields. With `sync`, the record is on the disk when the function
    returns.
    """

    def __call__(self, type_: str, /, *, sync: bool = False, **fields: Any) -> object:
        """Write one record. `sync` waits until it is on disk and raises SpoolFull if that fails."""


class StepRunner(Generic[P]):
    """Carries out the plan of an action, one step after the other. `kind` is the kind of the
    action, `key` its key, and `run` the name of its run. The function `record` writes each event of
    a step into the journal. Events that must not be lost, such as the end of the action, are
    written by `insist(key, event, **fields)`, which tries again until the journal has room.

    For each step, its method `done` is called first, so that nothing is done twice when a plan is
    carried out again after a kill -9 of the agent. `turn` marks the point between two steps, at
    which a newer agent may take over and a stop may end the action.
    """

    def __init__(
        self,
        record: Recorder,
        insist: Callable[..., object],
        kind: Kind[P],
        key: str,
        run: str,
        plan: P,
        turn: Turn,
    ) -> None:
        self._insist = functools.partial(insist, key)
        self._record, self._kind, self._key, self._run = record, kind, key, run
        self._action = Underway(key, plan, turn, self._verifying)
        self._context = kind.context(self._action)

    def run(self, before: ActionView | None = None) -> bool:
        """Carry out the steps, verify the result, and return True if the action has reached its
        goal. If a step raises an error, write it into the journal and return False. `before` is the
        action as an earlier agent left it, whose finished steps are not repeated, or None for a new
        action.

        Raises Cancelled if a stop of the run ends the action early, or another Interrupted if it
        cannot go on; the caller then writes that into the journal.
        """
        earlier = before.steps if before else ()
        try:
            for index, planned in enumerate(self._action.plan.steps):
                if index < len(earlier) and earlier[index].state in ("done", "skipped"):
                    continue
                if isinstance(self._kind.steps[planned.kind], Unheld):
                    self._action.turn.let_go()
                with self._action.turn.rest():
                    pass  # another agent may take over between two steps
                self._step(index, planned)
        except Interrupted:
            raise
        except PlanChanged as error:
            self._insist("plan-changed", detail=error.message, result={"recovered": False})
            return False
        except AgentError as error:
            result = {"recovered": False, "error": error.type}
            self._insist("failed", detail=error.message, result=result)
            return False
        outcome = self._kind.verify(self._action, self._context)
        event = "done" if outcome.reached else "failed"
        self._insist(event, detail=outcome.detail, result=outcome.result)
        return outcome.reached

    def _step(self, index: int, planned: Planned) -> None:
        """Carry out one step. An OSError becomes StepFailed."""
        try:
            self._carry_out(index, planned)
        except OSError as error:
            failed = told(error)
            self._event("step-failed", step=index, title=planned.title, detail=failed.message)
            raise failed from error

    def _carry_out(self, index: int, planned: Planned) -> None:
        """Carry out one step, and journal its intent and its result. A step that has acted does not
        fail because the journal has no room for its end: it would not act again (see `done`).
        """
        step = self._kind.steps[planned.kind]
        if step.done(self._context, planned):
            self._event("step-skipped", step=index, title=planned.title, detail="already so")
            return
        if isinstance(step, Waiting):
            self._wait(index, planned, step)
            return
        targets = step.check(self._context, planned)
        intend: Callable[..., object] = functools.partial(self._event, sync=True)
        inside: AbstractContextManager[None] = contextlib.nullcontext()
        if isinstance(step, Unheld):
            intend, inside = self._insist, self._action.turn.rest()
        intend(
            "intent",
            step=index,
            title=planned.title,
            command=planned.command,
            targets=[dict(t) for t in targets],
        )
        try:
            with inside:
                detail = step.act(
                    self._context, planned, targets, lambda text: self._say(index, text)
                )
        except AgentError as error:
            self._event("step-failed", step=index, title=planned.title, detail=error.message)
            raise
        self._progress("step-done", sync=True, step=index, title=planned.title, detail=detail)

    def _wait(self, index: int, planned: Planned, step: Waiting) -> None:
        """Wait for what the step waits for. A newer agent may take over meanwhile."""
        self._progress("intent", step=index, title=planned.title)
        with self._action.turn.rest():
            detail = step.wait(self._context, lambda text: self._say(index, text))
        self._progress("step-done", step=index, title=planned.title, detail=detail)

    def _verifying(self, text: str) -> None:
        """Journal what the verification waits for, if the journal has room."""
        self._progress("verifying", detail=text)

    def _say(self, index: int, text: str) -> None:
        """Journal the progress of a step, if the journal has room."""
        self._progress("intent", step=index, detail=text)

    def _progress(self, event: str, **fields: Any) -> None:
        """Append an `action` record to the journal, if the journal has room."""
        with contextlib.suppress(SpoolFull):
            self._event(event, **fields)

    def _event(self, event: str, *, sync: bool = False, **fields: Any) -> None:
        """Append an `action` record to the journal."""
        self._record("action", sync=sync, action=self._key, run=self._run, event=event, **fields)


def told(error: AgentError | OSError) -> AgentError:
    """Return `error` as an AgentError, whose message is a sentence for a person. An OSError is
    turned into StepFailed, and an AgentError is returned as it is.
    """
    if isinstance(error, AgentError):
        return error
    return StepFailed(
        f"{error.filename or 'A file'} cannot be used: {error.strerror}; put that right, then "
        "repeat."
    )
