"""The checklist of each hundred steps: what is known of it, and when `check` asks for it."""

from __future__ import annotations

import time
from typing import Any

from bs4_console.checks import checklist, milestones
from bs4_console.checks.verdict import OK, WARNING, judge
from bs4_console.pods.state import PodState

GIB = 1 << 30


def pod(step: int, *, gain: float = 0.1, entropy: float = 0.1) -> PodState:
    """A pod whose run `demo` has done `step` steps; its reward rises by `gain` in 100 steps."""
    state = PodState(name="pod-a")
    record(state, type="run", event="attempt-started", attempt=1, max_steps=1000)
    for number in range(1, step + 1):
        row: dict[str, Any] = {"t": time.time(), "attempt": 1, "step": number}
        numbers = {"entropy": entropy, "mismatch_kl": 0.02, "grad_norm": 0.4}
        state.apply_step("demo", {**row, "side": "trainer", **numbers})
        reward = 0.1 + gain * number / 100
        state.apply_step("demo", {**row, "side": "orchestrator", "reward": reward})
    device = {"index": 0, "util": 90, "mem_used": 70 * GIB, "mem_total": 80 * GIB, "error": None}
    state.apply_telemetry(
        {
            "t": time.time(),
            "gpus": {"state": "ok", "devices": [device]},
            "host": {"disks": [{"path": "/data", "used": 60, "total": 100}]},
            "runs": [],
            "coverage": {},
        }
    )
    return state


def record(state: PodState, **fields: Any) -> None:
    state.apply_journal({"t": 1.0, "b": "boot", "run": "demo", **fields})


def listed(state: PodState, whole: list[int] | None) -> dict[str, checklist.Item]:
    run = state.runs["demo"]
    found = checklist.items(state, run, milestones.reached(run.step, 100), 100, whole)
    return {item.name: item for item in found}


def test_check_asks_at_each_hundred_steps_until_the_list_was_gone_through() -> None:
    state = pod(205)
    assert judge(state).level == OK, "nobody has ordered it"
    record(state, type="note", text="from now on", who="a", checklist_every=100, checklist_step=100)
    verdict = judge(state)
    assert verdict.level == WARNING
    assert "demo has reached step 200" in verdict.sentences[0]
    assert "runs checklist demo --pod pod-a" in verdict.sentences[0]
    record(state, type="note", text="all is well", who="a", checklist_step=200)
    assert judge(state).level == OK
    state.apply_step("demo", {"t": time.time(), "attempt": 1, "step": 300, "side": "trainer"})
    assert milestones.due(state.runs["demo"]) == 300
    record(state, type="note", text="no more", who="a", checklist_every=0)
    assert judge(state).level == OK


def test_a_run_that_is_well_leaves_what_only_a_person_sees() -> None:
    state = pod(205)
    record(state, type="sync", event="ordered", to="b2://b/x", every=1, who="a")
    done = {"bytes": 1, "sent": 1, "rate": 1.0, "seconds": 1.0, "set_t": 1.0}
    record(state, type="sync", event="step-done", step=200, **done)
    found = listed(state, [150, 200])
    states = {name: item.state for name, item in found.items()}
    assert states == {
        "reward": "ok",
        "entropy": "ok",
        "KL": "ok",
        "gradient norm": "ok",
        "GPU memory": "ok",
        "disk": "ok",
        "checkpoint": "ok",
        "sync": "ok",
        "benchmark": "by hand",
        "samples": "by hand",
    }
    assert found["reward"].text == "0.295, +0.100 in 100 steps"
    assert "88 %" in found["GPU memory"].text


def test_what_went_wrong_wants_a_look() -> None:
    found = listed(pod(205, gain=0.0, entropy=0.01), [50])
    wanting = checklist.wanting(list(found.values()))
    assert wanting == ["reward", "entropy", "checkpoint", "sync"]
    assert "healthy: 0.05 to 0.15" in found["entropy"].text


def test_what_nobody_measured_is_unknown_and_not_well() -> None:
    state = PodState(name="pod-a")
    record(state, type="run", event="attempt-started", attempt=1)
    found = listed(state, None)
    unknown = [name for name, item in found.items() if item.state == "unknown"]
    assert unknown == [
        "reward",
        "entropy",
        "KL",
        "gradient norm",
        "GPU memory",
        "disk",
        "checkpoint",
    ]
