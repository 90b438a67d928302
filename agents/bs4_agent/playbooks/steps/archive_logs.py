"""archive_logs: keeps the attempt's logs before a process starts that could delete them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bs4_agent.playbooks.pod_actions import Context, Planned, Stepping, Target
from bs4_common.failures.compiled import StepSettings


class ArchiveLogs(Stepping):
    """The step of a playbook that keeps a copy of the run's logs, because the trainer deletes them
    when it starts. See `playbooks.pod_actions.Step` for the methods.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned:
        """Return the planned step, which archives the logs of the run of `context`. Every run gets
        this step. `parameters` is not used.
        """
        return Planned(
            "archive_logs",
            f"Archive the logs of {context.run} (the trainer deletes them when it starts)",
            "",
            {},
            [],
            {},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return False always, so that the logs are archived again: they may have grown since the
        last time. Archiving is cheap, because hard links are made, and it does no harm to repeat
        it.
        """
        return False

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Archive the logs on the pod and return a sentence about the result. `planned` is the step
        and `targets` what `check` has returned; neither is needed, and `say` is not called.
        """
        return context.pod_actions.archive_logs(context.run)
