"""Merging a checkpoint into a Hugging Face directory: plan, confirmation and work."""

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
    from bs4_agent.checkpoints.merging.action import MergePlan
    from bs4_agent.checkpoints.merging.merge import Merging


def hold_of(run: str) -> str:
    """Return the name under which a merge of `run` is registered in the executor, so that one merge
    of a run happens at a time. It is not the run's own name, because the run may train while the
    merge works. No run can have this name.
    """
    return f"the merge of {run}"


class Merges:
    """Plans, accepts and carries out merges (a checkpoint's shards are made into one model); one
    per pod. The merger is a long command of `kinds.jobs`.
    """

    def __init__(self, executor: ActionExecutor, pod: Pod, kinds: Kinds) -> None:
        self._executor, self._pod, self._kinds = executor, pod, kinds

    @functools.cached_property
    def work(self) -> Merging:
        """Return the object that prepares and carries out merges. Its module is imported at the
        first use, so that an agent without merges stays small.
        """
        from bs4_agent.checkpoints.merging.merge import Merging

        return Merging(self._pod.runs.home, self._pod.runs, self._kinds.jobs)

    def plan(self, key: str, body: Mapping[str, Any], who: str) -> None:
        """Journal the plan action `key` of the person `who`, and make and journal the plan of a
        merge on a thread of its own. The body's `merge` holds the request. Raises BadRequest if it
        is malformed.
        """
        from bs4_agent.checkpoints.merging import action as merge_action
        from bs4_agent.checkpoints.merging import merge

        if not isinstance(body["merge"], Mapping):
            raise BadRequest("`merge` of a plan is a table; send it so.")
        asked = merge.MergeRequest.read(body["merge"])
        self._executor.accept(key, body, who, asked.run, playbook=merge_action.NAME)
        self._executor.start(
            "",
            key,
            lambda: self._executor.journal_plan(
                key, merge_action.NAME, asked.run, lambda: merge_action.make(self.work, asked)
            ),
        )

    def accept(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Accept the merge `key` of the person `who`, whose plan has the body's `plan_hash`, and
        start it on a thread of its own. `payload` is not used.

        Raises Refused if no journalled plan of a merge has this hash, PlanExpired if the plan is
        older than 15 minutes or the pod was rebooted, PlanChanged if the merge would do something
        else now, and Busy if another merge of the run is under way.
        """
        from bs4_agent.checkpoints.merging import action as merge_action

        view = self._executor.kept_plan(body, merge_action.NAME, "checkpoints merge --plan")
        asked = merge_action.MergePlan.from_dict(view.plan).prepared.asked
        with self._executor.locks.holding(hold_of(view.run), key):
            plan = self._executor.made_again(view, who, lambda: merge_action.make(self.work, asked))
            self._executor.accept(
                key,
                {**body, "plan": plan.as_dict()},
                who,
                view.run,
                plan_hash=view.plan_hash,
                steps=step_fields(plan.steps),
            )
            self._executor.start(hold_of(view.run), key, lambda: self._carry_out(key, plan))

    def _carry_out(self, key: str, plan: MergePlan, before: ActionView | None = None) -> None:
        """Carry out a merge, or continue it from the action `before`."""
        from bs4_agent.checkpoints.merging.action import MergeRunner

        MergeRunner(self.work, self._executor.book, key, plan, self._executor.safe_points.rest).run(
            before
        )

    def resume(self, action: ActionView) -> None:
        """Continue a merge that was under way when the agent restarted. If its plan cannot be read
        any more, journal that it is interrupted.
        """
        from bs4_agent.checkpoints.merging.action import MergePlan

        try:
            plan = MergePlan.from_dict(action.body["plan"])
        except (KeyError, AgentError) as error:
            self._executor.unreadable(action.key, action.run, error)
            return
        self._executor.locks.hold(hold_of(action.run), action.key)
        self._executor.start(
            hold_of(action.run), action.key, lambda: self._carry_out(action.key, plan, action)
        )
