"""What `watch` says of a pod: one sentence for each change, and nothing twice."""

from __future__ import annotations

import dataclasses
import time
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_console.fleet import changes as module
from bs4_console.fleet.changes import Changes, repair
from tests.console.tui import fixtures


@pytest.fixture(autouse=True)
def _fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixtures' pods are of one moment."""
    clocks = SimpleNamespace(time=lambda: fixtures.NOW, monotonic=time.monotonic)
    monkeypatch.setattr(module, "time", clocks)


def said(changes: Changes, pod: Any, *, whole: bool = True) -> list[str]:
    return [change.sentence for change in changes.observe(pod, whole=whole)]


def test_the_first_look_says_how_everything_stands_and_the_next_nothing() -> None:
    pod, changes = fixtures.desync().state, Changes(clock=lambda: fixtures.MONO)
    assert said(changes, pod) == [
        "h100-a: connected.",
        "h100-a/math-7b: the run is running, attempt 2.",
        "h100-a/math-7b: step 41 of 400 was done 9 min ago, reward 0.273, 31.5 s a step.",
        "h100-a/math-7b: critical: Trainer and orchestrator wait for each other at different "
        "steps, for 4 min. The trainer waits for rollouts of step 60, the orchestrator makes "
        "those of step 43. No side can move. Next: `bs4-console playbook run step-desync --pod "
        "h100-a --run math-7b` shows each step of the repair and asks before the first.",
    ]
    assert said(changes, pod) == []


def test_before_all_is_read_only_the_link_is_told() -> None:
    pod, changes = fixtures.desync().state, Changes()
    assert said(changes, pod, whole=False) == ["h100-a: connected."]
    assert said(changes, pod, whole=False) == []
    assert len(said(changes, pod)) == 3


def test_a_repair_is_told_step_by_step_to_its_end() -> None:
    pod, changes = fixtures.planned().state, Changes()
    said(changes, pod)
    fixtures._accepted(pod, 41)
    assert said(changes, pod) == ["h100-a/math-7b: playbook step-desync begun by alice@laptop."]
    title = fixtures.PLAN_STEPS[0]["title"]
    step = f"h100-a/math-7b: playbook step-desync, step 1 of {len(fixtures.PLAN_STEPS)}"
    fixtures._step(pod, 40, 0, "intent")
    assert said(changes, pod) == [f"{step} running: {title}."]
    fixtures._step(pod, 34, 0, "step-done", "all ended")
    assert said(changes, pod) == [f"{step} done: {title}, all ended."]
    for state, detail in (("verifying", "waiting for 2 new steps"), ("done", "now at step 42")):
        fixtures.journal(
            pod,
            "action",
            1,
            action=fixtures.ACTION,
            run="math-7b",
            event=state,
            detail=detail,
        )
        assert said(changes, pod) == [f"h100-a/math-7b: playbook step-desync {state}: {detail}."]
    fixtures.journal(pod, "incident", 0.4, event="resolved", incident=fixtures.DESYNC)
    assert said(changes, pod) == [
        "h100-a/math-7b: mended and verified after 4 min: Trainer and orchestrator wait for each "
        "other at different steps."
    ]


def test_steps_are_told_at_most_once_in_the_time_that_is_asked_for() -> None:
    now = [0.0]
    pod, changes = fixtures.healthy().state, Changes(60.0, lambda: now[0])
    assert "step 187 of 500 " in " ".join(said(changes, pod))
    fixtures.steps(pod, "code-14b", 188, 189, 14.2, last_ago=0.0)
    now[0] = 59.0
    assert said(changes, pod) == []
    now[0] = 60.0
    (line,) = said(changes, pod)
    assert line.startswith("h100-b/code-14b: step 189 of 500 ")
    assert line.endswith(" left.")
    each = Changes(0.0, lambda: now[0])
    said(each, pod)
    fixtures.steps(pod, "code-14b", 190, 190, 14.2, last_ago=0.0)
    assert ["step 190" in line for line in said(each, pod)] == [True]


