"""Which life of the pod an attempt was of, and the last word of an agent that is told to leave."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path

import pytest

from bs4_agent.checkpoints import intent
from bs4_agent.lifecycle import earlier_boots
from bs4_agent.paths import Home
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.checkpoints import sets
from bs4_common.identity import Identity
from bs4_common.ledger import Ledger
from bs4_common.runs.model import Attempt, End
from tests.agent.checkpoints import trees
from tests.agent.runs.practice import ListJournal


@pytest.fixture
def first() -> Identity:
    """This process stands for the pod's first one."""
    found = Identity.of(os.getpid())
    assert found is not None
    return found


def lost(shim: Identity | None, ended_t: float, code: int | None = None) -> Attempt:
    return Attempt(
        number=1,
        state="lost",
        shim=shim,
        launcher=shim,
        started_t=0.0,
        started_m=0.0,
        resume=None,
        argv=(),
        end=End(code, None, ended_t, False, ""),
    )


def earlier(first: Identity, ticks: int = 500) -> Identity:
    return dataclasses.replace(first, pid=1, start_ticks=first.start_ticks - ticks)


def test_a_container_that_was_started_again_is_seen_although_the_boot_id_is_the_same(
    tmp_path: Path, first: Identity
) -> None:
    attempt = lost(earlier(first), time.time())
    assert earlier_boots.ended_with_the_pod(tmp_path, attempt, first)
    far_future = dataclasses.replace(attempt, end=dataclasses.replace(attempt.end, t=0.0))  # type: ignore[type-var]
    assert earlier_boots.ended_with_the_pod(tmp_path, far_future, first), (
        "once known it stays known, through another restart"
    )


def test_another_boot_is_another_life(tmp_path: Path, first: Identity) -> None:
    before = dataclasses.replace(first, boot_id="another", start_ticks=first.start_ticks + 10_000)
    assert earlier_boots.ended_with_the_pod(tmp_path, lost(before, time.time()), first)


@pytest.mark.parametrize(
    "what", ["of this life", "seen to be over before", "with an exit code", "unknown"]
)
def test_what_did_not_end_with_the_pod(tmp_path: Path, first: Identity, what: str) -> None:
    later = dataclasses.replace(first, start_ticks=first.start_ticks + 5)
    attempt = {
        "of this life": lost(later, time.time()),
        "seen to be over before": lost(earlier(first), earlier_boots.began_t(first) - 60),
        "with an exit code": lost(earlier(first), time.time(), code=1),
        "unknown": lost(None, time.time()),
    }[what]
    assert not earlier_boots.ended_with_the_pod(tmp_path, attempt, first)
    assert list(tmp_path.iterdir()) == []


def test_a_launcher_that_heard_the_same_term_ended_with_the_pod_too(
    tmp_path: Path, first: Identity
) -> None:
    attempt = lost(earlier(first), 1000.0, code=1)
    assert not earlier_boots.ended_with_the_pod(tmp_path, attempt, first, {"t": 700.0}), (
        "it went on for five minutes after the agent had left"
    )
    assert not earlier_boots.ended_with_the_pod(tmp_path, attempt, first, {"t": 1100.0})
    for unknown in ({}, {"t": None}):
        assert not earlier_boots.ended_with_the_pod(tmp_path, attempt, first, unknown)
    assert earlier_boots.ended_with_the_pod(tmp_path, attempt, first, {"t": 998.0})


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """`demo` lives, and steps 10 and 20 are complete; of 30 the orchestrator's part is missing."""
    home = Home(tmp_path / "home")
    home.create()
    spec = trees.old_run(tmp_path)
    for step in (10, 20):
        trees.old_step(spec, step)
    trees.old_trainer(spec, 30)
    scope = Scope.from_environment()
    made = Runs(home, scope, ListJournal(tmp_path / "journal.ndjson"), ProcessTable(scope))
    made.register(spec).attempts = [
        Attempt(
            number=3,
            state="running",
            shim=None,
            launcher=None,
            started_t=0.0,
            started_m=0.0,
            resume=None,
            argv=(),
        )
    ]
    return made


def test_the_last_word_says_where_each_living_run_stood_within_a_second(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The limit of the look is what keeps it within a second; a busy machine may take longer.
    assert intent.LOOK_S < 1.0
    monkeypatch.setattr(intent, "LOOK_S", 60.0)
    ledger = Ledger([{"type": "sync", "run": "demo", "event": "pointed", "step": 10, "t": 1.0}])
    told: list[dict[str, object]] = []
    intent.write(
        runs.home,
        runs,
        ledger,
        lambda type_, /, *, sync=False, **fields: told.append({"type": type_, **fields}) or fields,
        "SIGTERM",
    )
    entry = {"run": "demo", "attempt": 3, "local_step": 20, "local_known": True, "remote_step": 10}
    assert [one["runs"] for one in told] == [[entry]]
    kept = intent.intent_of(runs.home, "demo", 3)
    assert kept is not None
    assert {**entry, "signal": "SIGTERM"}.items() <= kept.items()
    assert intent.intent_of(runs.home, "demo", 4) is None, "of another attempt nothing was said"
    assert oct((runs.home.root / intent.NAME).stat().st_mode & 0o777) == "0o600"


def test_a_disk_that_does_not_answer_keeps_nobody_from_leaving(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    asleep = threading.Event()

    def slow(*_: object) -> list[object]:
        asleep.wait(30)
        return []

    monkeypatch.setattr(sets, "step_sets", slow)
    began = time.monotonic()
    (entry,) = intent.write(
        runs.home, runs, Ledger(), lambda type_, /, *, sync=False, **fields: fields, "SIGTERM"
    )
    asleep.set()
    assert time.monotonic() - began < 20, "it did not wait for the 30 s"
    assert (entry["local_step"], entry["local_known"]) == (None, False)
    assert json.loads((runs.home.root / intent.NAME).read_text())["runs"] == [entry]
