"""end_processes: ends the processes of our dead attempts that still hold GPU memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bs4_agent.credentials.forms import shown_command
from bs4_agent.detect.facts import Holder
from bs4_agent.errors import NotApplicable
from bs4_agent.playbooks.steps.leftovers import EndLeftovers
from bs4_agent.playbooks.world import Context, Planned


class EndProcesses(EndLeftovers):
    """Ends the processes of dead attempts that hold GPU memory, together with the rest of their
    attempts: a router that lives on would hold the port.

    Only descent decides whether a process is ours. A holder that cannot be proved ours is named in
    the plan and left alone.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned:
        """Return the planned end of the processes. Raises NotApplicable if no holder is provably
        left from a run of ours.
        """
        holders = context.world.gpu_facts().holders
        dead = sorted(
            {
                h.dead_run
                for h in holders
                if h.run is None and h.dead_run is not None and h.same_user
            }
        )
        others = []
        for h in holders:
            if h.run is None and h.dead_run is None:
                others.append(h)
        if not dead:
            named = "; ".join(_line(h) for h in others) or "no visible process"
            raise NotApplicable(
                f"GPU memory is held by {named}, and none of it is provably left from a run of "
                "ours. Look at it and end it by hand, or release the pod."
            )
        left = []
        for run in dead:
            for member in context.world.leftovers(run):
                left.append((run, member))
        targets = []
        for run, member in left:
            targets.append({**member.identity.as_dict(), "dead_run": run})
        shown = {
            "processes": [
                {
                    "pid": m.identity.pid,
                    "component": m.component,
                    "command": shown_command(m.cmdline, 200),
                }
                for _, m in left
            ],
            "left_alone": [_line(h) for h in others],
        }
        title = f"End the {len(left)} processes that are left of {', '.join(dead)}"
        return Planned(
            "end_processes",
            title,
            "kill -TERM " + " ".join(str(t["pid"]) for t in targets),
            {},
            targets,
            shown,
        )


def _line(holder: Holder) -> str:
    """Return the holder as text: its pid, command, memory and GPU."""
    memory = "unknown memory"
    if holder.mem is not None:
        memory = f"{holder.mem / (1 << 30):.1f} GiB"
    return (
        f"pid {holder.identity.pid} {shown_command(holder.cmdline, 80)} ({memory} on GPU "
        f"{holder.gpu})"
    )
