"""Whoever waits for a run hears of each incident that opens on it, once."""

from __future__ import annotations

from typing import Any

from bs4_console.launch import guide, run_incidents, stopping
from bs4_console.pods.state import ActionView, PodState
from tests.console.tui import fixtures

STOP = "`bs4-console stop --pod h100-a --run math-7b` is accepted now"


def launching() -> tuple[PodState, ActionView]:
    """math-7b, whose launch was accepted 60 s ago, and an incident of before that."""
    pod = fixtures.connected("h100-a", "root@192.0.2.41:22")
    fixtures.start_run(pod, "math-7b", "prime-rl", 400, 100)
    opened(pod, "old", 70)
    fixtures.journal(
        pod,
        "action",
        60,
        action="K1",
        kind="launch",
        who="alice",
        run="math-7b",
        event="accepted",
        body={},
    )
    return pod, pod.ledger.actions["K1"]


def opened(pod: PodState, incident: str, ago: float, **fields: Any) -> None:
    known = {
        "failure": f"{incident}-failure",
        "title": f"{incident} title",
        "run": "math-7b",
        "attempt": 1,
        "severity": "critical",
    }
    fixtures.journal(pod, "incident", ago, event="opened", incident=incident, **{**known, **fields})
    pod.changed()


def test_each_incident_since_the_action_was_accepted_is_told_once() -> None:
    pod, action = launching()
    opened(pod, "first", 50)
    told: list[str] = []
    with run_incidents.reported(pod, action, lambda incident: told.append(incident.id)):
        assert told == ["first"]
        opened(pod, "second", 40)
        opened(pod, "elsewhere", 30, run="another")
        pod.changed()
    assert told == ["first", "second"]
    opened(pod, "later", 10)
    assert told == ["first", "second"]
    assert pod.listeners == []


def test_an_action_of_no_run_has_no_incidents() -> None:
    pod, _ = launching()
    fixtures.journal(
        pod, "action", 60, action="K2", kind="setup", who="alice", run="", event="accepted", body={}
    )
    told: list[str] = []
    with run_incidents.reported(
        pod, pod.ledger.actions["K2"], lambda incident: told.append(incident.id)
    ):
        opened(pod, "first", 50)
    assert told == []


def test_what_a_person_reads_of_an_incident() -> None:
    pod, _ = launching()
    opened(pod, "first", 50, playbook="step-desync")
    opened(pod, "second", 40, severity="warning")
    first, second = pod.ledger.incidents["first"], pod.ledger.incidents["second"]
    lines = run_incidents.sentences(first, "h100-a")
    assert lines[0] == "critical on math-7b: first title (first-failure)."
    assert "`bs4-console playbook plan step-desync --pod h100-a --run math-7b`" in lines[1]
    assert STOP in lines[2]
    assert not [
        line for line in run_incidents.sentences(first, "h100-a", stoppable=False) if "stop" in line
    ]
    lines = run_incidents.sentences(second, "h100-a")
    assert "`bs4-console playbook show second-failure`" in lines[1]
    assert len(lines) == 2


def test_what_a_stop_would_end_first_and_what_is_said_of_it_then() -> None:
    pod, action = launching()
    assert stopping.ended_first(pod, "math-7b") == [action]
    fixtures.journal(
        pod, "action", 5, action="K1", run="math-7b", event="cancel", who="bob", stop="K2"
    )
    assert (action.cancelled_by, action.ended) == ("bob", False)
    fixtures.journal(
        pod,
        "action",
        4,
        action="K1",
        run="math-7b",
        event="interrupted",
        detail="cancelled by bob's stop",
        result={"error": "cancelled"},
    )
    assert stopping.ended_first(pod, "math-7b") == []
    assert (
        guide.verdict(action, pod)[0]
        == "The start of math-7b was ended early: cancelled by bob's stop."
    )
