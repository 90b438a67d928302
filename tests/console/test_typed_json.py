"""JSON of others as the records that it is declared to be: what is of another type is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import pytest

from bs4_common.preflight import Look
from bs4_console.typed_json import number, record


class Inner(TypedDict, total=False):
    name: str


class Outer(TypedDict, total=False):
    text: str
    whole: int
    part: float
    flag: bool
    either: int | str | None
    inner: Inner
    rows: Sequence[Inner]
    by_name: Mapping[str, str | None]
    anything: object


GOOD: dict[str, Any] = {
    "text": "a",
    "whole": 3,
    "part": 2,
    "flag": True,
    "either": None,
    "inner": {"name": "b"},
    "rows": [{"name": "c"}, {}],
    "by_name": {"d": None, "e": "f"},
    "anything": [1, {"x": None}],
}


def test_what_is_as_declared_stays_as_it_is() -> None:
    assert record({**GOOD, "of a newer agent": 1}, Outer) == GOOD
    assert record({**GOOD, "either": "auto", "part": 0.5}, Outer)["either"] == "auto"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", 1),
        ("text", None),
        ("whole", True),
        ("whole", 1.0),
        ("whole", 10**400),
        ("part", float("nan")),
        ("part", float("-inf")),
        ("part", "1"),
        ("flag", 1),
        ("either", [1]),
        ("either", False),
        ("inner", [("name", "b")]),
        ("rows", {"0": {"name": "c"}}),
        ("by_name", ["d"]),
    ],
)
def test_a_value_of_another_type_is_missing(name: str, value: Any) -> None:
    kept = {key: one for key, one in GOOD.items() if key != name}
    assert record({**GOOD, name: value}, Outer) == kept


def test_of_lists_and_objects_the_rest_is_kept() -> None:
    given = {"inner": {"name": 1}, "rows": [1, {"name": "c"}, None], "by_name": {"d": 1, "e": "f"}}
    assert record(given, Outer) == {"inner": {}, "rows": [{"name": "c"}], "by_name": {"e": "f"}}


@pytest.mark.parametrize("value", [None, 3, "x", [{"text": "a"}]])
def test_what_is_no_object_is_an_empty_record(value: Any) -> None:
    assert record(value, Outer) == {}


def test_a_part_that_is_no_object_is_no_part() -> None:
    assert record({"pod": 3, "run": {"model": 3}, "stack": None}, Look) == {"run": {}}


@pytest.mark.parametrize(
    ("value", "read"),
    [(1, 1.0), (0.5, 0.5), (True, None), ("1", None), (float("inf"), None), (10**400, None)],
)
def test_a_number(value: Any, read: float | None) -> None:
    assert number(value) == read
