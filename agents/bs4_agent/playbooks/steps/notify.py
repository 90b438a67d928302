"""notify: leave a word in the journal for whoever looks at the run next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bs4_agent.playbooks.world import Context, Planned


class Notify:
    """The note carries the action's key, so that it is written once whatever dies in between."""

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned:
        return Planned(
            "notify", f"Note: {parameters['text']}", "", {"text": parameters["text"]}, [], {}
        )

    def done(self, context: Context, planned: Planned) -> bool:
        return context.world.noted(context.run, planned.parameters["text"], context.action)

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        return []

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        context.world.note(context.run, planned.parameters["text"], context.action)
        return "noted"
