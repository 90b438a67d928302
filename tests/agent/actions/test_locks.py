"""Which action holds a run, and when the next one may."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.actions.locks import RunLocks
from bs4_agent.actions.safe_points import SafePoints
from bs4_common.errors import Busy


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
