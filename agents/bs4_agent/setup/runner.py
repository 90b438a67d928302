"""Carries a set-up out with the runner of playbooks: done? intent, act; and at the end every step
is looked at once more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from bs4_agent.playbooks.runner import Recorder, StepRunner
from bs4_agent.setup.place import Place, SetupContext
from bs4_agent.setup.plan import SetupPlan
from bs4_agent.setup.steps import STEPS


class SetupRunner(StepRunner):
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
