"""relaunch_companion: start the inference server again that was started apart from the run and is
gone.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bs4_agent.credentials.forms import shown_command
from bs4_agent.errors import NotApplicable, PlanChanged
from bs4_agent.playbooks.world import Context, Planned


class RelaunchCompanion:
    """The server is a run of its own to the agent. It is started with the very command that it had,
    first of all: the run that uses it waits for it.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned | None:
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
        return context.world.launched(planned.parameters["run"], context.action) is not None

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
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
        name = planned.parameters["run"]
        if any(m.alive for m in context.world.run_facts(name).members):
            # an orphaned router or engine holds the port and the memory
            context.world.stop(name, say)
        spec = context.world.run_facts(name).spec
        attempt = context.world.launch(spec, context.action)
        return f"{spec.run} attempt {attempt} is starting"
