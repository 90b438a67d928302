"""Writes the environment variables of every launch in one checkout into a file that launches read
and a shell can source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.playbooks.world import Planned, Stepping
from bs4_agent.setup.credentials import write_private
from bs4_agent.setup.place import Say, SetupContext


class Variables(Stepping):
    """Writes the recipe's environment variables to the checkout's file."""

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return the planned step with the state of the file now."""
        path = context.place.home.variables(context.recipe.directory)
        text = "".join(
            f"{name}={value}\n" for name, value in sorted(context.recipe.variables.items())
        )
        now = "is not there"
        if path.exists():
            now = "says just that" if _is(path, text) else "says otherwise"
        shown = context.place.shown(path)
        return [
            Planned(
                "variables",
                f"Set the environment of launches in "
                f"{context.place.shown(context.recipe.directory)}",
                f"{' '.join(text.split()) or 'nothing'} in {shown}",
                {"text": text},
                [{"file": str(path)}],
                {"now": f"{shown} {now}", "done": _is(path, text)},
            )
        ]

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if the file has exactly the planned text."""
        return _is(
            context.place.home.variables(context.recipe.directory), planned.parameters["text"]
        )

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Say,
    ) -> str:
        """Write the file, readable by its owner only, and return "written"."""
        write_private(
            context.place.home.variables(context.recipe.directory), planned.parameters["text"]
        )
        return "written"


def _is(path: Path, text: str) -> bool:
    """Return True if the file exists and has exactly this text."""
    return path.is_file() and path.read_text() == text
