"""Recovered is a run that trains on tokens with weights that inference takes; a run that falls
apart prints steps too.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.playbooks.verify import VERIFIERS, trained_steps
from bs4_common.errors import UnknownRun
from bs4_common.failures.facts import RunFacts, Side
from bs4_common.trainers.settings import BadConfig
from tests.agent.facts import healthy, layout, trained

TRAINERS = ("prime-rl-2026-01", "prime-rl")


def attempt(trainer: str, **changes: Any) -> RunFacts:
    return healthy(trainer, attempt=2, trainer_side=Side(), orchestrator_side=Side(), **changes)


def verdict(run: RunFacts) -> bool:
    pod_actions: Any = SimpleNamespace(run_facts=lambda name: run)
    return VERIFIERS["steps_advance"](
        pod_actions, "demo", 1, {"count": 2, "within": 0.01}, lambda text: None
    ).recovered


@pytest.mark.parametrize("trainer", TRAINERS)
def test_two_steps_with_tokens_and_weights_are_a_recovery(trainer: str) -> None:
    run = trained(attempt(trainer), 6, 7)
    assert trained_steps(run) == [6, 7]
    assert verdict(run)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_one_is_none(trainer: str) -> None:
    assert not verdict(trained(attempt(trainer), 6, 6))


@pytest.mark.parametrize("trainer", TRAINERS)
def test_weights_that_nobody_takes_are_no_recovery(trainer: str) -> None:
    """The engine died before the first step of the new attempt was broadcast; what had been
    generated is trained to its end.
    """
    run = trained(attempt(trainer), 6, 8, taken=5)
    assert trained_steps(run) == []
    assert not verdict(run)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_steps_without_throughput_are_no_recovery(trainer: str) -> None:
    run = trained(attempt(trainer), 6, 8, throughput=0.0)
    assert not verdict(run)


@pytest.mark.parametrize("throughput", ["nan", "inf", None])
def test_a_throughput_that_is_no_number_proves_no_empty_batch(throughput: Any) -> None:
    run = trained(attempt("prime-rl"), 6, 7)
    rows = [{**row, "throughput": throughput} for row in run.history]
    assert trained_steps(dataclasses.replace(run, history=rows)) == [6, 7]


def test_steps_of_empty_batches_are_no_recovery() -> None:
    run = trained(attempt("prime-rl-2026-01"), 6, 8, rollouts=0.0)
    assert trained_steps(run) == []
    assert not verdict(run)


def test_where_one_log_tells_of_both_sides_its_steps_count() -> None:
    places = dataclasses.replace(layout(), own_log="trainer")
    rows = [{"side": "trainer", "step": step, "throughput": 900.0} for step in (3, 4)]
    run = attempt("verl", layout=places, history=rows)
    assert trained_steps(run) == [3, 4]
    assert verdict(run)
    assert not verdict(
        dataclasses.replace(run, history=[{**row, "throughput": 0.0} for row in rows])
    )


def test_a_run_that_cannot_be_looked_at_for_a_while_has_not_failed() -> None:
    looks: list[Any] = [RecursionError("an odd file"), BadConfig("it is no TOML")]
    looks += [looks[1], trained(attempt("prime-rl"), 6, 7)]
    said: list[str] = []

    def look(name: str) -> Any:
        if isinstance(found := looks.pop(0), Exception):
            raise found
        return found

    pod_actions: Any = SimpleNamespace(run_facts=look)
    parameters: Any = {"count": 2, "within": 600.0}
    verified = VERIFIERS["steps_advance"](
        pod_actions, "demo", 1, parameters, said.append, lambda seconds: None
    )
    assert verified.recovered
    assert said == [
        "demo cannot be looked at: RecursionError: an odd file",
        "demo cannot be looked at: BadConfig: it is no TOML",
    ]


@pytest.mark.parametrize(
    ("error", "within"), [(RecursionError("odd"), 0.01), (UnknownRun("none"), 600.0)]
)
def test_a_run_that_can_never_be_looked_at_ends_the_wait(error: Exception, within: float) -> None:
    def look(name: str) -> Any:
        raise error

    pod_actions: Any = SimpleNamespace(run_facts=look)
    parameters: Any = {"count": 2, "within": within}
    with pytest.raises(type(error)):
        VERIFIERS["steps_continue"](pod_actions, "demo", 1, parameters, lambda text: None)
