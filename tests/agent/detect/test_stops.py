"""A finished run that was stopped: what follows from the stop is no failure, and an attempt that
was stopped by order is history.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bs4_common.failures import offline
from tests.agent.detect.compiled import engine, playbook

SERVER_GONE = "12:00:0{}   ERROR something broke\n"
STEP = (
    "12:00:00 SUCCESS Step 4 |  310ms | Loss 0.0004 | Entropy 0.4305 | Mismatch KL 0.0026 | "
    "Grad. Norm 0.1187 | LR 3.00e-06\n"
)
SIGNALLED = "12:00:05 WARNING Received SIGTERM, terminating all processes...\n"
CHILD_FAILED = (
    "12:00:05   ERROR Error: Trainer failed with exit code 1\n12:00:05   ERROR Terminating all "
    "processes...\n"
)
INTERRUPTED = "12:00:05 WARNING Orchestrator interrupted after 3m 2s — forcing cleanup (x)\n"


def told(tmp_path: Path, *attempts: dict[str, str], launcher: str = "") -> list[tuple[str, int]]:
    """The findings over a run directory of the current generation, with the logs of these
    attempts.
    """
    entry: dict[str, Any] = playbook(
        "x", {"pattern": "something broke", "source": ["trainer", "orchestrator"]}
    )
    run = tmp_path / "demo"
    for number, logs in enumerate(attempts, 1):
        directory = run / "logs" / f"attempt_{number}"
        directory.mkdir(parents=True)
        for name, text in logs.items():
            (directory / f"{name}.log").write_text(text)
    extra = []
    if launcher:
        (run / "launcher.log").write_text(launcher)
        extra.append(offline.Loose("launcher", "launcher.log", run / "launcher.log"))
    watch = engine(entry)
    facts = offline.directory_facts(run, "prime-rl", watch, extra)
    return [
        (t.finding.failure, t.finding.attempt)
        for t in watch.evaluate(offline.as_facts([facts], watch), complete=True)
    ]


@pytest.mark.parametrize(("second", "findings"), [(4, [("x", 1)]), (5, []), (7, [])])
def test_what_is_said_after_a_stop_follows_from_it(tmp_path, second, findings):
    log = STEP + SERVER_GONE.format(second)
    assert told(tmp_path, {"trainer": log}, launcher=SIGNALLED) == findings


UNDATED = SIGNALLED.replace("12:00:05", "99:99:99")


def test_a_stop_without_a_time_explains_nothing(tmp_path):
    """It was taken as one of 1970, so that every failure came after it."""
    log = STEP + SERVER_GONE.format(4)
    assert told(tmp_path, {"trainer": log}, launcher=UNDATED) == [("x", 1)]


@pytest.mark.parametrize(("second", "findings"), [(4, [("x", 1)]), (7, [])])
def test_a_stop_without_a_time_began_before_the_orchestrators_end(tmp_path, second, findings):
    logs = {"trainer": STEP + SERVER_GONE.format(second), "orchestrator": INTERRUPTED}
    assert told(tmp_path, logs, launcher=UNDATED) == findings


def test_of_two_signals_the_one_with_a_time_counts(tmp_path):
    log = STEP + SERVER_GONE.format(4)
    assert told(tmp_path, {"trainer": log}, launcher=UNDATED + SIGNALLED) == [("x", 1)]


def test_a_line_without_a_time_does_not_begin_the_attempt(tmp_path):
    directory = tmp_path / "demo" / "logs" / "attempt_1"
    directory.mkdir(parents=True)
    (directory / "trainer.log").write_text(STEP)
    begun = offline.directory_facts(tmp_path / "demo", "prime-rl", engine()).started_m
    (tmp_path / "launcher.log").write_text(UNDATED)
    extra = [offline.Loose("launcher", "launcher.log", tmp_path / "launcher.log")]
    facts = offline.directory_facts(tmp_path / "demo", "prime-rl", engine(), extra)
    assert facts.started_m == begun > 1e8


def test_the_launchers_ending_the_others_is_no_order(tmp_path):
    assert told(tmp_path, {"trainer": STEP + SERVER_GONE.format(7)}, launcher=CHILD_FAILED) == [
        ("x", 1)
    ]


@pytest.mark.parametrize(("second", "findings"), [(4, [("x", 1)]), (7, [])])
def test_the_orchestrators_own_interruption_tells_the_time(tmp_path, second, findings):
    assert (
        told(tmp_path, {"orchestrator": INTERRUPTED, "trainer": STEP + SERVER_GONE.format(second)})
        == findings
    )


def test_an_earlier_attempt_that_failed_is_still_told(tmp_path):
    failed = {"orchestrator": INTERRUPTED, "trainer": STEP + SERVER_GONE.format(3)}
    assert told(tmp_path, failed, {"trainer": STEP}) == [("x", 1)]


def test_an_earlier_attempt_that_was_stopped_by_order_is_history(tmp_path):
    """Its launcher's log lies with its others only where somebody put it there."""
    trainer = {"trainer": STEP + SERVER_GONE.format(3)}
    watch = engine(playbook("x", {"pattern": "something broke", "source": "trainer"}))
    for number in (1, 2):
        directory = tmp_path / "demo" / "logs" / f"attempt_{number}"
        directory.mkdir(parents=True)
        (directory / "trainer.log").write_text(trainer["trainer"])
    facts = offline.directory_facts(tmp_path / "demo", "prime-rl", watch)
    assert {
        t.finding.attempt for t in watch.evaluate(offline.as_facts([facts], watch), complete=True)
    } == {1, 2}
    again = engine(playbook("x", {"pattern": "something broke", "source": "trainer"}))
    facts = offline.directory_facts(tmp_path / "demo", "prime-rl", again)
    stopped = offline.replace(facts, stops={1: offline.Stop(0.0, ordered=True)})
    assert {
        t.finding.attempt for t in again.evaluate(offline.as_facts([stopped], again), complete=True)
    } == {2}
