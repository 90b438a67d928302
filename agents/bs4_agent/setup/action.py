"""The set-up of a pod as a kind of action: its plan, its secrets and its verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bs4_agent.actions.kind import Outcome, PlannedKind, Underway
from bs4_agent.actions.submission import Submission
from bs4_agent.jobs import Jobs
from bs4_agent.paths import Home
from bs4_agent.setup import credentials
from bs4_agent.setup.place import Place, SetupContext
from bs4_agent.setup.plan import NAME, SetupPlan, make
from bs4_agent.setup.recipe import read
from bs4_agent.setup.steps import STEPS

#: The name of what a set-up holds while it works. No run can have this name.
HOLD = "the set-up of this pod"


class SetUp(PlannedKind[SetupPlan]):
    """The kind of action that sets a pod up (checkouts, packages, secrets); see `actions.kind.Kind`
    for the methods. A set-up belongs to no run. `jobs` runs its commands, and the function
    `hard_nofile` returns the highest number of open files that a process may request.
    """

    name, planner, steps = NAME, "pods setup --plan", STEPS

    def __init__(self, home: Home, jobs: Jobs, hard_nofile: Callable[[], int]) -> None:
        self._home, self._jobs = home, jobs
        self._place = Place(home, Path.home(), jobs, hard_nofile)

    def hold(self, run: str) -> str:
        """Return a fixed name that every set-up of this pod reserves while it works, so that only
        one set-up works at a time. `run` is not used.
        """
        return HOLD

    def asked(self, asked: Submission) -> tuple[str, Callable[[str], SetupPlan]]:
        """Return two things: "" (a set-up belongs to no run), and a function that takes the key of
        an action and makes the plan for it, by the recipe in `asked.body["setup"]`. Raises
        BadRequest if the recipe is malformed.
        """
        recipe = read(asked.table(NAME))
        return "", lambda key: make(self._place, recipe, key)

    def read(self, data: Mapping[str, Any]) -> SetupPlan:
        """Return the plan in `data`, a dictionary that its `as_dict` has made. Raises Refused if a
        value in it was replaced by a marker such as "[redacted]" because it was a secret.
        """
        return SetupPlan.from_dict(data, 0.0)

    def again(self, key: str, confirmed: SetupPlan) -> SetupPlan:
        """Make the plan `confirmed` again, from its recipe and the present state of the pod, and
        return the new plan. `key` is the action's key. Raises NotApplicable if files of a person's
        own work are in the way or a file cannot be read.
        """
        return make(self._place, confirmed.recipe, key)

    def keep(self, key: str, plan: SetupPlan, payload: bytes) -> None:
        """Store the secrets in `payload` on the pod for the action `key`. Raises Busy if a command
        of another set-up still runs, and BadRequest if the secrets are not those that the plan
        needs.
        """
        values = credentials.parse(payload, plan.recipe.secrets)
        self._jobs.refuse_strangers(key)
        credentials.Incoming(self._home, key).keep(values)

    def forget(self, key: str) -> None:
        """Delete the secrets that were stored on the pod for the action `key`."""
        credentials.Incoming(self._home, key).forget()

    def context(self, action: Underway[SetupPlan]) -> SetupContext:
        """Return the SetupContext (the recipe, the pod and the action) with which the steps of a
        set-up work.
        """
        return SetupContext(self._place, action.plan.recipe, action.key)

    def verify(self, action: Underway[SetupPlan], context: SetupContext) -> Outcome:
        """Check all steps again and return the outcome. The pod is ready if every step is still
        done. If one is not, something else has changed the pod in the meantime.
        """
        lacking = []
        for step in action.plan.steps:
            if not STEPS[step.kind].done(context, step):
                lacking.append(step.title)
        detail = "the pod is set up"
        if lacking:
            detail = (
                f"not as it was left a moment ago: {', '.join(lacking)}. Something else changes "
                "this pod; repeat when it has ended."
            )
        return Outcome(not lacking, detail, {"ready": not lacking})
