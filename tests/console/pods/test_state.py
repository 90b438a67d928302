"""A pod as the console sees it: folded from records, with ages that are the pod's and not the
connection's.
"""

from __future__ import annotations

import types
from typing import Any

import pytest

from bs4_console.pods import state as module
from bs4_console.pods.state import Link, PodState

#: The present moment on both clocks of this machine, in seconds.
WALL, MONO = 1_800_000_000.0, 50_000.0


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes between a record and the look at its age."""
    clock = types.SimpleNamespace(time=lambda: WALL, monotonic=lambda: MONO)
    monkeypatch.setattr(module, "time", clock)


def pod(*records: dict[str, Any]) -> PodState:
    state = PodState(name="pod-a")
    for number, record in enumerate(records):
        state.apply_journal(
            {"t": 100.0 + number, "m": 1.0, "b": "boot", "seq": number + 1, **record}
        )
    return state


STARTED = {"type": "run", "event": "attempt-started", "run": "r", "attempt": 1}
ENDED = {
    "type": "run",
    "event": "attempt-ended",
    "run": "r",
    "attempt": 1,
    "code": 0,
    "good": False,
}
STOP = {
    "type": "action",
    "event": "accepted",
    "action": "K",
    "kind": "stop",
    "run": "r",
    "who": "alice",
}


def step(number: int, side: str = "trainer", **fields: Any) -> dict[str, Any]:
    return {
        "t": WALL,
        "m": 1.0,
        "b": "boot",
        "attempt": 1,
        "side": side,
        "step": number,
    } | fields


@pytest.mark.parametrize(
    ("records", "word"),
    [
        ([{"type": "run", "event": "registered", "run": "r"}], "registered"),
        ([STARTED], "starting"),
        ([STARTED, ENDED], "failed"),
        ([STARTED, {**ENDED, "good": True}], "finished"),
        ([STARTED, STOP, ENDED], "stopped"),
        ([STOP, STARTED, ENDED], "failed"),
        ([STARTED, ENDED, STOP], "failed"),
        ([STARTED, {**STOP, "run": "other"}, ENDED], "failed"),
        ([STARTED, STOP, ENDED, {**STARTED, "attempt": 2}], "starting"),
        ([STARTED, STOP, ENDED, {**STARTED, "attempt": 2}, {**ENDED, "attempt": 2}], "failed"),
    ],
)
def test_the_word_for_a_run(records: list[dict[str, Any]], word: str) -> None:
    assert pod(*records).runs["r"].word == word


def test_a_run_that_was_removed_is_gone_with_its_steps() -> None:
    state = pod(STARTED)
    state.apply_step("r", step(3))
    state.apply_journal({"t": 200.0, "b": "boot", "type": "run", "event": "removed", "run": "r"})
    assert state.runs == {}
    state.apply_step("r", step(4))


def test_the_age_of_a_step_is_the_pods_whenever_it_was_read() -> None:
    state = pod(STARTED)
    state.link.clock_offset = 50.0
    state.apply_step("r", {**step(3), "t": WALL + 50.0 - 600.0})
    seen = state.runs["r"].step_seen
    assert seen is not None
    assert MONO - seen == pytest.approx(600.0)


def test_telemetry_that_was_kept_is_as_old_as_it_says() -> None:
    state = PodState(name="pod-a")
    assert state.age() is None
    assert state.stale
    state.apply_telemetry({"t": WALL - 3600, "runs": []}, kept=True)
    assert state.age() == pytest.approx(3600)
    assert state.stale
    state.apply_telemetry({"t": WALL - 3600, "runs": []})
    assert state.age() == 0
    assert not state.stale


def test_a_half_record_is_taken_in_not_at_all() -> None:
    state = pod(STARTED)
    for bad in (
        {"side": "trainer", "t": 1.0},
        {"side": "trainer", "step": 3},
        {"step": 3, "t": 1.0},
    ):
        with pytest.raises(KeyError):
            state.apply_step("r", bad)
    assert state.runs["r"].step is None
    assert state.runs["r"].series("loss") == []


def test_series_take_the_last_attempt_at_a_step_and_leave_out_what_is_no_number() -> None:
    state = pod(STARTED)
    for number, loss, attempt in ((1, 0.5, 1), (2, "nan", 1), (3, 0.3, 1), (2, 0.4, 2)):
        state.apply_step("r", step(number, loss=loss, time_s=2.0, attempt=attempt))
    state.apply_step("r", step(9, "orchestrator", reward=0.7))
    run = state.runs["r"]
    assert run.series("loss") == [(1, 0.5), (2, 0.4), (3, 0.3)]
    assert run.series("reward") == [(9, 0.7)]
    assert (run.step, run.step_seconds(), run.eta_seconds()) == (2, 2.0, None)
    run.view.max_steps, run.alive = 11, True
    run.view.trainer = "prime-rl"
    assert run.eta_seconds() == 18.0, "steps 3 to 11 are left"
    run.view.trainer = "prime-rl-2026-01"
    assert run.eta_seconds() == 16.0, "January's steps begin with 0, so that 10 is the last one"
    run.view.max_steps = 3
    assert (run.steps_done, run.eta_seconds()) == (3, 0.0)


def test_forgetting_leaves_the_link_and_nothing_else() -> None:
    state = pod(STARTED)
    state.link.set("up")
    state.notes["journal"] = "odd"
    state.apply_telemetry({"t": WALL, "runs": []})
    state.forget()
    assert (state.runs, list(state.telemetry), state.telemetry_seen, state.notes) == (
        {},
        [],
        None,
        {},
    )
    assert state.ledger.last_seq == -1
    assert state.link.up


def test_a_link_knows_since_when_and_when_it_was_last_up() -> None:
    link = Link()
    link.attempts = 3
    link.set("up")
    since = link.since
    link.set("up")
    assert link.since == since
    assert link.attempts == 0
    link.set("unreachable", "gone.", "wait.")
    assert (link.up, link.detail) == (False, "gone.")
    assert link.last_up is not None
    before = link.last_up
    link.set("connecting")
    assert link.last_up == before


def test_the_worst_of_a_pod_an_incident_before_the_link_before_a_failed_run() -> None:
    incident = {
        "type": "incident",
        "event": "opened",
        "incident": "i",
        "failure": "step-desync",
        "title": "Desync",
        "run": "r",
    }
    assert pod(STARTED).worst() == (0, "")
    assert pod(STARTED, ENDED).worst()[0] == 2
    lost = pod(STARTED, ENDED)
    lost.link.set("unreachable", "No answer.")
    assert lost.worst() == (3, "unreachable: No answer.")
    broken = pod(STARTED, {**incident, "severity": "critical"})
    broken.link.set("unreachable")
    assert broken.worst() == (4, "Desync")
    assert pod(STARTED, {**incident, "severity": "warning"}).worst() == (2, "Desync")
