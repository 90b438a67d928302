"""restore_set: fetches the newest complete step from the run's store if no step is complete on the
pod any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bs4_agent.playbooks.pod_actions import Context, Planned, Target, living, picked
from bs4_common.errors import NotApplicable, PlanChanged
from bs4_common.failures.compiled import StepSettings
from bs4_common.failures.detectors.reporting import size


class RestoreSet:
    """The step of a playbook that restores a checkpoint from the object store to which the run's
    checkpoints are copied. A person confirms the hash of the checkpoint's manifest, which is the
    list of its files with their sizes and hashes. Nothing is restored for a run that has a complete
    checkpoint on its own disk.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned | None:
        """Return the planned restore of the newest checkpoint in the run's object store, or None if
        the pod has a complete checkpoint of the run. `parameters` is not used. Raises NotApplicable
        if no object store of the run is known or it has no complete checkpoint, and StepFailed if
        it does not answer.
        """
        if any(c.complete for c in context.facts().checkpoints):
            return None
        remote = context.pod_actions.remote_step(context.run)
        if remote is None:
            raise NotApplicable(
                f"No step of {context.run} is complete here, and no store is known that has one. "
                "Restore it by hand with `bs4-console checkpoints restore`, or start afresh with "
                "the playbook start-afresh."
            )
        place = remote["asked"]["from"]
        return Planned(
            "restore_set",
            f"Restore step {remote['step']} from {place}: {size(remote['missing'])} to fetch",
            f"fetch {place}; " + "; ".join(f"mv <staging> {path}" for path in remote["finals"]),
            picked(remote, "step", "identity", "asked", "aside"),
            [],
            picked(remote, "bytes", "missing", "finals", "skipped"),
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if the checkpoint of the step `planned` is complete on the pod."""
        return context.pod_actions.restored(context.run, planned.parameters)

    def check(self, context: Context, planned: Planned) -> Sequence[Target]:
        """Called right before the step `planned` is carried out: check that the checkpoint may
        still be restored as planned. Return an empty list, because a restore has no targets
        (processes or files that exist and on which a step acts). Raises PlanChanged if the run is
        running again.
        """
        if living(context.facts()):
            raise PlanChanged(
                f"{context.run} is running again already; nothing was restored. Make a new "
                "plan if it still fails."
            )
        return []

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Restore the checkpoint of the step `planned` and return a sentence about the result.
        `targets` is empty, and `say` is called with progress messages. Raises an AgentError if that
        fails, for example because the disk has too little space.
        """
        return context.pod_actions.restore(context.run, planned.parameters, context.action, say)
