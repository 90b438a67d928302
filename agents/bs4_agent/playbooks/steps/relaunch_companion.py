"""relaunch_companion: starts again the inference server that was started apart from the run and has
ended.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bs4_agent.credentials.forms import shown_command
from bs4_agent.errors import NotApplicable, PlanChanged
from bs4_agent.playbooks.world import Context, Planned


class RelaunchCompanion:
    """Starts the run's inference server again. To the agent, the server is a run of its own. It is
    started first and with the same command as before, because the run that uses it waits for it.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned | None:
        """Return the planned launch, or None if the run has no such server or it is alive. Raises
        NotApplicable if the agent has never seen the server.
        """
        server = context.world.companion(context.run)
        facts = context.facts()
        if server is None and not facts.ever("inference"):
            raise NotApplicable(
                f"{context.run} used an inference server that was started apart and that the "
                "agent has never seen, so it cannot start it again. Start it by hand; the run "
                "goes on, or can be resumed then."
            )
        if server is None or server.alive("inference"):
            return None
        command = shlex.join(context.world.command(server.spec))
        hashed = {
            "run": server.name,
            "attempt": server.attempt,
            "command": command,
            "cwd": str(server.spec.cwd),
        }
        left = [m for m in server.members if m.alive]
        shown = {
            "processes": [
                {
                    "pid": m.identity.pid,
                    "component": m.component,
                    "command": shown_command(m.cmdline, 200),
                }
                for m in left
            ]
        }
        title = f"Start the inference server {server.name} again" + (
            f", after ending the {len(left)} left of it" if left else ""
        )
        return Planned("relaunch_companion", title, command, hashed, [], shown)

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if this action has started the server already."""
        return context.world.launched(planned.parameters["run"], context.action) is not None

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return no targets. Raises PlanChanged if the server is alive again or has another
        attempt.
        """
        server = context.world.companion(context.run)
        if (
            server is None
            or server.attempt != planned.parameters["attempt"]
            or server.alive("inference")
        ):
            raise PlanChanged(
                f"{planned.parameters['run']} is not as it was when the plan was made; make "
                "a new plan."
            )
        return []

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        """Start the server, after ending what is left of it, and return a sentence with its
        attempt.
        """
        name = planned.parameters["run"]
        if any(m.alive for m in context.world.run_facts(name).members):
            # an orphaned router or engine holds the port and the memory
            context.world.stop(name, say)
        spec = context.world.run_facts(name).spec
        attempt = context.world.launch(spec, context.action)
        return f"{spec.run} attempt {attempt} is starting"
