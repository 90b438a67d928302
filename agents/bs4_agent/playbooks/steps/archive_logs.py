"""archive_logs: keeps the attempt's logs before a process starts that could delete them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bs4_agent.playbooks.compiled import StepSettings
from bs4_agent.playbooks.pod_actions import Context, Planned, Stepping, Target


class ArchiveLogs(Stepping):
    """The step that keeps a copy of the run's logs, because the trainer deletes them when it
    starts. See `playbooks.pod_actions.Step` for the methods.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned:
        """Return the planned step. It is planned for every run."""
        return Planned(
            "archive_logs",
            f"Archive the logs of {context.run} (the trainer deletes them when it starts)",
            "",
            {},
            [],
            {},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return False, so that the logs are always archived again: it is idempotent and cheap
        (hard links), and the logs may have grown since.
        """
        return False

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Archive the logs on the pod and return a sentence about the result."""
        return context.pod_actions.archive_logs(context.run)
