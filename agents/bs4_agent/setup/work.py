"""Set-ups as actions: makes the plan, takes the confirmation with its secrets, does the work, and
goes on after the agent was killed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from bs4_agent.jobs import Jobs
from bs4_agent.ledger import ActionView, Ledger
from bs4_agent.paths import Home
from bs4_agent.playbooks.runner import Recorder, StepRunner
from bs4_agent.setup import credentials
from bs4_agent.setup.place import Place, SetupContext
from bs4_agent.setup.plan import SetupPlan, make
from bs4_agent.setup.recipe import Recipe
from bs4_agent.setup.steps import STEPS
from bs4_agent.streams.logs import LogStream


class SetupRunner(StepRunner):
    """Carries out the plan of one set-up. `record` appends to the journal. `key` is the action's
    key. `rest` is a safe point: a context in which a newer agent may take over.
    """

    def __init__(
        self,
        place: Place,
        record: Recorder,
        key: str,
        plan: SetupPlan,
        rest: Callable[[], AbstractContextManager[None]],
    ) -> None:
        super().__init__(
            record,
            key,
            plan.run,
            plan.steps,
            rest,
            kinds=STEPS,
            context=SetupContext(place, plan.recipe, key),
        )

    def _verify(self) -> bool:
        """Journal the end of the action and return True if every step is still done. A step that is
        no longer done means that something else changes the pod.
        """
        detail = "the pod is set up"
        lacking = []
        for step in self._steps:
            if not STEPS[step.kind].done(self._context, step):
                lacking.append(step.title)
        if lacking:
            detail = (
                f"not as it was left a moment ago: {', '.join(lacking)}. Something else changes "
                "this pod; repeat when it has ended."
            )
        return self._end(detail, {"ready": not lacking}, reached=not lacking)


class SetUps:
    """Plans and carries out the set-up actions; one object per pod. `actions.Actions` accepts these
    actions and runs them on threads.

    `log` is the stream to which the commands of a set-up print, `record` appends to the journal,
    `ledger` has what the journal says, `hard_nofile` returns the highest number of open files that
    a process may request, `restart` is the command with which a shim restarts the agent, and `rest`
    is a safe point: a context in which a newer agent may take over.
    """

    def __init__(
        self,
        home: Home,
        log: LogStream,
        record: Recorder,
        ledger: Ledger,
        hard_nofile: Callable[[], int],
        restart: list[str],
        rest: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._home, self._record, self._ledger, self._rest = home, record, ledger, rest
        self.jobs = Jobs(home, log, restart, rest)
        self._place = Place(home, Path.home(), self.jobs, hard_nofile)

    def make(self, key: str, recipe: Recipe) -> SetupPlan:
        """Return the plan of what a set-up by `recipe` would do now; nothing is changed. `key` is
        the key of the action that asks. Raises NotApplicable if files of a person's own work are in
        the way or a file cannot be read.
        """
        return make(self._place, recipe, key)

    def keep(self, key: str, plan: SetupPlan, payload: bytes) -> None:
        """Store the secrets in `payload` on the pod for the action `key`, which carries out `plan`.
        Raises Busy if a command of another set-up still runs, and BadRequest if the secrets are not
        those that the plan needs.
        """
        values = credentials.parse(payload, plan.recipe.secrets)
        self.jobs.refuse_strangers(key)
        credentials.Incoming(self._home, key).keep(values)

    def carry_out(self, key: str, plan: SetupPlan, before: ActionView | None = None) -> None:
        """Carry out the plan to its end and then delete its secrets; how each step ended is written
        to the journal. `before` is the state that an earlier agent left of this action, or None for
        a new one.
        """
        try:
            SetupRunner(self._place, self._record, key, plan, self._rest).run(before)
        finally:
            self.forget(key)

    def forget(self, key: str) -> None:
        """Delete the secrets that were stored on the pod for the action `key`, because this action
        will not go on.
        """
        credentials.Incoming(self._home, key).forget()

    def forget_ended(self) -> None:
        """Delete the stored secrets of all actions that have ended or that the journal does not
        know. Such actions ended while no agent was running, or were never accepted.
        """
        credentials.forget_all_but(
            self._home, {action.key for action in self._ledger.actions.values() if not action.ended}
        )
