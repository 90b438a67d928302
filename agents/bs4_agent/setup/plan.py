"""The plan of a set-up: every step, including steps that are done already, and the hash that a
person confirms.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bs4_agent.playbooks.plan import LIFETIME_S
from bs4_agent.playbooks.pod_actions import Planned, hashed_steps, steps_as_dicts, steps_from_dicts
from bs4_agent.setup.place import Place, SetupContext
from bs4_agent.setup.recipe import CREDENTIALS, Recipe, read
from bs4_agent.setup.steps import STEPS
from bs4_common.errors import NotApplicable
from bs4_common.failures.compiled import digest
from bs4_common.withheld import refuse_lost

#: Stands in the place of a playbook's id, so no playbook may have this name.
NAME = "setup"


@dataclass(frozen=True)
class SetupPlan:
    """The plan of a set-up: the steps with everything that they will do on the pod. It belongs to
    no run, so `run` is "". It may be confirmed until `expires_m`, in seconds of the monotonic
    clock.
    """

    recipe: Recipe
    steps: Sequence[Planned]
    expires_m: float
    run: str = ""

    @property
    def hash(self) -> str:
        """Return the hash, in hexadecimal digits, of what the plan would do. It covers the recipe
        (what to install on the pod), and the kind, parameters and targets of every step.
        """
        return digest({"setup": self.recipe.as_dict(), "steps": hashed_steps(self.steps)})

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as a dictionary of JSON values, in the form in which the journal has it
        and a console shows it.
        """
        return {
            "playbook": NAME,
            "title": self._title(),
            "danger": "none",
            "typed_name": False,
            "run": "",
            "attempt": 0,
            "recipe": self.recipe.as_dict(),
            "steps": steps_as_dicts(self.steps),
            "verify": {},
        }

    def _title(self) -> str:
        """Return what the set-up is for, in words."""
        if self.recipe.trainer == CREDENTIALS:
            return "Store credentials on the pod"
        return f"Set the pod up for {self.recipe.trainer}"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], expires_m: float) -> SetupPlan:
        """Return the plan in `data`, a dictionary that `as_dict` has made. `expires_m` is given
        separately, because the dictionary does not contain it. Raises Refused if a value in it was
        replaced by a marker such as "[redacted]" because it was a secret.
        """
        refuse_lost([data["recipe"], [row["parameters"] for row in data["steps"]]])
        return cls(read(data["recipe"]), steps_from_dicts(data["steps"]), expires_m)


def make(place: Place, recipe: Recipe, action: str) -> SetupPlan:
    """Return a plan that brings the pod from its present state to the one that `recipe` describes.
    Nothing is changed on the pod. `action` is the action's key. Raises NotApplicable if files of a
    person's own work are in the way or a file cannot be read.
    """
    context = SetupContext(place, recipe, action)
    kinds = list(STEPS)
    if recipe.trainer == CREDENTIALS:
        kinds = ["credential"]
    steps: list[Planned] = []
    try:
        for kind in kinds:
            steps += STEPS[kind].plan(context)
    except OSError as error:
        raise NotApplicable(
            f"{error.filename or 'A file'} of the pod cannot be read: {error.strerror}; put "
            "that right, then repeat."
        ) from error
    return SetupPlan(recipe, steps, time.monotonic() + LIFETIME_S)
