"""archive_logs: keep the attempt's logs before anything starts that could delete them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bs4_agent.playbooks.world import Context, Planned


class ArchiveLogs:
    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned:
        return Planned(
            "archive_logs",
            f"Archive the logs of {context.run} (the trainer deletes them when it starts)",
            "",
            {},
            [],
            {},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Archiving is idempotent and cheap (hard links), and the logs may have grown since: always
        done again.
        """
        return False

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        return []

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        return context.world.archive_logs(context.run)
