"""Stopping a run. A stop is accepted whatever else is being done to the run: it ends the other
action early and goes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.pod import Pod
from bs4_common.errors import Busy, Cancelled, PlanChanged
from bs4_common.ledger import ActionView, Ledger

#: Seconds that a stop waits for the end of the step that another action is in.
STEP_S = 30.0
#: Kinds of actions that hold a run and that a stop ends early. A rotation holds it for one short
#: step and is only waited for.
_CANCELLED = frozenset({"launch", "playbook", "restore"})


class Stops:
    """Accepts the actions that stop runs, carries them out, and continues them after a restart of
    the agent. There is one such object for a pod.
    """

    def __init__(self, executor: ActionExecutor, pod: Pod) -> None:
        self._executor, self._pod = executor, pod

    def accept(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Accept the action `key` by which the person `who` stops the run `body["run"]`, and carry
        it out on a thread of its own. If another action works on the run, that action is ended
        early, or this one waits for its end. If the other action is in the middle of a step that
        takes longer than 30 seconds, the journal says that the stop is refused. `payload` is not
        used.

        Raises UnknownRun if there is no such run, or Busy if another action that stops the run is
        under way. Raises PlanChanged if `body["attempt"]`, the number of the attempt that the
        person wants to stop, is given and is not the number of the run's newest attempt.
        """
        run = self._pod.runs.get(str(body.get("run"))).name
        attempt = self._executor.attempt(run)
        if body.get("attempt", attempt) != attempt:
            raise PlanChanged(
                f"{run} is in attempt {attempt} by now, and the stop of another one was "
                "confirmed; look at it and stop it again."
            )
        self._executor.begin(
            key,
            body,
            who,
            run,
            lambda: self._carry_out(key, run, who),
            first=True,
            steps=[{"title": f"Stop {run}", "command": self._pod.stop_command(run)}],
        )

    def resume(self, action: ActionView) -> None:
        """Continue `action`, which stops a run and was under way when the agent was restarted."""
        self._executor.go_on(
            action, action.run, lambda: self._carry_out(action.key, action.run, action.who)
        )

    def cancel_interrupted(self, actions: Sequence[ActionView]) -> None:
        """Write into the journal that an action has ended if its run was being stopped, so that it
        is not continued. `actions` are all actions that were under way when the agent was
        restarted.
        """
        for stop in actions:
            if stop.kind != "stop":
                continue
            for action in actions:
                if action.run == stop.run and action.kind in _CANCELLED and not action.ended:
                    self._executor.cancel(action.key, stop.key, stop.who)
        for action in actions:
            if action.cancelled_by and not action.ended:
                error = Cancelled(action.cancelled_by)
                self._executor.event(
                    action.key,
                    action.run,
                    "interrupted",
                    detail=error.message,
                    result={"error": error.type},
                )

    def _carry_out(self, key: str, run: str, who: str) -> None:
        """Stop the run as soon as this action holds it, and journal the result."""
        event, progress = self._executor.event, self._executor.progress
        if not self._take_over(key, run, who):
            return
        event(key, run, "intent", sync=True, step=0)
        detail = self._pod.stop(run, lambda text: progress(key, run, "intent", step=0, detail=text))
        progress(key, run, "step-done", step=0, detail=detail)
        self._executor.end(key, "done", detail=detail)

    def _take_over(self, key: str, run: str, who: str) -> bool:
        """Return True once the stop holds the run. Return False, and refuse the stop, if the other
        action's step did not end in time.
        """
        before = self._executor.locks.holder(run)
        if before is None or before.key == key:
            return True
        if before.kind in _CANCELLED:
            self._executor.cancel(before.key, key, who)
        doing = _doing(before)
        self._executor.event(key, run, "started", detail=f"waiting for the end of {doing}")
        with self._executor.safe_points.rest():
            taken = self._executor.locks.await_turn(run, key, STEP_S)
        if not taken:
            detail = (
                f"{doing} has not ended within {STEP_S:.0f} s. Nothing follows that step any "
                f"more; stop {run} again once it has ended."
            )
            self._executor.event(
                key, run, "refused", sync=True, detail=detail, result={"error": Busy.type}
            )
        return taken


def stopped_since(ledger: Ledger, run: str) -> ActionView | None:
    """Return the newest action that stops `run` and is under way, or has ended since the run's
    newest attempt began. `ledger` has the actions of the pod. Return None if there is no such
    action or the run has no attempt.
    """
    view = ledger.runs.get(run)
    if view is None or view.attempt is None:
        return None
    newest = max(ledger.actions_of("stop", run), key=lambda action: action.accepted_t, default=None)
    if newest is None or (newest.ended and newest.updated_t < view.attempt.started_t):
        return None
    return newest


def _doing(action: ActionView) -> str:
    """Return the step that an action is in as a phrase: "step 2 (Wait for the first step) of the
    launch by alice".
    """
    where = "the present step"
    for number, step in enumerate(action.steps, 1):
        if step.state == "running":
            where = f"step {number} ({step.title})"
            break
    return f"{where} of the {action.what} by {action.who}"
