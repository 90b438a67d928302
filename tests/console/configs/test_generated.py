"""Configs made from each component's schema: none that is valid is refused by a single value, and
one wrong thing at any place is.

The cases do not come from files: the generator writes any table of the schema, to its depth, and
then breaks each place of it in turn. What it makes was held against the trainers' own classes of
both generations, at a24ec986b and 559b44772.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bs4_console.configs.document import Document
from bs4_console.configs.lint import lint_document
from bs4_console.configs.schema import COMPONENTS, Checker, load, prefix_of
from tests.console.configs.generator import Maker, breakages

TRAINERS = ("prime-rl-2026-01", "prime-rl")
#: Shares of the optional keys: from nearly nothing to nearly everything.
SHARES = (0.05, 0.15, 0.3, 0.6)
_CLASSES = {
    "trainer": ("RLTrainerConfig", "TrainerConfig"),
    "orchestrator": ("OrchestratorConfig",) * 2,
    "inference": ("InferenceConfig",) * 2,
}


def top(trainer: str, component: str) -> dict[str, Any]:
    """The schema of the component's own config."""
    root = load(trainer, component)
    return (
        root["$defs"][_CLASSES[component][TRAINERS.index(trainer)]]
        if component in _CLASSES
        else root
    )


def hard(trainer: str, component: str, data: dict[str, Any]) -> list[Any]:
    return [
        problem
        for problem in Checker(trainer, component).check(data)[1]
        if problem.kind != "ignored"
    ]


def run(trainer: str, component: str, count: int, seed: int) -> tuple[int, set[str]]:
    """(broken configs, the ways in which they were broken)"""
    dice, broken, ways = random.Random(seed), 0, set()
    schema = {**top(trainer, component), "$defs": load(trainer, component)["$defs"]}
    validator = jsonschema.Draft202012Validator(schema)
    for number in range(count):
        maker = Maker(load(trainer, component), dice, SHARES[number % len(SHARES)])
        data = maker.make(top(trainer, component))
        assert not list(validator.iter_errors(data)), "the generator itself"
        before = json.dumps(data)
        assert not (found := hard(trainer, component, data)), (found, data)
        every = list(breakages(maker, data))
        for case in dice.sample(every, min(len(every), 12)):
            problems = hard(trainer, component, case.data)
            prefix = prefix_of(component)
            assert any(problem.path[: len(prefix)] == prefix for problem in problems), (
                case.how,
                case.path,
                case.data,
            )
            document = Document(file=Path("x.toml"), text="", data=case.data, lines={})
            errors = [
                item
                for item in lint_document(document, trainer, None, component)
                if item.level == "error"
            ]
            assert errors, (case.how, case.path)
            broken += 1
            ways.add(case.how)
        assert json.dumps(data) == before
    return broken, ways


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_what_is_valid_stays_valid_and_what_is_broken_is_refused(
    trainer: str, component: str
) -> None:
    broken, ways = run(trainer, component, 20, 11)
    assert broken > 60
    assert {"extra", "type"} <= ways, "the breakages have to be worth something"


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_often(trainer: str, component: str) -> None:
    _, ways = run(trainer, component, 150, 12)
    assert {"extra", "type", "bound"} <= ways


def test_each_break_is_reported_where_it_is(tmp_path: Path) -> None:
    """By path: an unknown key anywhere in a table that is closed is reported at that key and
    nowhere else.
    """
    for trainer in TRAINERS:
        maker = Maker(load(trainer), random.Random(3), 0.3)
        data = maker.make()
        for case in breakages(maker, data):
            if case.how != "extra":
                continue
            assert [problem.path for problem in hard(trainer, "rl", case.data)] == [case.path]
