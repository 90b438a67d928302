"""Sets how many files a run may open: a standing order that every launch on this pod follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bs4_agent.playbooks.world import Planned, Stepping
from bs4_agent.runs.files import read_json, write_json
from bs4_agent.setup.place import Say, SetupContext


class Limits(Stepping):
    """Orders a limit of open files for all later launches."""

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return the planned step with the limit that launches have now."""
        wanted, hard = context.recipe.nofile, context.place.hard_nofile()
        now = "no order; the login's own limit"
        if _ordered(context):
            now = f"launches start with at least {_ordered(context)} open files"
        if hard < wanted:
            now += f"; the hard limit is {hard}, and launches get no more"
        return [
            Planned(
                "limits",
                f"Let launches open {wanted} files",
                f"ulimit -n {min(wanted, hard)}, before each launch",
                {"nofile": wanted},
                [],
                {"now": now, "done": _ordered(context) >= wanted},
            )
        ]

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if a limit at least as high is ordered already."""
        return _ordered(context) >= int(planned.parameters["nofile"])

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Say,
    ) -> str:
        """Write the order and return a sentence about it."""
        path = context.place.home.limits
        write_json(path, {**(read_json(path) or {}), "nofile": int(planned.parameters["nofile"])})
        return "ordered for every later launch"


def _ordered(context: SetupContext) -> int:
    """Return the number of open files that is ordered for launches, 0 if there is no order."""
    return int((read_json(context.place.home.limits) or {}).get("nofile", 0))
