"""stop_run: ends the run by the rules of its trainer generation, then ends what is left of it by
descent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bs4_agent.playbooks import words
from bs4_agent.playbooks.pod_actions import Context, Planned, living, shown_processes
from bs4_common.errors import PlanChanged


class StopRun:
    """The step of a playbook that stops a run. A person confirms "this attempt of this run, and
    every process that descends from it". The plan shows the processes that are alive, but its hash
    does not cover them: prime-rl restarts some of its worker processes by itself, and that must not
    make the plan invalid.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned:
        """Return the planned stop, with the processes of the run that are alive now. `parameters`
        is not used.
        """
        facts = context.facts()
        members = living(facts)
        title, command = f"{context.run} is already stopped", ""
        if members:
            of_it = words.processes(len(members))
            title = f"Stop {context.run}: {of_it} of attempt {facts.attempt}"
            command = context.pod_actions.stop_command(context.run)
        return Planned(
            "stop_run",
            title,
            command,
            {"attempt": facts.attempt, "limit": 4 * len(members) + 16},
            [],
            {"processes": shown_processes(members)},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if no process of the run is alive. `planned` is the step."""
        return not living(context.facts())

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return the processes of the run that are alive, as the targets of the step `planned`.
        Raises PlanChanged if the run is in another attempt than in the plan, or has far more
        processes than the plan showed.
        """
        facts = context.facts()
        if facts.attempt != planned.parameters["attempt"]:
            raise PlanChanged(
                f"{context.run} is in attempt {facts.attempt} by now, not "
                f"{planned.parameters['attempt']}; make a new plan."
            )
        alive = living(facts)
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
        """Stop the run and return a sentence about the result. `planned` is the step, `targets` is
        not used, and `say` is called with progress messages. Raises StepFailed if a process
        remains, or GPU memory that it held.
        """
        return context.pod_actions.stop(context.run, say)
