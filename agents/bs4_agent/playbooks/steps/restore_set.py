"""restore_set: when no step is complete here any more, bring the newest whole one back from the
run's store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bs4_agent.errors import NotApplicable, PlanChanged
from bs4_agent.playbooks.world import Context, Planned


class RestoreSet:
    """What is confirmed is the step by the hash of its manifest, which names every file with its
    size and hash. A run whose own disk has a complete step has no use for this step.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned | None:
        if any(c.complete for c in context.facts().checkpoints):
            return None
        remote = context.world.remote_step(context.run)
        if remote is None:
            raise NotApplicable(
                f"No step of {context.run} is complete here, and no store is known that has one. "
                "Restore it by hand with `bs4-console checkpoints restore`, or start afresh with "
                "the playbook start-afresh."
            )
        hashed = {}
        for name in ("step", "identity", "asked", "aside"):
            hashed[name] = remote[name]
        title = (
            f"Restore step {remote['step']} from {remote['asked']['from']}: "
            f"{remote['missing'] / 1e9:.2f} GB to fetch"
        )
        command = f"fetch {remote['asked']['from']}; " + "; ".join(
            f"mv <staging> {path}" for path in remote["finals"]
        )
        shown = {}
        for name in ("bytes", "missing", "finals", "skipped"):
            shown[name] = remote[name]
        return Planned("restore_set", title, command, hashed, [], shown)

    def done(self, context: Context, planned: Planned) -> bool:
        return context.world.restored(context.run, planned.parameters)

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        facts = context.facts()
        if any(m.alive for m in facts.members):
            raise PlanChanged(
                f"{context.run} is running again already; nothing was restored. Make a new "
                "plan if it still fails."
            )
        return []

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        return context.world.restore(context.run, planned.parameters, context.action, say)
