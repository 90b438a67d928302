"""The fold of a journal, as the console uses it: cut anywhere, unknown things left out, the same
answer from a mirror.
"""

from __future__ import annotations

from typing import Any

import pytest

from bs4_common.ledger import Ledger

B = {"m": 1.0, "b": "boot"}


def records() -> list[dict[str, Any]]:
    plan = {"title": "P", "steps": []}
    made: list[dict[str, Any]] = [
        {"type": "agent", "event": "started", "pid": 7},
        {
            "type": "run",
            "event": "registered",
            "run": "r",
            "trainer": "prime-rl",
            "output_dir": "/o",
            "max_steps": 9,
        },
        {"type": "run", "event": "attempt-started", "run": "r", "attempt": 1},
        {"type": "from-a-newer-agent", "x": 1},
        {
            "type": "incident",
            "event": "opened",
            "incident": "i",
            "failure": "f",
            "run": "r",
            "evidence": [],
            "role": "cascade",
        },
        {
            "type": "incident",
            "event": "opened",
            "incident": "j",
            "failure": "g",
            "run": "r",
            "attempt": 1,
            "role": "root",
        },
        {
            "type": "incident",
            "event": "updated",
            "incident": "i",
            "failure": "f",
            "run": "r",
            "summary": "worse",
        },
        {
            "type": "action",
            "event": "accepted",
            "action": "K1",
            "kind": "plan",
            "run": "r",
            "who": "alice",
        },
        {
            "type": "plan",
            "action": "K1",
            "playbook": "f",
            "run": "r",
            "attempt": 1,
            "plan_hash": "h",
            "expires_m": 5.0,
            "plan": plan,
        },
        {
            "type": "action",
            "event": "done",
            "action": "K1",
            "run": "r",
            "result": {"plan_hash": "h"},
        },
        {
            "type": "action",
            "event": "accepted",
            "action": "K2",
            "kind": "playbook",
            "run": "r",
            "steps": [{"title": "a"}, {"title": "b"}],
        },
        {"type": "action", "event": "intent", "action": "K2", "run": "r", "step": 0},
        {
            "type": "action",
            "event": "step-done",
            "action": "K2",
            "run": "r",
            "step": 0,
            "detail": "gone",
        },
        {"type": "action", "event": "intent", "action": "K2", "run": "r", "step": 1},
        {
            "type": "run",
            "event": "attempt-ended",
            "run": "r",
            "attempt": 1,
            "signal": 2,
            "good": False,
            "detail": "d",
        },
        {"type": "action", "event": "step-failed", "action": "K2", "run": "r", "step": 1},
        {"type": "action", "event": "failed", "action": "K2", "run": "r", "detail": "no step"},
        {"type": "incident", "event": "cleared", "incident": "i", "run": "r", "failure": "f"},
        {
            "type": "incident",
            "event": "resolved",
            "incident": "unknown",
            "run": "r",
            "failure": "f",
        },
        {"type": "mode", "run": "r", "playbook": "f", "mode": "ask", "who": "alice"},
        {"type": "note", "run": "r", "text": "hm", "who": "alice"},
        {"type": "gap", "stream": "telemetry", "reason": "torn"},
    ]
    return [
        {"t": float(number), "seq": number, **B, **record} for number, record in enumerate(made, 1)
    ]


def view(ledger: Ledger) -> dict[str, Any]:
    return {**vars(ledger)}


def test_what_is_so_in_the_end() -> None:
    ledger = Ledger(records())
    run = ledger.runs["r"]
    assert (run.trainer, run.max_steps, run.attempt and run.attempt.signal, len(run.notes)) == (
        "prime-rl",
        9,
        2,
        1,
    )
    assert [i.id for i in ledger.open_incidents("r")] == ["j"]
    assert (ledger.incidents["i"].state, ledger.incidents["i"].summary) == ("cleared", "worse")
    assert ledger.plans["h"].playbook == "f"
    assert (ledger.actions["K1"].state, ledger.actions["K1"].result) == ("done", {"plan_hash": "h"})
    action = ledger.actions["K2"]
    assert ([s.state for s in action.steps], action.state, action.ended, action.detail) == (
        ["done", "failed"],
        "failed",
        True,
        "no step",
    )
    assert (ledger.mode("r", "f"), ledger.mode("r", "g")) == ("ask", "observe")
    assert (ledger.last_seq, len(ledger.gaps)) == (len(records()), 1)


