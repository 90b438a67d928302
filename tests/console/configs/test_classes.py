"""What the trainer's own classes say, laid over lint: lines from pydantic's places, nothing twice,
and answers that nobody can trust.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from bs4_console.configs import classes
from bs4_console.configs.classes import Answer
from bs4_console.configs.document import Document
from bs4_console.configs.findings import Finding, by_line
from bs4_console.configs.lint import lint_document
from bs4_console.configs.toml_lines import lines_of
from tests.console.configs.bases import CURRENT

NAME = "prime_rl.configs.rl.RLConfig"


def document(text: str) -> Document:
    return Document(
        file=Path("config.toml"), text=text, data=tomllib.loads(text), lines=lines_of(text)
    )


def judged(text: str, *errors: dict[str, Any]) -> list[Finding]:
    answer = classes.read({"class": NAME, "errors": list(errors), "warnings": []})
    found = classes.laid_over(lint_document(document(text), "prime-rl"), answer, document(text))
    return [item for item in by_line(found) if item.level == "error"]


def refusal(
    *place: Any, kind: str = "value_error", message: str = "Value error, it is wrong"
) -> dict[str, Any]:
    return {"loc": list(place), "kind": kind, "message": message}


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (("trainer", "optim", "adamw", "lr"), "lr = 1e-5"),
        (
            ("orchestrator", "train", "source", 0, "env", "taskset", "network_access"),
            "network_access = false",
        ),
        (
            ("orchestrator", "train", "source", 0, "function-after[check(), Source]", "name"),
            'name = "some-env"',
        ),
        (("trainer", "model", "lora", "brand_new"), "[trainer.model.lora]"),
    ],
)
def test_a_place_of_pydantic_becomes_the_line_of_the_file(
    place: tuple[Any, ...], text: str
) -> None:
    (item,) = judged(CURRENT, refusal(*place))
    assert CURRENT.split("\n")[item.line - 1] == text
    assert item.id == "schema"
    assert item.fix.endswith(f"So says {NAME} on the pod.")


def test_what_lint_has_said_by_rule_is_not_said_again() -> None:
    text = CURRENT.replace("[ckpt]\n", "[ckpt]\nresume_step = 5\n")
    (alone,) = [item for item in lint_document(document(text), "prime-rl") if item.level == "error"]
    assert alone.id == "P06"
    told = judged(
        text,
        refusal(
            "ckpt", "resume_step", kind="extra_forbidden", message="Extra inputs are not permitted"
        ),
    )
    assert [(item.id, item.line) for item in told] == [("P06", alone.line)]


def test_between_values_both_may_know_something() -> None:
    text = CURRENT.replace("group_size = 8", "group_size = 7")
    (told, own) = judged(
        text,
        refusal(
            message="Value error, Batch size must be divisible by the number of samples per problem"
        ),
    )
    assert {told.id, own.id} == {"R16", "schema"}


@pytest.mark.parametrize(
    "part",
    [
        None,
        7,
        [],
        {},
        {"class": 3, "errors": []},
        {"class": "", "errors": []},
        {"class": "x", "errors": "none"},
        {"unknown": ["?"]},
    ],
)
def test_an_answer_that_is_none_changes_nothing_and_says_why(part: object) -> None:
    answer = classes.read(part)
    assert (answer.name, answer.coverage["schema"]) == ("", "shipped")
    assert answer.coverage["detail"]
    found = [Finding(id="schema", level="error", line=1, message="m", fix="f", by_schema=True)]
    assert classes.laid_over(found, answer, document(CURRENT)) == found


def test_a_hostile_answer_is_bounded() -> None:
    errors = [
        {"loc": ["a"] * 3, "kind": "k" * 10_000, "message": "m" * 100_000},
        "no object",
        {"loc": {"a": 1}},
    ] * 500
    answer = classes.read({"class": "x" * 10_000, "errors": errors})
    assert isinstance(answer, Answer)
    assert len(answer.refusals) <= 200
    assert max(len(one.message) for one in answer.refusals) <= 400
    assert judged(CURRENT, *[error for error in errors[:9] if isinstance(error, dict)])


def test_a_file_that_is_no_toml_is_said_once() -> None:
    broken = Document(
        file=Path("x.toml"),
        text="a = ",
        data={},
        lines={},
        findings=[Finding(id="toml", level="error", line=1, message="no TOML", fix="correct it")],
    )
    found = lint_document(broken, "prime-rl")
    assert (
        classes.laid_over(
            found, classes.read({"class": NAME, "errors": [refusal(message="bad")]}), broken
        )
        == found
    )
