"""notify: writes a note into the journal for the person who looks at the run next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bs4_agent.playbooks.pod_actions import Context, Planned, Stepping, Target
from bs4_common.failures.compiled import StepSettings


class Notify(Stepping):
    """The step of a playbook that writes a note about the run into the journal. The note has the
    action's key, so that it is written only once even if the agent dies in between. See
    `playbooks.pod_actions.Step` for the methods.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned:
        """Return the planned step. The text of the note is `parameters["text"]`."""
        return Planned(
            "notify", f"Note: {parameters['text']}", "", {"text": parameters["text"]}, [], {}
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if this action has already written its note, the text of the step `planned`,
        into the journal (the agent's log of actions and incidents).
        """
        return context.pod_actions.noted(context.run, planned.parameters["text"], context.action)

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Write the note of the step `planned` into the journal, and return the word "noted".
        `targets` is not used, and `say` is not called.
        """
        context.pod_actions.note(context.run, planned.parameters["text"], context.action)
        return "noted"
