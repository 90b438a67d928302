"""set_limit: lets the run's next attempts start with a higher limit of open files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bs4_agent.errors import NotApplicable
from bs4_agent.playbooks.world import Context, Planned, Stepping

#: With fewer open files, a run with several environment workers fails soon anyway.
_ENOUGH = 4096


class SetLimit(Stepping):
    """Orders a limit of open files. The order is kept with the run and carried out at every start,
    so that it also holds after the agent itself was replaced. The limit is at most the hard limit,
    which a tenant cannot raise; if that is reached already, there is no step.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned | None:
        """Return the planned limit, or None if the run has it already. Raises NotApplicable if the
        hard limit is too low.
        """
        soft, hard = context.world.nofile(context.run), context.world.hard_nofile()
        wanted = min(int(parameters["nofile"]), hard)
        if wanted < _ENOUGH:
            raise NotApplicable(
                f"The pod's hard limit of open files is {hard}, and only its provider can raise "
                "it (`--ulimit nofile` of the container). Choose another pod, or run fewer "
                "environment workers."
            )
        if soft >= wanted:
            return None
        return Planned(
            "set_limit",
            f"Start {context.run} with {wanted} open files allowed",
            f"ulimit -n {wanted}",
            {"nofile": wanted},
            [],
            {},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if the run's next attempt would start with the limit."""
        return context.world.nofile(context.run) >= int(planned.parameters["nofile"])

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        """Write the order and return a sentence about it."""
        context.world.set_nofile(context.run, planned.parameters["nofile"])
        return f"{context.run} starts with {planned.parameters['nofile']} open files from now on"
