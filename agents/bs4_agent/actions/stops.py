"""Stopping a run. A stop is accepted whatever else is being done to the run: it ends the other
action early and goes first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.actions.kind import Kind, Outcome, Underway
from bs4_agent.actions.submission import Submission
from bs4_agent.playbooks.pod_actions import Planned, Say, Stepping, Target
from bs4_agent.pod import Pod
from bs4_common.errors import Busy, Cancelled, PlanChanged, SpoolFull
from bs4_common.ledger import ActionView, Ledger

#: Seconds that a stop waits for the end of the step that another action is in.
STEP_S = 30.0
#: Kinds of actions that hold a run and that a stop ends early. A rotation holds it for one short
#: step and is only waited for.
_CANCELLED = frozenset({"launch", "playbook", "restore"})


@dataclass(frozen=True)
class Stop:
    """What an action that stops `run` carries out. `steps` has one step, which ends the run's
    processes.
    """

    run: str
    steps: Sequence[Planned]


@dataclass
class StopContext:
    """The object that the step of a stop gets: the pod and the name of the run. The step sets
    `detail` to a sentence about how the run has ended.
    """

    pod: Pod
    run: str
    detail: str = ""


class EndRun(Stepping):
    """The step that ends every process of a run. See `playbooks.pod_actions.Step` for the
    methods.
    """

    def done(self, context: StopContext, planned: Planned) -> bool:
        """Return False, so that the step is always carried out. If the run has ended already, the
        step ends at once.
        """
        return False

    def act(
        self, context: StopContext, planned: Planned, targets: Sequence[Target], say: Say
    ) -> str:
        """Stop the run and return a sentence about how it ended. Raises StepFailed if a process or
        its GPU memory remains.
        """
        context.detail = context.pod.stop(context.run, say)
        return context.detail


STEPS: Mapping[str, Any] = {"stop_run": EndRun()}


class Stops(Kind[Stop]):
    """The kind of action that stops runs; see `actions.kind.Kind` for the methods. It has no plan:
    the submitted action names the run, and the number of the attempt that is to be stopped.
    """

    name, steps, goes_first = "stop", STEPS, True

    def __init__(self, executor: ActionExecutor, pod: Pod) -> None:
        self._executor, self._pod = executor, pod

    def direct(self, asked: Submission) -> tuple[str, Stop]:
        """Return two things: the name of the run to stop, which is `asked.body["run"]`, and what
        the action carries out. Raises UnknownRun if there is no such run. Raises PlanChanged if
        `asked.body["attempt"]`, the number of the attempt that a person wants to stop, is not the
        run's newest attempt.
        """
        run = self._pod.runs.get(str(asked.body.get("run"))).name
        attempt = self._executor.attempt(run)
        if asked.body.get("attempt", attempt) != attempt:
            raise PlanChanged(
                f"{run} is in attempt {attempt} by now, and the stop of another one was "
                "confirmed; look at it and stop it again."
            )
        return run, _stop(run, self._pod.stop_command(run))

    def left(self, action: ActionView) -> Stop:
        """Return what `action`, the stop of a run, carries out. This is the whole stop, also after
        a restart of the agent.
        """
        return _stop(action.run, next((step.command for step in action.steps), ""))

    def context(self, action: Underway[Stop]) -> StopContext:
        """Return the StopContext (the pod and the run) with which the step of the stop works."""
        return StopContext(self._pod, action.plan.run)

    def verify(self, action: Underway[Stop], context: StopContext) -> Outcome:
        """Return the outcome of a stop whose step has worked: the goal is reached, and `detail`
        says how the run ended. If a process is left, the step itself fails, and this is not called.
        """
        return Outcome(True, context.detail or f"{context.run} is stopped", {})

    def cancel_interrupted(self, actions: Sequence[ActionView]) -> None:
        """Write into the journal the end of each of `actions` whose run was being stopped, so that
        it is not continued. `actions` are all actions that were under way when the agent was
        restarted.
        """
        for stop in actions:
            if stop.kind != "stop":
                continue
            for action in actions:
                if action.run == stop.run and action.kind in _CANCELLED and not action.ended:
                    # Without room, the stop holds the run first, and that ends the other action.
                    with contextlib.suppress(SpoolFull):
                        self._executor.cancel(action.key, stop.key, stop.who)
        for action in actions:
            if action.cancelled_by and not action.ended:
                error = Cancelled(action.cancelled_by)
                self._executor.end(
                    action.key,
                    "interrupted",
                    detail=error.message,
                    result={"error": error.type},
                )

    def await_turn(self, key: str, run: str) -> bool:
        """Wait until the stop with the key `key` has `run` to itself, and return True. If another
        action works on the run, tell it to end early, and wait up to 30 seconds for the end of the
        step that it is in. Return False if that step takes longer; the journal then says that the
        stop is refused. Raises SpoolFull if the journal has no room.
        """
        before = self._executor.locks.holder(run)
        if before is None or before.key == key:
            return True
        who = self._executor.ledger.actions[key].who
        if before.key not in self._executor.ledger.actions:
            # Its plan is still made again. It is not accepted any more after that.
            self._executor.locks.cancel(before.key, who)
        elif before.kind in _CANCELLED:
            self._executor.cancel(before.key, key, who)
        doing = _doing(before)
        self._executor.progress(key, run, "started", detail=f"waiting for the end of {doing}")
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


def _stop(run: str, command: str) -> Stop:
    """Return the stop of a run. `command` is what a person would type for it."""
    return Stop(run, [Planned("stop_run", f"Stop {run}", command, {}, [], {})])


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
