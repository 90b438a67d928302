"""Silence: found within three of the run's own steps, and not where something explains it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bs4_common.failures.detectors.stall import LOW_S, run_stalled
from bs4_common.failures.engine import Engine
from bs4_common.failures.facts import (
    Facts,
    Finding,
    GpuFacts,
    Holder,
    LogEvent,
    RunFacts,
    ServerProbe,
    Side,
    StepFiles,
)
from bs4_common.trainers.base import Event
from tests.agent.facts import NOW, WALL, facts, healthy, identity
from tests.playbooks.library import library


def said(
    kind: str, side: str, ago: float, step: int | None = None, text: str = "", **values: Any
) -> LogEvent:
    return LogEvent(
        event=Event(kind, side, values, step),
        m=NOW - ago,
        text=text or f"{kind} {step}",
        source=side,
    )


def paced(
    pace: float,
    quiet: float,
    *events: LogEvent,
    gaps: tuple[float, ...] = (),
    last: tuple[int, int] = (20, 21),
    **more: Any,
) -> RunFacts:
    """A run that makes a step every `pace` seconds and has been quiet for `quiet`; `gaps` in place
    of the newest paces.
    """
    lines, at = [], quiet
    for n in range(12):
        lines += [
            said("step", "trainer", at, last[0] - n),
            said("step", "orchestrator", at, last[1] - n),
        ]
        at += gaps[n] if n < len(gaps) else pace
    return healthy(
        "prime-rl",
        trainer_side=Side(last[0], NOW - quiet, 12),
        orchestrator_side=Side(last[1], NOW - quiet, 12),
        median_step_s=pace,
        events=sorted([*lines, *events], key=lambda event: event.m),
        started_m=NOW - 10_000,
        **more,
    )


def found(run: RunFacts, **changes: Any) -> list[Finding]:
    return list(run_stalled(facts(run, **changes), run, {}))


@pytest.mark.parametrize("pace", [5.0, 60.0, 1600.0])
def test_the_limit_is_the_runs_own_pace(pace: float) -> None:
    assert not found(paced(pace, 2.5 * pace)), "two and a half times the usual is slow"
    assert found(paced(pace, 2.9 * pace)), "within three it is known"


def test_fast_runs_have_a_few_seconds() -> None:
    assert not found(paced(0.5, LOW_S - 0.1))
    assert found(paced(0.5, LOW_S + 0.1))


def test_the_pace_counts_what_lies_between_the_steps() -> None:
    """The trainer's own time leaves broadcasts and checkpoints out."""
    run = dataclasses.replace(paced(60.0, 140.0), median_step_s=20.0)
    assert not found(run)


def test_a_run_that_varies_by_nature_is_given_more() -> None:
    spread = (60.0, 200.0, 60.0, 210.0, 60.0, 220.0)
    assert not found(paced(60.0, 200.0, gaps=spread))
    assert found(paced(60.0, 200.0, gaps=(60.0, 200.0)))
    assert found(paced(60.0, 300.0, gaps=spread))


def test_the_first_steps_have_the_catalogs_time() -> None:
    young = dataclasses.replace(paced(60.0, 500.0), trainer_side=Side(1, NOW - 500, 2))
    assert not found(young)
    assert found(dataclasses.replace(paced(60.0, 700.0), trainer_side=Side(1, NOW - 700, 2)))


def test_it_says_who_waits_for_whom_and_what_each_said_last() -> None:
    (finding,) = found(paced(60.0, 170.0, last=(21, 21)))
    assert (
        "orchestrator waits for the inference server or its environments: batch 22"
        in finding.summary
    )
    assert "The trainer waits for the orchestrator's batch 22." in finding.summary
    assert "orchestrator: step 21; trainer: step 21" in finding.summary
    assert finding.role == "symptom"
    assert [e["source"] for e in finding.evidence] == ["orchestrator", "trainer"]


def test_both_may_wait_for_each_other() -> None:
    barrier = said("holding", "orchestrator", 172.0, needed_policy=25)
    (finding,) = found(paced(60.0, 177.0, barrier, last=(21, 21)))
    assert "waits for it." in finding.summary


def test_the_same_silence_reads_the_same_a_minute_later() -> None:
    run = paced(60.0, 170.0)
    first, later = (
        run_stalled(facts(run), run, {})[0],
        run_stalled(facts(run, now=NOW + 60), run, {})[0],
    )
    assert (first.summary, first.anchor, len(first.evidence)) == (
        later.summary,
        later.anchor,
        len(later.evidence),
    )


def busy(util: float, power: float) -> GpuFacts:
    holder = Holder(
        identity=identity(14),
        gpu=1,
        mem=1 << 30,
        cmdline=("rank",),
        run="demo",
        component="rank",
        dead_run=None,
        same_user=True,
    )
    return GpuFacts(
        state="ok",
        pids="local",
        used={1: 1 << 30},
        total={1: 2 << 30},
        holders=[holder],
        util={1: util},
        power={1: power},
    )


def test_gpus_that_compute_make_it_slow_and_not_dead() -> None:
    holding = said("holding", "orchestrator", 295.0, needed_policy=21)
    run = paced(60.0, 300.0, holding)
    assert not found(run, gpus=busy(98.0, 0.9))
    assert found(run, gpus=busy(3.0, 0.2))
    assert found(run, gpus=busy(100.0, 0.25)), (
        "a hung collective spins at full use and little power"
    )
    assert found(paced(60.0, 700.0, holding), gpus=busy(98.0, 0.9)), "but not for ever"


