"""How deep a JSON text nests is counted outside its strings, whatever these hold."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from bs4_common.foreign_json import NESTING_LIMIT, ForeignJsonError, check_nesting, loads

#: What a string may end with just before its quote.
ENDS = ["", "\\", "\\\\", '"', '\\"', '"\\', "\\[", "]"]


@pytest.mark.parametrize("end", ENDS)
def test_brackets_in_a_string_do_not_count(end: str) -> None:
    value = {"[" * 100 + end: "{[" * 100 + end, "b": ["[" * 100 + end]}
    assert loads(json.dumps(value)) == value


@pytest.mark.parametrize("end", ENDS)
def test_brackets_behind_a_string_count(end: str) -> None:
    deep = "[" * NESTING_LIMIT + json.dumps("]" * 100 + end) + "]" * NESTING_LIMIT
    check_nesting(deep)
    with pytest.raises(ForeignJsonError):
        check_nesting(f"[{deep}]")


@pytest.mark.parametrize("part", ["a", '\\"', "\\\\"])
def test_a_long_string_takes_no_memory_for_each_of_its_characters(part: str) -> None:
    text = '"' + part * 500_000 + '"' + "[]" * 100
    tracemalloc.start()
    try:
        check_nesting(text)
        assert tracemalloc.get_traced_memory()[1] < 5 * len(text)
    finally:
        tracemalloc.stop()
