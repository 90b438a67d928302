"""stop_run: ends the run by the rules of its trainer generation, then ends what is left of it by
descent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bs4_agent.credentials.forms import shown_command
from bs4_agent.errors import PlanChanged
from bs4_agent.playbooks.world import Context, Planned


class StopRun:
    """Stops a run. A person confirms "this attempt of this run, and every process that descends
    from it". The workers that live at the moment are shown but not hashed: prime-rl restarts env
    workers by itself, and that must not make a plan invalid.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned:
        """Return the planned stop with the processes that live now."""
        facts = context.facts()
        members = [m for m in facts.members if m.alive]
        if members:
            title = f"Stop {context.run}: {len(members)} processes of attempt {facts.attempt}"
        else:
            title = f"{context.run} is already stopped"
        processes = [
            {
                "pid": m.identity.pid,
                "component": m.component,
                "command": shown_command(m.cmdline, 200),
            }
            for m in members
        ]
        shown = {"processes": processes}
        command = ""
        if members:
            command = context.world.stop_command(context.run)
        return Planned(
            "stop_run",
            title,
            command,
            {"attempt": facts.attempt, "limit": 4 * len(members) + 16},
            [],
            shown,
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if no process of the run is alive."""
        return not any(m.alive for m in context.facts().members)

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return the living processes. Raises PlanChanged if the run is in another attempt, or has
        far more processes than were shown.
        """
        facts = context.facts()
        if facts.attempt != planned.parameters["attempt"]:
            raise PlanChanged(
                f"{context.run} is in attempt {facts.attempt} by now, not "
                f"{planned.parameters['attempt']}; make a new plan."
            )
        alive = [m for m in facts.members if m.alive]
        if len(alive) > planned.parameters["limit"]:
            raise PlanChanged(
                f"{context.run} has {len(alive)} processes by now, far more than were shown; "
                "make a new plan."
            )
        found = []
        for m in alive:
            found.append({**m.identity.as_dict(), "component": m.component})
        return found

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        """Stop the run and return a sentence about the result."""
        return context.world.stop(context.run, say)
