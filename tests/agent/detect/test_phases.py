"""Phases out of events: what each side does, since when, and whom it waits for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bs4_common.failures.facts import LogEvent, RunFacts, Side
from bs4_common.failures.phases import Activity, activities
from bs4_common.trainers.base import Event
from tests.agent.facts import NOW, WALL, checkpoint, healthy


def said(kind: str, side: str, ago: float, step: int | None = None, **values: Any) -> LogEvent:
    return LogEvent(event=Event(kind, side, values, step), m=NOW - ago, text=kind, source=side)


def run(
    *events: LogEvent,
    trainer: str = "prime-rl",
    last: tuple[int | None, int | None] = (20, 21),
    **more: Any,
) -> RunFacts:
    """Step lines of `last`, both sixty seconds old, and `events`."""
    lines = [
        said("step", side, 60, step)
        for side, step in zip(("trainer", "orchestrator"), last, strict=True)
        if step is not None
    ]
    sides = [Side(step, NOW - 60, 9) if step is not None else Side() for step in last]
    ordered = sorted([*lines, *events], key=lambda event: event.m)
    return healthy(
        trainer,
        trainer_side=sides[0],
        orchestrator_side=sides[1],
        events=ordered,
        started_m=NOW - 900,
        **more,
    )


def now(facts: RunFacts) -> tuple[Activity, Activity]:
    sides = activities(facts)
    return sides["trainer"], sides["orchestrator"]


def test_a_trainer_with_its_batch_works() -> None:
    trainer, orchestrator = now(run())
    assert (trainer.phase, trainer.waits_for, trainer.awaits) == ("train", "", "step 21")
    assert (orchestrator.phase, orchestrator.waits_for, orchestrator.awaits) == (
        "rollout",
        "",
        "batch 22",
    )


def test_its_work_begins_with_the_batch_even_when_a_later_one_came() -> None:
    """The orchestrator is a batch ahead: the time since its newest line is not what the trainer has
    had.
    """
    early = [said("step", "orchestrator", 30, 21), said("step", "orchestrator", 5, 22)]
    facts = dataclasses.replace(run(*early, last=(20, 20)), orchestrator_side=Side(22, NOW - 5, 9))
    assert now(facts)[0].since_m == NOW - 30


def test_a_trainer_without_a_batch_waits_for_the_orchestrator() -> None:
    trainer, _ = now(run(last=(21, 21)))
    assert (trainer.phase, trainer.waits_for, trainer.awaits) == (
        "waiting",
        "orchestrator",
        "batch 22",
    )


def test_before_its_first_step_it_waits_for_the_step_that_it_said() -> None:
    position = [
        said("starting", "trainer", 50, 7, what="position"),
        said("starting", "trainer", 49, what="loop"),
    ]
    trainer, _ = now(run(*position, last=(None, 6)))
    assert (trainer.waits_for, trainer.awaits) == ("orchestrator", "batch 7")
    trainer, _ = now(run(*position, last=(None, 7)))
    assert (trainer.phase, trainer.waits_for) == ("train", "")


def test_a_model_that_loads_is_start_up() -> None:
    trainer, orchestrator = now(
        run(said("starting", "trainer", 100, what="process"), last=(None, None))
    )
    assert trainer.phase == orchestrator.phase == "start-up"


@pytest.mark.parametrize(
    ("trainer", "policy", "waits"),
    [("prime-rl-2026-01", 21, ""), ("prime-rl-2026-01", 22, "trainer")],
)
def test_the_barrier_of_2026_01_counts_from_zero(trainer: str, policy: int, waits: str) -> None:
    """Policy K is there when step K - 1 is done: the line says the same whether it holds for a
    moment or for ever.
    """
    _, orchestrator = now(
        run(said("barrier", "orchestrator", 40, checkpoint=policy), trainer=trainer)
    )
    assert orchestrator.waits_for == waits


@pytest.mark.parametrize(("needed", "waits"), [(20, ""), (21, "trainer")])
def test_holding_a_batch(needed: int, waits: str) -> None:
    _, orchestrator = now(run(said("holding", "orchestrator", 40, needed_policy=needed)))
    assert orchestrator.waits_for == waits


def test_a_paused_dispatcher_waits_until_it_is_resumed() -> None:
    paused, resumed = (
        said("holding", "orchestrator", 40, dispatcher="paused"),
        said("holding", "orchestrator", 30, dispatcher="resumed"),
    )
    assert now(run(paused, last=(20, 22)))[1].waits_for == "trainer"
    assert now(run(paused, resumed, last=(20, 22)))[1].waits_for == ""


def test_what_it_waited_for_counts_from_the_moment_it_came() -> None:
    barrier = said("barrier", "orchestrator", 55, checkpoint=22)
    facts = dataclasses.replace(
        run(barrier, said("step", "trainer", 10, 21), trainer="prime-rl-2026-01"),
        trainer_side=Side(21, NOW - 10, 10),
    )
    _, orchestrator = now(facts)
    assert (orchestrator.waits_for, orchestrator.since_m) == ("", NOW - 10)


def test_a_checkpoint_lasts_until_its_files_are_whole() -> None:
    saving = run(said("save", "trainer", 50, 20), checkpoints=[checkpoint(20, complete=False)])
    assert now(saving)[0].phase == "checkpoint"
    whole = dataclasses.replace(checkpoint(20), newest_mtime=WALL - 20)
    done = dataclasses.replace(
        saving, checkpoints=[whole], started_m=NOW - 900, started_t=WALL - 900
    )
    trainer, _ = now(done)
    assert (trainer.phase, trainer.since_m) == ("train", NOW - 20)


def test_an_evaluation_lasts_until_its_result() -> None:
    start = said("eval-start", "orchestrator", 50)
    assert now(run(start))[1].phase == "evaluation"
    assert now(run(start, said("eval", "orchestrator", 20)))[1].phase == "rollout"


def test_a_heartbeat_counts_since_its_numbers_changed() -> None:
    beats = [
        said("heartbeat", "orchestrator", ago, have=have, target=64)
        for ago, have in ((40, 1), (30, 2), (20, 2), (10, 2))
    ]
    assert now(run(*beats))[1].since_m == NOW - 30


def test_the_servers_heartbeat_is_nobodys_news() -> None:
    _, orchestrator = now(run(said("heartbeat", "inference", 1, generation_tps=900.0)))
    assert orchestrator.since_m == NOW - 60


def test_a_finished_side_is_at_its_end() -> None:
    trainer, orchestrator = now(run(said("finished", "trainer", 5)))
    assert (trainer.phase, orchestrator.phase) == ("end", "rollout")


def test_verl_has_one_side() -> None:
    assert set(activities(run(trainer="verl"))) == {"trainer"}
