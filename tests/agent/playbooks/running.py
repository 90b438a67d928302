"""The steps of a playbook's plan without an executor, for tests that bring their own pod."""

from __future__ import annotations

from typing import Any

from bs4_agent.actions.safe_points import SafePoints, Turn
from bs4_agent.actions.steps import Recorder, StepRunner
from bs4_agent.playbooks.action import Recovery
from bs4_agent.playbooks.plan import Plan
from bs4_common.failures.compiled import Library
from bs4_common.ledger import Ledger


def runner(pod_actions: Any, record: Recorder, key: str, plan: Plan) -> StepRunner[Plan]:
    """Return what carries the plan out."""
    kind = Recovery(pod_actions, Library(b'{"playbooks": []}'), Ledger())

    def end(key: str, event: str, **fields: Any) -> None:
        record("action", action=key, run=plan.run, event=event, **fields)

    return StepRunner(record, end, kind, key, plan.run, plan, Turn(SafePoints()))
