"""Restoring a checkpoint from the store: plan, confirmation and work."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bs4_agent.actions.executor import ActionExecutor, step_fields
from bs4_agent.actions.kinds import Kinds
from bs4_agent.errors import AgentError, BadRequest
from bs4_agent.ledger import ActionView
from bs4_agent.pod import Pod

if TYPE_CHECKING:
    from bs4_agent.checkpoints.restoring.action import Restores


class Restorals:
    """Plans, accepts and carries out restores (checkpoints are fetched back from the store); one
    per pod. The transfer is a long command of `kinds.jobs`.
    """

    def __init__(self, executor: ActionExecutor, pod: Pod, kinds: Kinds) -> None:
        self._executor, self._pod, self._kinds = executor, pod, kinds

    @functools.cached_property
    def work(self) -> Restores:
        """Return the object that plans and carries out restores. Its module is imported at the
        first use, so that an agent without restores stays small.
        """
        from bs4_agent.checkpoints.restoring.action import Restores
        from bs4_agent.checkpoints.restoring.restore import Restoring

        runs = self._pod.runs
        restoring = Restoring(runs.home, runs, self._kinds.jobs)
        return Restores(restoring, runs, self._executor.book)

    def plan(self, key: str, body: Mapping[str, Any], who: str) -> None:
        """Journal the plan action `key` of the person `who`, and make and journal the plan of a
        restore on a thread of its own. The body's `restore` holds the request. Raises BadRequest if
        it is malformed.
        """
        from bs4_agent.checkpoints.restoring import action as restore_action
        from bs4_agent.checkpoints.restoring import restore

        if not isinstance(body["restore"], Mapping):
            raise BadRequest("`restore` of a plan is a table; send it so.")
        asked = restore.RestoreRequest.read(body["restore"])
        self._executor.accept(key, body, who, asked.run, playbook=restore_action.NAME)
        self._executor.start(
            "",
            key,
            lambda: self._executor.journal_plan(
                key, restore_action.NAME, asked.run, lambda: self.work.make(asked)
            ),
        )

    def accept(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Accept the restore `key` of the person `who`, whose plan has the body's `plan_hash`, and
        start it on a thread of its own. `payload` is not used. Raises Refused if no journalled plan
        of a restore has this hash, PlanExpired if the plan is older than 15 minutes or the pod was
        rebooted, PlanChanged if the restore would do something else now, and Busy if another action
        holds the run.
        """
        from bs4_agent.checkpoints.restoring.action import NAME, RestorePlan

        view = self._executor.kept_plan(body, NAME, "checkpoints restore --plan")
        run, before = view.run, RestorePlan.from_dict(view.plan)
        with self._executor.locks.holding(run, key):
            plan = self._executor.made_again(
                view, who, lambda: self.work.make(before.asked, before)
            )
            self._executor.accept(
                key,
                {**body, "plan": view.plan},
                who,
                run,
                plan_hash=view.plan_hash,
                steps=step_fields(plan.steps),
            )
            self._executor.start(
                run,
                key,
                lambda: self.work.carry_out(key, plan, self._executor.locks.turn(key).rest),
            )

    def resume(self, action: ActionView) -> None:
        """Continue a restore that was under way when the agent restarted. If its plan cannot be
        read any more, journal that it is interrupted.
        """
        from bs4_agent.checkpoints.restoring.action import RestorePlan

        try:
            plan = RestorePlan.from_dict(action.body["plan"])
        except (KeyError, AgentError) as error:
            self._executor.unreadable(action.key, action.run, error)
            return
        self._executor.locks.hold(action.run, action.key)
        rest = self._executor.locks.turn(action.key).rest
        self._executor.start(
            action.run, action.key, lambda: self.work.carry_out(action.key, plan, rest, action)
        )