def test_without_gpus_the_coverage_says_so() -> None:
    (finding,) = found(paced(60.0, 170.0))
    assert "load could not be looked at" in finding.coverage[0]


def test_a_held_orchestrator_beside_a_server_that_goes_on() -> None:
    """The server finishes what was asked before: neither its lines nor its GPU speak for the
    orchestrator.
    """
    lines = [
        said("heartbeat", "inference", float(ago), generation_tps=1000.0 - ago, running=64)
        for ago in range(160, 0, -10)
    ]
    beats = [
        said("heartbeat", "orchestrator", float(ago), have=ago, target=128) for ago in (190, 180)
    ]
    run = paced(60.0, 200.0, *lines, *beats, last=(21, 21))
    holder = Holder(
        identity=identity(12),
        gpu=0,
        mem=1 << 30,
        cmdline=("engine",),
        run="demo",
        component="engine",
        dead_run=None,
        same_user=True,
    )
    gpus = GpuFacts(
        state="ok",
        pids="local",
        used={0: 1 << 30},
        total={0: 2 << 30},
        holders=[holder],
        util={0: 95.0},
        power={0: 0.9},
    )
    assert found(run, gpus=gpus)


def test_a_stopped_process_is_known_after_one_step() -> None:
    run = paced(60.0, 65.0)
    members = [
        dataclasses.replace(m, state="T") if m.component == "orchestrator" else m
        for m in run.members
    ]
    (finding,) = found(dataclasses.replace(run, members=members))
    assert "process 13 is stopped" in finding.summary
    assert finding.evidence[0]["source"] == "process"
    engine = [
        dataclasses.replace(m, state="T") if m.component == "engine" else m for m in run.members
    ]
    assert not found(dataclasses.replace(run, members=engine)), (
        "a stopped engine is what vllm-silent-death probes for"
    )


def test_a_server_that_is_being_asked_is_waited_for() -> None:
    """A hung engine has its own name, and the requests that prove it take a minute."""
    run = paced(60.0, 178.0, last=(21, 21))
    asked = ServerProbe(
        url="http://localhost:8000",
        ever_ok_m=NOW - 900,
        health="ok",
        health_m=NOW - 1,
        answer="timeout",
        answer_m=NOW - 5,
        failures=1,
    )
    assert not found(dataclasses.replace(run, server=asked))
    assert found(
        dataclasses.replace(run, server=dataclasses.replace(asked, answer="ok", failures=0))
    ), "it answers: something else is silent"
    assert found(dataclasses.replace(paced(60.0, 240.0, last=(21, 21)), server=asked)), (
        "not for ever"
    )
    trains = paced(60.0, 178.0, said("holding", "orchestrator", 170.0, needed_policy=21))
    assert found(dataclasses.replace(trains, server=asked)), "the trainer needs no server"


def test_usual_checkpoints_shorten_the_time_that_one_may_take() -> None:
    history = [
        e
        for n in range(4)
        for e in (
            said("save", "trainer", 1000.0 - 100 * n, n),
            said("step", "trainer", 990.0 - 100 * n, n),
        )
    ]
    now = [
        said("save", "trainer", 240.0, 20),
        said("holding", "orchestrator", 235.0, needed_policy=21),
    ]
    assert found(paced(60.0, 250.0, *history, *now)), (
        "four checkpoints took ten seconds each; this one takes four minutes"
    )
    assert not found(paced(60.0, 250.0, *now))


@pytest.mark.parametrize(
    "changes",
    [{"state": "ended"}, {"state": "files"}, {"good_end": True}, {"stop_requested": True}],
)
def test_only_a_run_that_should_live_can_stall(changes: dict[str, Any]) -> None:
    assert not found(dataclasses.replace(paced(60.0, 5000.0), **changes))


def test_a_launcher_that_cleans_up_after_the_work_has_not_stalled() -> None:
    """An orchestrator that gave its shutdown up has no final line."""
    run = paced(60.0, 5000.0, said("finished", "trainer", 4000.0))
    assert found(run)
    gone = [dataclasses.replace(m, alive=m.component == "launcher") for m in run.members]
    assert not found(dataclasses.replace(run, members=gone))


def test_numbers_on_a_dashboard_are_no_life() -> None:
    """Only the run's own lines count: a metrics file (or W&B) that is still written says
    nothing.
    """
    run = dataclasses.replace(
        paced(60.0, 170.0), history=[{"side": "trainer", "step": 99, "m": NOW}], last_activity_m=NOW
    )
    assert found(run)


def opened(*looks: Facts) -> list[str]:
    engine = Engine(list(library()))
    return [
        t.finding.failure for look in looks for t in engine.evaluate(look) if t.event == "opened"
    ]


def test_a_root_explains_the_silence() -> None:
    """The 2026-01 desync before its first step, for an hour: its own name, and not the
    symptom's.
    """
    run = healthy(
        files=StepFiles(orchestrator_checkpoints={40: WALL - 9000}, rollouts={0: WALL - 3000}),
        trainer_side=Side(),
        orchestrator_side=Side(0, NOW - 3000, 1),
        median_step_s=None,
        checkpoints=[],
        events=[
            said("starting", "trainer", 3100.0, what="loop"),
            said("step", "orchestrator", 3000.0, 0),
        ],
        started_m=NOW - 3600,
        started_t=WALL - 3600,
    )
    assert found(run), "alone it is a silence"
    assert opened(facts(run), facts(run, now=NOW + 20)) == ["step-desync"]


def test_alone_it_opens_at_once() -> None:
    assert opened(facts(paced(60.0, 170.0))) == ["run-stalled"]
