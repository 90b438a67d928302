"""Making a bare pod ready: a plan, its confirmation with the secrets it needs, and its work, which
outlives the agent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bs4_agent.actions.desk import Desk
from bs4_agent.errors import AgentError, BadRequest
from bs4_agent.ledger import ActionView
from bs4_agent.pod import Pod
from bs4_agent.setup_log import open_setup_log
from bs4_agent.streams.logs import LogStream

if TYPE_CHECKING:
    from bs4_agent.setup.work import SetUps

#: What a set-up holds while it works; no run can be called so.
HOLD = "the set-up of this pod"


class SetUpActions:
    """`log`: gives the stream of what set-ups run; the daemon gives the one that consoles can
    read.
    """

    def __init__(self, desk: Desk, pod: Pod) -> None:
        self._desk, self._pod = desk, pod
        self.log: Callable[[], LogStream] = lambda: open_setup_log(pod.runs.home)

    @functools.cached_property
    def work(self) -> SetUps:
        """Made when somebody sets the pod up; until then nothing of it is imported."""
        from bs4_agent.setup.work import SetUps

        runs, pod = self._pod.runs, self._pod
        return SetUps(
            runs.home,
            self.log(),
            self._desk.book,
            self._desk.ledger,
            pod.boot_id,
            pod.hard_nofile,
            list(runs.agent_restart or ()),
            self._desk.boundaries.rest,
        )

    def plan(self, key: str, body: Mapping[str, Any], who: str) -> None:
        from bs4_agent.setup import plan, recipe

        if not isinstance(body["setup"], Mapping):
            raise BadRequest("`setup` of a plan is a table; send it so.")
        wanted = recipe.read(body["setup"])
        self._desk.accept(key, body, who, "", playbook=plan.NAME)
        self._desk.start("", key, lambda: self.work.plan(key, wanted))

    def accept(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """`payload`: the secrets; everything else is journalled."""
        with self._desk.holding(HOLD, key):
            try:
                plan = self.work.confirmed(key, body, payload)
                steps = []
                for s in plan.steps:
                    steps.append({"title": s.title, "command": s.command})
                self._desk.accept(
                    key, {**body, "plan": plan.as_dict()}, who, "", plan_hash=plan.hash, steps=steps
                )
            except AgentError:
                self.work.forget(key)
                raise
            self._desk.start(HOLD, key, lambda: self.work.carry_out(key, plan))

    def stop(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        self._desk.accept(key, body, who, "")
        self._desk.start("", key, lambda: self._do_stop(key))

    def _do_stop(self, key: str) -> None:
        detail = self.work.jobs.end(lambda text: self._desk.event(key, "", "started", detail=text))
        self._desk.event(key, "", "done", detail=detail)

    def forget_ended(self) -> None:
        """Secrets that waited for a set-up which has ended meanwhile are removed."""
        if any(self._pod.runs.home.credentials.glob("incoming/*")):
            self.work.forget_ended()

    def resume(self, action: ActionView) -> None:
        from bs4_agent.setup.plan import SetupPlan

        try:
            plan = SetupPlan.from_dict(action.body["plan"], 0.0)
        except (KeyError, AgentError) as error:
            self.work.forget(action.key)
            self._desk.unreadable(action.key, "", error)
            return
        self._desk.hold(HOLD, action.key)
        self._desk.start(HOLD, action.key, lambda: self.work.carry_out(action.key, plan, action))
