"""Which action holds a run, and when the next one may."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.actions.locks import RunLocks
from bs4_agent.actions.safe_points import SafePoints
from bs4_common.errors import Busy, Cancelled


def action(*, kind: str = "stop", ended: bool = False) -> Any:
    return SimpleNamespace(
        kind=kind, what=kind, who="alice", accepted_t=0.0, ended=ended, run="demo"
    )


@pytest.mark.parametrize("about_to", ["rotate", "end"])
@pytest.mark.parametrize("reserve", ["hold", "succeed"])
def test_an_action_that_is_about_to_let_go_is_waited_for(reserve: str, about_to: str) -> None:
    ledger: Any = SimpleNamespace(actions={"first": action()})
    locks = RunLocks(ledger, SafePoints())
    locks.hold("demo", "first")
    with pytest.raises(Busy):
        getattr(locks, reserve)("demo", "second")
    ledger.actions["first"] = action(
        kind="rotate" if about_to == "rotate" else "stop", ended=about_to == "end"
    )
    asked = threading.Thread(target=getattr(locks, reserve), args=("demo", "second"))
    asked.start()
    asked.join(0.1)
    assert asked.is_alive(), "it waits, and is not refused"
    locks.let_go("demo", "first")
    asked.join(30)
    ledger.actions["second"] = action()
    assert locks.holder("demo") is ledger.actions["second"]


def test_an_action_whose_plan_is_made_again_is_named_until_it_lets_go() -> None:
    """Also when its acceptance has failed, so that no journal knows it."""
    ledger: Any = SimpleNamespace(actions={})
    locks = RunLocks(ledger, SafePoints())
    planned = action(kind="launch")
    planned.key = "planned"
    locks.hold_to_plan("demo", planned)
    for _ in range(2):
        assert locks.holder("demo") is planned
        with pytest.raises(Busy, match="launch by alice"):
            locks.hold("demo", "second")
        locks.accept("demo", "planned")
    locks.let_go("demo", "planned")
    assert locks.holder("demo") is None


def test_a_stop_that_has_given_up_still_ends_the_action_whose_plan_is_made_again() -> None:
    ledger: Any = SimpleNamespace(actions={"stop": action()})
    locks = RunLocks(ledger, SafePoints())
    planned = action(kind="launch")
    planned.key = "planned"
    locks.hold_to_plan("demo", planned)
    locks.succeed("demo", "stop")
    with pytest.raises(Busy, match="stop by alice"):
        locks.accept("demo", "planned")
    locks.cancel("planned", "alice")
    locks.let_go("demo", "stop")
    with pytest.raises(Cancelled):
        locks.accept("demo", "planned")
