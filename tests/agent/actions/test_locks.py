"""Which action holds a run, and when the next one may."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.actions.locks import RunLocks
from bs4_agent.actions.safe_points import SafePoints
from bs4_common.errors import Busy


def action(*, ended: bool) -> Any:
    return SimpleNamespace(
        kind="stop", what="stop", who="alice", accepted_t=0.0, ended=ended, run="demo"
    )


@pytest.mark.parametrize("reserve", ["hold", "succeed"])
def test_an_action_whose_end_is_in_the_journal_is_waited_for(reserve: str) -> None:
    ledger: Any = SimpleNamespace(actions={"first": action(ended=False)})
    locks = RunLocks(ledger, SafePoints())
    locks.hold("demo", "first")
    with pytest.raises(Busy):
        getattr(locks, reserve)("demo", "second")
    ledger.actions["first"].ended = True
    asked = threading.Thread(target=getattr(locks, reserve), args=("demo", "second"))
    asked.start()
    asked.join(0.1)
    assert asked.is_alive(), "it waits, and is not refused"
    locks.let_go("demo", "first")
    asked.join(30)
    ledger.actions["second"] = action(ended=False)
    assert locks.holder("demo") is ledger.actions["second"]