@pytest.mark.parametrize("cut", range(0, 22, 3))
def test_folding_goes_on_where_it_stopped(cut: int) -> None:
    ledger = Ledger(records()[:cut])
    for record in records()[cut:]:
        ledger.apply(record)
    assert view(ledger) == view(Ledger(records()))


def test_a_journal_whose_beginning_has_left_is_folded_from_what_is_there() -> None:
    """64 MB later the oldest segment goes; updates of what it opened still come."""
    for first in range(len(records())):
        ledger = Ledger(records()[first:])
        assert ledger.last_seq == len(records())


def test_roots_come_before_what_follows_from_them() -> None:
    opened = Ledger(records()[:7])
    assert [i.id for i in opened.open_incidents()] == ["j", "i"]
    assert opened.open_incidents("other") == []


def test_the_open_incidents_follow_each_record() -> None:
    """They are sorted once for many questions, so what was answered before must not be answered
    again after a change.
    """
    ledger = Ledger()
    told = []
    for record in (r for r in records() if r["type"] == "incident"):
        ledger.apply({**record, "t": 1.0, **B})
        of_run = [i.id for i in ledger.open_incidents("r")]
        assert of_run == [i.id for i in ledger.open_incidents()]
        told.append(of_run)
        ledger.open_incidents("r").clear()  # the answer is the caller's own
        assert [i.id for i in ledger.open_incidents("r")] == of_run
    assert told[:2] == [["i"], ["j", "i"]]
    assert told[-1] == ["j"]


def test_config_and_max_steps_are_those_of_the_newest_attempt():
    first = {"type": "run", "event": "registered", "run": "r", "config": "a.toml", "max_steps": 9}
    ledger = Ledger([{**first, "t": 1.0, **B}])
    started = {"type": "run", "event": "attempt-started", "run": "r", **B}
    ledger.apply({**started, "t": 2.0, "attempt": 1})
    run = ledger.runs["r"]
    assert (run.config, run.max_steps) == ("a.toml", 9), "as an older agent journals it"
    ledger.apply({**started, "t": 3.0, "attempt": 2, "config": "b.toml", "max_steps": 300})
    assert (run.config, run.max_steps) == ("b.toml", 300)
    ledger.apply({**started, "t": 4.0, "attempt": 3, "config": "c.toml", "max_steps": None})
    assert (run.config, run.max_steps) == ("c.toml", None), "this config sets no end"


class Meanwhile(str):
    """The name of a kind. While it is compared, another thread adds an action."""

    ledger: Ledger

    def __eq__(self, other: object) -> bool:
        key = f"K{len(self.ledger.actions)}"
        accepted = {"type": "action", "event": "accepted", "kind": "note", "run": "r"}
        self.ledger.apply({**accepted, "action": key, "t": 1.0, **B})
        return str(self) == other

    __hash__ = str.__hash__


def test_actions_can_be_looked_for_while_another_thread_adds_one() -> None:
    ledger = Ledger()
    accepted = {"type": "action", "event": "accepted", "kind": "launch", "run": "r"}
    ledger.apply({**accepted, "action": "K0", "t": 1.0, **B})
    kind = ledger.actions["K0"].kind = Meanwhile("launch")
    kind.ledger = ledger
    assert [action.key for action in ledger.actions_of("launch", "r")] == ["K0"]
    assert [action.key for action in ledger.unfinished("launch")] == ["K0"]
