"""Valid configs, changed at random, judged by lint and by a JSON Schema validator over the same
schema.

Where JSON Schema finds nothing wrong, lint may object only with a rule of its own or a constraint
between values, never to a single value; and what JSON Schema refuses, lint refuses, but for what
the trainers' classes convert ("5", 1.0, true) or fill in (a union's `type`).
"""

from __future__ import annotations

import copy
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bs4_console.configs.document import Document
from bs4_console.configs.lint import lint_document
from bs4_console.configs.schema import Checker, convert, load
from tests.console.configs.bases import CURRENT, JANUARY

TEXTS = {"prime-rl-2026-01": JANUARY, "prime-rl": CURRENT}
VALUES: list[Any] = [
    "None",
    "5",
    "x",
    True,
    False,
    0,
    1,
    -1,
    2.0,
    1.5,
    [],
    [1],
    ["a"],
    {},
    {"freq": 1},
    4096,
]


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    for key, item in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from places(item, (*path, key))


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


def mutate(data: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """Drop, rename, move, retype, or put out of bounds one thing outside the environments, whose
    keys are their own.
    """
    data = copy.deepcopy(data)
    path = dice.choice([p for p in places(data) if "env" not in p])
    table, key = at(data, path[:-1]), path[-1]
    value = table[key]
    kind = dice.choice(["drop", "rename", "move", "retype", "bound"])
    if kind == "drop":
        del table[key]
    elif kind == "rename" and isinstance(key, str):
        del table[key]
        table[
            dice.choice([key + "s", key[:-1] or "x", "new_" + key, key.replace("_", "-") + "-"])
        ] = value
    elif kind == "move":
        del table[key]
        tables = [
            data,
            *(
                item
                for item in (at(data, p) for p in places(data) if "env" not in p)
                if isinstance(item, dict)
            ),
        ]
        dice.choice(tables)[str(key)] = value
    elif kind == "retype":
        table[key] = dice.choice(VALUES)
    elif isinstance(value, int | float):
        table[key] = dice.choice([-1, 0, 0.5, -0.5, 1e9])
    return data


def filled(value: Any, path: tuple[str | int, ...] = ()) -> Any:
    """The `type` that the trainers take from a union's default."""
    if isinstance(value, dict):
        result = {key: filled(item, (*path, key)) for key, item in value.items()}
        return {"type": "adamw", **result} if path == ("trainer", "optim") else result
    return (
        [filled(item, (*path, n)) for n, item in enumerate(value)]
        if isinstance(value, list)
        else value
    )


def only_converted(error: jsonschema.ValidationError) -> bool:
    """Whether pydantic takes the value that JSON Schema refuses: it converts, or it reads
    "None".
    """
    if error.instance == "None":
        return True
    if error.validator in ("anyOf", "oneOf"):
        branches: dict[Any, list[jsonschema.ValidationError]] = {}
        for inner in error.context or ():
            branches.setdefault(inner.schema_path[0], []).append(inner)
        return any(all(only_converted(inner) for inner in branch) for branch in branches.values())
    wanted = error.validator_value if error.validator == "type" else None
    return (
        isinstance(wanted, str)
        and wanted in ("integer", "number", "boolean")
        and convert(wanted, error.instance)[1]
    )


def without_environments(value: Any) -> None:
    """Their keys are their own: the schema at hand is that of an empty one."""
    if isinstance(value, dict):
        for key in [key for key in value if key == "env"]:
            del value[key]
    for item in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        without_environments(item)


def agree(generation: str, count: int, seed: int) -> None:
    validator = jsonschema.Draft202012Validator(load(generation))
    dice, base = random.Random(seed), tomllib.loads(TEXTS[generation])
    refused = 0
    for _ in range(count):
        data = mutate(base, dice)
        outside = copy.deepcopy(data)
        without_environments(outside)
        errors = list(validator.iter_errors(filled(outside)))
        _, problems = Checker(generation).check(data)
        hard = [problem for problem in problems if problem.kind != "ignored"]
        found = [
            item
            for item in lint_document(
                Document(file=Path("x.toml"), text="", data=data, lines={}), generation
            )
            if item.level == "error"
        ]
        assert bool(hard) <= bool(found), "what the schema refuses, lint reports"
        if not errors:
            # "None" is text to JSON Schema, and no value to the trainers.
            assert not [problem for problem in hard if problem.value is not None], (data, hard)
        elif not all(only_converted(error) for error in errors):
            assert found, (data, errors[0].message)
            refused += 1
    assert refused > count / 5, "the mutations have to be worth something"


@pytest.mark.parametrize("generation", TEXTS)
def test_lint_agrees_with_the_schema(generation: str) -> None:
    agree(generation, 400, 1)


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.parametrize("generation", TEXTS)
def test_lint_agrees_with_the_schema_often(generation: str) -> None:
    agree(generation, 6000, 2)
