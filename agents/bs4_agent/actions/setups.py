"""Setting up a bare pod: plan, confirmation with the secrets that it needs, and work that outlives
the agent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bs4_agent.actions.executor import ActionExecutor, step_fields
from bs4_agent.errors import AgentError, BadRequest
from bs4_agent.ledger import ActionView
from bs4_agent.pod import Pod
from bs4_agent.setup_log import open_setup_log
from bs4_agent.streams.logs import LogStream

if TYPE_CHECKING:
    from bs4_agent.setup.work import SetUps

#: The name of what a set-up holds while it works. No run can have this name.
HOLD = "the set-up of this pod"


class SetUpActions:
    """Plans, accepts and carries out set-ups of the pod (checkouts, packages, secrets); one per
    pod. The attribute `log` is a function that returns the log stream to which the commands of a
    set-up print.
    """

    def __init__(self, executor: ActionExecutor, pod: Pod) -> None:
        self._executor, self._pod = executor, pod
        self.log: Callable[[], LogStream] = lambda: open_setup_log(pod.runs.home)

    @functools.cached_property
    def work(self) -> SetUps:
        """Return the object that plans and carries out set-ups. Its module is imported at the first
        use, so that an agent without set-ups stays small.
        """
        from bs4_agent.setup.work import SetUps

        runs, pod = self._pod.runs, self._pod
        return SetUps(
            runs.home,
            self.log(),
            self._executor.book,
            self._executor.ledger,
            pod.hard_nofile,
            list(runs.agent_restart or ()),
            self._executor.safe_points.rest,
        )

    def plan(self, key: str, body: Mapping[str, Any], who: str) -> None:
        """Journal the plan action `key` of the person `who`, and make and journal the plan of a
        set-up on a thread of its own. The body's `setup` is the recipe. Raises BadRequest if it is
        malformed.
        """
        from bs4_agent.setup import plan, recipe

        if not isinstance(body["setup"], Mapping):
            raise BadRequest("`setup` of a plan is a table; send it so.")
        wanted = recipe.read(body["setup"])
        self._executor.accept(key, body, who, "", playbook=plan.NAME)
        self._executor.start(
            "",
            key,
            lambda: self._executor.journal_plan(
                key, plan.NAME, "", lambda: self.work.make(key, wanted)
            ),
        )

    def accept(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Accept the set-up `key` of the person `who`, whose plan has the body's `plan_hash`, and
        start it on a thread of its own. `payload` holds the secrets and is not journalled.

        Raises Refused if no journalled plan of a set-up has this hash, PlanExpired if the plan is
        older than 15 minutes or the pod was rebooted, PlanChanged if the set-up would do something
        else now, BadRequest if the secrets do not fit the plan, and Busy if another set-up is under
        way. In each case the agent keeps none of these secrets.
        """
        from bs4_agent.setup import plan as setup_plan

        view = self._executor.kept_plan(body, setup_plan.NAME, "pods setup --plan")
        recipe = setup_plan.SetupPlan.from_dict(view.plan, view.expires_m).recipe
        with self._executor.locks.holding(HOLD, key):
            plan = self._executor.made_again(view, who, lambda: self.work.make(key, recipe))
            try:
                self.work.keep(key, plan, payload)
                self._executor.accept(
                    key,
                    {**body, "plan": plan.as_dict()},
                    who,
                    "",
                    plan_hash=view.plan_hash,
                    steps=step_fields(plan.steps),
                )
            except AgentError:
                self.work.forget(key)
                raise
            self._executor.start(HOLD, key, lambda: self.work.carry_out(key, plan))

    def stop(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Accept the action `key` of the person `who` that ends the running set-up, and end it on a
        thread of its own. The journal says how it ended. `payload` is not used.
        """
        self._executor.accept(key, body, who, "")
        self._executor.start("", key, lambda: self._do_stop(key))

    def _do_stop(self, key: str) -> None:
        """End the running set-up and journal how."""
        detail = self.work.jobs.end(
            lambda text: self._executor.event(key, "", "started", detail=text)
        )
        self._executor.event(key, "", "done", detail=detail)

    def forget_ended(self) -> None:
        """Delete from the pod the secrets of set-ups that have ended, for example while no agent
        ran.
        """
        if any(self._pod.runs.home.credentials.glob("incoming/*")):
            self.work.forget_ended()

    def resume(self, action: ActionView) -> None:
        """Continue a set-up that was under way when the agent restarted. If its plan cannot be read
        any more, journal that it is interrupted and delete its secrets.
        """
        from bs4_agent.setup.plan import SetupPlan

        try:
            plan = SetupPlan.from_dict(action.body["plan"], 0.0)
        except (KeyError, AgentError) as error:
            self.work.forget(action.key)
            self._executor.unreadable(action.key, "", error)
            return
        self._executor.locks.hold(HOLD, action.key)
        self._executor.start(
            HOLD, action.key, lambda: self.work.carry_out(action.key, plan, action)
        )
