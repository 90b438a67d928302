"""Carries out a set-up with the step runner of playbooks, and checks every step once more at the
end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from bs4_agent.playbooks.runner import Recorder, StepRunner
from bs4_agent.setup.place import Place, SetupContext
from bs4_agent.setup.plan import SetupPlan
from bs4_agent.setup.steps import STEPS


class SetupRunner(StepRunner):
    """Carries out the plan of one set-up. `key` is the action's key; `rest` is a context in which a
    newer agent may take over.
    """

    def __init__(
        self,
        place: Place,
        record: Recorder,
        key: str,
        plan: SetupPlan,
        rest: Callable[[], AbstractContextManager[None]] = nullcontext,
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
        lacking = []
        for planned in self._steps:
            if not STEPS[planned.kind].done(self._context, planned):
                lacking.append(planned.title)
        if lacking:
            detail = (
                f"not as it was left a moment ago: {', '.join(lacking)}. Something else changes "
                "this pod; repeat when it has ended."
            )
            self._event("failed", sync=True, detail=detail, result={"ready": False})
        else:
            self._event("done", sync=True, detail="the pod is set up", result={"ready": True})
        return not lacking
