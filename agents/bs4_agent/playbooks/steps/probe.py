"""probe: checks that a component of the run works before anything depends on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bs4_agent.errors import StepFailed
from bs4_agent.playbooks.steps.wait_until import seconds
from bs4_agent.playbooks.world import Context, Planned

_LOOK_S = 0.5


class Probe:
    """Probes a component. `server` means /health of the run's inference server. The probe is always
    made anew, because an earlier answer says nothing about now.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned:
        """Return the planned probe."""
        hashed = {"what": parameters["what"], "within": seconds(parameters.get("within", "60s"))}
        return Planned(
            "probe",
            f"Ask the inference server of {context.run} whether it is well",
            "",
            hashed,
            [],
            {},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return False, so that the probe is always made."""
        return False

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return no targets."""
        return []

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        """Poll the server until it answers, and return "it answers". Raises StepFailed if it does
        not answer within the planned number of seconds.
        """
        deadline = time.monotonic() + planned.parameters["within"]
        while not context.world.server_answers(context.run):
            if time.monotonic() > deadline:
                raise StepFailed(
                    f"The inference server of {context.run} does not answer; read its log."
                )
            context.pause(_LOOK_S)
        return "it answers"