def test_a_link_that_breaks_says_why_and_what_to_do_once() -> None:
    pod, changes = fixtures.healthy().state, Changes()
    said(changes, pod)
    pod.link.set("unreachable", "h100-b does not answer.", "Check its address.")
    assert said(changes, pod) == ["h100-b: h100-b does not answer. Next: Check its address."]
    pod.link.attempts += 1
    assert said(changes, pod) == []
    pod.link.set("up")
    assert said(changes, pod) == ["h100-b: connected."]


def test_the_end_of_a_run_says_how_to_start_it_again() -> None:
    pod, changes = fixtures.healthy().state, Changes()
    said(changes, pod)
    ended = {"event": "attempt-ended", "run": "code-14b", "attempt": 1}
    fixtures.journal(pod, "run", 1, **ended, code=1, good=False, detail="the trainer ended")
    assert said(changes, pod) == [
        "h100-b/code-14b: the run has failed after step 187: the trainer ended. Next: "
        "`bs4-console launch configs/code-14b.toml --pod h100-b --run code-14b` starts it again; "
        "it shows a plan and asks first."
    ]


def test_what_ended_long_ago_is_no_news() -> None:
    pod = fixtures.long_finished().state
    assert said(Changes(), pod)[1:] == []


def test_what_is_over_at_the_first_look_is_left_out_and_what_goes_on_is_not() -> None:
    """Also an action that waits for its proof goes on."""
    pod = fixtures.recovered().state
    lines = said(Changes(clock=lambda: fixtures.MONO), pod)
    assert [line for line in lines if "playbook" in line or "wait for each" in line] == []
    pod = fixtures.acting().state
    fixtures.journal(
        pod, "action", 1, action=fixtures.ACTION, run="math-7b", event="verifying", detail="waits"
    )
    assert said(Changes(), pod)[-1] == "h100-a/math-7b: playbook step-desync verifying: waits."


def test_a_step_of_an_earlier_attempt_is_no_step_of_this_one() -> None:
    pod, changes = fixtures.healthy().state, Changes(0.0)
    said(changes, pod)
    ended = {"event": "attempt-ended", "run": "code-14b", "attempt": 1}
    fixtures.journal(pod, "run", 1, **ended, code=0, good=False)
    said(changes, pod)
    fixtures.start_run(pod, "code-14b", "prime-rl", 500, 0, attempt=2)
    fixtures.steps(pod, "code-14b", 188, 188, 14.2, last_ago=0.0)  # its last line came late
    assert [line for line in said(changes, pod) if "step 188" in line] == []
    fixtures.steps(pod, "code-14b", 180, 180, 14.2, last_ago=0.0, attempt=2)
    assert "step 180 of 500 " in said(changes, pod)[-1]


def test_an_incident_that_nobody_repairs_says_what_a_person_does() -> None:
    pod = fixtures.healthy().state
    known = {"event": "opened", "incident": "i", "failure": "disk-full", "run": "code-14b"}
    fixtures.journal(pod, "incident", 1, **known, title="The disk\n12:00:00 is full", attempt=1)
    (line,) = [text for text in said(Changes(), pod) if "critical" in text]
    assert "critical: The disk 12:00:00 is full. Next: " in line
    assert line.endswith("`bs4-console playbook show disk-full` says more.")
    found = dataclasses.replace(pod.ledger.incidents["i"], failure="../x; rm -rf ~")
    assert repair(found, "h100-b") == "bs4-console playbook show '../x; rm -rf ~'"
    assert module._to_do(pod, found) == f"`{repair(found, 'h100-b')}` says more."


def test_a_pod_that_is_only_looked_at_is_offered_no_repair() -> None:
    pod = fixtures.desync().state
    pod.read_only = True
    assert (
        "playbook plan step-desync --pod h100-a --run math-7b` shows the repair and changes"
        in (said(Changes(), pod)[-1])
    )


def test_checkpoints_are_told_when_they_change() -> None:
    pod, changes = fixtures.healthy().state, Changes()
    (change,) = changes.checkpoints(pod, "code-14b", (40, [20, 40]), "checkpoints: 40")
    assert (change.kind, change.sentence) == ("checkpoint", "h100-b/code-14b: checkpoints: 40.")
    assert changes.checkpoints(pod, "code-14b", (40, [20, 40]), "an older age") == []
    assert len(changes.checkpoints(pod, "code-14b", (60, [40, 60]), "checkpoints: 60")) == 1
