"""The common part of the steps that end the leftovers of a dead run. Each process is ended by its
identity, and only while it still is a leftover.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bs4_agent.errors import PlanChanged
from bs4_agent.identity import Identity
from bs4_agent.playbooks.world import Context, Planned


class EndLeftovers:
    """Base class of steps that end leftover processes. The `targets` of the plan are process
    identities, each with its `dead_run`.
    """

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if none of the planned processes is alive."""
        return not any(Identity.from_dict(dict(t)).alive() for t in planned.targets)

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return the planned processes that are still alive. Raises PlanChanged if one of them is
        no leftover of its dead run any more.
        """
        alive = []
        for t in planned.targets:
            if Identity.from_dict(dict(t)).alive():
                alive.append(t)
        left = set()
        for run in {t["dead_run"] for t in alive}:
            for member in context.world.leftovers(run):
                left.add(member.identity)
        for target in alive:
            if Identity.from_dict(dict(target)) not in left:
                raise PlanChanged(
                    f"pid {target['pid']} is no leftover of {target['dead_run']} any more; "
                    "make a new plan."
                )
        return alive

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        """End the processes and return a sentence about the result."""
        return context.world.end([Identity.from_dict(dict(t)) for t in targets], say)
