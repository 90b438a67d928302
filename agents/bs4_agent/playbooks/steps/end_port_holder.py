"""end_port_holder: ends the rest of a dead run of ours that holds a port that the run needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bs4_agent.credentials.forms import shown_command
from bs4_agent.errors import NotApplicable
from bs4_agent.playbooks.steps.leftovers import EndLeftovers
from bs4_agent.playbooks.world import Context, Planned


class EndPortHolder(EndLeftovers):
    """Ends the processes of dead runs that hold a port of this run, together with the rest of their
    dead attempts.

    Only descent decides whether a process is ours. A listener of somebody else is named and left
    alone; then another port must be chosen, or its owner must end it.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned | None:
        """Return the planned end of the processes, or None if no port is held by another run.
        Raises NotApplicable if a holder is not provably left from a run of ours.
        """
        holders = []
        for h in context.world.port_holders(context.run):
            if h.run != context.run:
                holders.append(h)
        if not holders:
            return None
        others = []
        for h in holders:
            if h.dead_run is None or not h.same_user:
                others.append(h)
        if others:
            raise NotApplicable(
                f"A port of {context.run} is held by {'; '.join(h.line() for h in others)}, which "
                "is not provably left of a run of ours. End it by hand if it is yours, or choose "
                "another port in the config."
            )
        dead = sorted({h.dead_run for h in holders if h.dead_run is not None})
        left = []
        for run in dead:
            for member in context.world.leftovers(run):
                left.append((run, member))
        targets = []
        for run, member in left:
            targets.append({**member.identity.as_dict(), "dead_run": run})
        ports = sorted({h.port for h in holders})
        shown = {
            "processes": [
                {
                    "pid": m.identity.pid,
                    "component": m.component,
                    "command": shown_command(m.cmdline, 200),
                }
                for _, m in left
            ],
            "ports": ports,
        }
        title = (
            f"End the {len(left)} processes that are left of {', '.join(dead)} and hold port "
            f"{', '.join(map(str, ports))}"
        )
        return Planned(
            "end_port_holder",
            title,
            "kill -TERM " + " ".join(str(t["pid"]) for t in targets),
            {},
            targets,
            shown,
        )
