"""JSON that scripts read: what commands printed in an earlier version (tests/golden) has all its
fields today.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.console.cli.conftest import Practice

pytestmark = [pytest.mark.long, pytest.mark.beside]

THEN = json.loads(
    (
        Path(__file__).resolve().parents[2]
        / "golden"
        / "data"
        / "prime-rl-2026-01"
        / "outputs.json"
    ).read_text()
)


def missing(then: Any, now: Any, where: str = "") -> list[str]:
    """Return the places of fields that were there then and are not now. Of a list its first entries
    are compared.
    """
    if isinstance(then, dict) and isinstance(now, dict):
        gone = [f"{where}.{key}" for key in then if key not in now]
        return gone + [
            place
            for key in then
            if key in now
            for place in missing(then[key], now[key], f"{where}.{key}")
        ]
    if isinstance(then, list) and isinstance(now, list) and then and now:
        return missing(then[0], now[0], f"{where}[0]")
    return []


#: Objects whose keys are data: labels of numbers, names of runs.
DATA = (".perfdata", ".parts")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("check-ok", ("check", "--pod", "pod-a", "--json")),
        ("runs-list", ("runs", "list", "--json")),
        ("checkpoints-list", ("checkpoints", "list", "--pod", "pod-a", "--run", "demo", "--json")),
        ("reports-list", ("reports", "list", "--json")),
    ],
)
def test_no_field_has_gone(command: str, words: tuple[str, ...], trained: Practice) -> None:
    then = json.loads(THEN[command]["out"])
    done = trained(*words)
    assert done.code in (0, 1), done.err
    gone = [place for place in missing(then, done.json) if not any(part in place for part in DATA)]
    assert gone == []
    assert done.json["schema"] == then["schema"]


def test_a_field_that_goes_is_noticed() -> None:
    then = json.loads(THEN["runs-list"]["out"])
    now = {
        **then,
        "runs": [{key: value for key, value in then["runs"][0].items() if key != "state"}],
    }
    assert missing(then, now) == [".runs[0].state"]
