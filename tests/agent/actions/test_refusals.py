"""The sentences with which an agent refuses: each says what is wrong and what to do next."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.actions.locks import _busy
from bs4_agent.actions.submission import Submission
from bs4_common.clock import boot_id
from bs4_common.errors import BadRequest, Refused
from bs4_common.ledger import ActionView, PlanView

ACCEPTED = 1_700_000_000.0


def plan(**changed: Any) -> PlanView:
    known = {
        "action": "k1",
        "playbook": "step-desync",
        "run": "demo",
        "attempt": 1,
        "plan_hash": "a" * 64,
        "expires_m": time.monotonic() + 60,
        "expires_t": 0.0,
        "boot": boot_id(),
        "t": 0.0,
        "plan": {},
        "refused": "",
    }
    return PlanView(**{**known, **changed})


def executor(*plans: PlanView) -> ActionExecutor:
    """Return what these methods look at of an executor: the plans that its journal has."""
    ledger = SimpleNamespace(plans={view.plan_hash: view for view in plans})
    return cast(ActionExecutor, SimpleNamespace(ledger=ledger))


def action(kind: str) -> ActionView:
    return ActionView(
        key="k1",
        kind=kind,
        who="anna@laptop",
        run="demo",
        state="running",
        accepted_t=ACCEPTED,
        updated_t=ACCEPTED,
    )


def kept(plan_hash: str, *plans: PlanView, kind: str = "step-desync", **more: str) -> PlanView:
    return ActionExecutor.kept_plan(
        executor(*plans),
        Submission("", {"plan_hash": plan_hash, **more}, "anna"),
        kind,
        "playbook plan",
    )


@pytest.mark.parametrize("body", [{}, {"launch": None}, {"launch": []}, {"launch": "now"}])
def test_a_request_without_its_table_is_a_bad_request(body: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="`launch` of a plan is a table; send it so"):
        Submission("k1", body, "anna").table("launch")
    assert Submission("k1", {"launch": {}}, "anna").table("launch") == {}


def test_a_plan_that_nobody_made_is_refused_with_the_command_that_makes_one() -> None:
    with pytest.raises(Refused) as refused:
        kept("0123456789abcdef0123")
    assert str(refused.value) == (
        "No plan has the hash '0123456789abcdef'; make one with `playbook plan` and confirm that."
    )


def test_a_plan_that_was_refused_cannot_be_confirmed() -> None:
    view = plan(refused="no step is complete")
    with pytest.raises(Refused):
        kept(view.plan_hash, view)


def test_a_plan_that_is_kept_is_given() -> None:
    view = plan()
    assert kept(view.plan_hash, view) is view
    assert kept(view.plan_hash, view, run="demo") is view


def test_a_plan_of_another_kind_or_run_is_refused() -> None:
    view = plan()
    with pytest.raises(Refused, match="That plan is of step-desync, not of launch; make one"):
        kept(view.plan_hash, view, kind="launch")
    with pytest.raises(Refused, match="That plan is for demo, not for other; make one"):
        kept(view.plan_hash, view, run="other")


def test_a_busy_run_says_who_does_what_and_that_a_stop_is_taken() -> None:
    since = time.strftime("%H:%M:%S", time.localtime(ACCEPTED))
    assert _busy("demo", action("launch")) == (
        f"demo is busy: launch by anna@laptop since {since}. Wait for it to end, or end it with "
        "the run: `bs4-console stop` is accepted meanwhile."
    )


@pytest.mark.parametrize(("held", "kind"), [("demo", "stop"), ("setup", "setup")])
def test_what_a_stop_cannot_end_is_only_waited_for(held: str, kind: str) -> None:
    assert _busy(held, action(kind)).endswith(". Wait for it to end.")
