"""What a run's log remembers for the detectors: the numbers of steps, and since when a heartbeat
has said the same.
"""

from __future__ import annotations

import sys
from typing import Any

from bs4_common.failures.facts import LogEvent
from bs4_common.runs.history import KEPT, History
from bs4_common.runs.runlog import RunLog
from bs4_common.trainers.base import Event


def beat(m: float, have: int) -> LogEvent:
    return LogEvent(
        event=Event("heartbeat", "orchestrator", {"have": have}),
        m=m,
        text=f"Train batch {have}",
        source="orchestrator",
    )


def test_an_hour_of_equal_heartbeats_keeps_its_first_and_its_last() -> None:
    """Forty are kept of a kind: with one every ten seconds the first equal one would be forgotten
    after seven minutes.
    """
    log = RunLog(run="demo", attempt=1)
    log.add(beat(0.0, 5))
    for n in range(360):
        log.add(beat(10.0 + 10 * n, 6))
    assert [(e.m, e.event.values["have"]) for e in log.events] == [(0.0, 5), (10.0, 6), (3600.0, 6)]


def test_heartbeats_that_move_are_all_kept() -> None:
    log = RunLog(run="demo", attempt=1)
    for n in range(10):
        log.add(beat(10.0 * n, n // 2))
    assert len(log.events) == 10


def record(step: int, **values: Any) -> dict[str, Any]:
    return {
        "side": "trainer",
        "step": step,
        "attempt": 1,
        "at": {"stream": "log/demo/trainer", "cursor": "1:0"},
        **values,
    }


def test_the_runs_log_hands_its_records_to_the_history() -> None:
    log = RunLog(run="demo", attempt=1)
    log.record(record(1, loss=0.1))
    log.record(record(1, loss=0.12))
    log.record(record(2, loss="nan"))
    assert [(r["step"], r["loss"]) for r in log.copy().history.records()] == [(1, 0.12), (2, "nan")]


def test_records_are_made_once_a_step() -> None:
    history = History()
    history.add(record(1), 1.0)
    first = history.copy().records()
    assert history.copy().records() is first
    history.add(record(2), 2.0)
    assert history.copy().records() is not first


def test_a_full_history_is_small() -> None:
    history = History()
    for step in range(KEPT):
        history.add(
            record(
                step,
                **dict.fromkeys(
                    ("loss", "entropy", "mismatch_kl", "grad_norm", "time_s", "throughput"),
                    float(step),
                ),
            ),
            1.0,
        )
    rows = history._sides["trainer"].values()
    assert sum(sys.getsizeof(row) for row in rows) < 100_000
