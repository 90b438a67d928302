"""What a launch started is read from its plan: texts are texts, and what an older agent did not say
is empty.
"""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.pods.gate.plans import Launched, launched

PLAN = {
    "spec": {"config": "rl.toml", "cwd": "/w"},
    "config": {"values": "0" * 16, "version": "v4", "based_on": "v3", "model": "Qwen/Qwen3-8B"},
    "record": {
        "phase": "warmup",
        "price": 2,
        "versions": {"torch": "2.9", "odd": 7},
        "hardware": {"gpus": "8 x H100"},
        "commit": "c" * 200,
    },
}


def test_what_was_launched_is_read_from_its_plan() -> None:
    assert launched(PLAN) == Launched(
        config="rl.toml",
        cwd="/w",
        digest="0" * 16,
        version="v4",
        based_on="v3",
        model="Qwen/Qwen3-8B",
        phase="warmup",
        price=2.0,
        versions={"torch": "2.9"},
        hardware={"gpus": "8 x H100"},
        commit="c" * 120,
    )


@pytest.mark.parametrize(
    "plan",
    [
        None,
        {},
        {"spec": "x", "config": ["values"], "record": 3},
        {"config": {"values": 7}, "record": {"price": True, "versions": ["torch"], "phase": None}},
    ],
)
def test_what_a_plan_does_not_say_is_empty(plan: Any) -> None:
    assert launched(plan) == Launched()


def test_of_many_long_texts_the_first_are_kept_cut() -> None:
    many = {f"{number:03}" + "n" * 200: "v" * 200 for number in range(50)}
    kept = launched({"record": {"versions": many}}).versions
    assert list(kept)[:1] == ["000" + "n" * 117]
    assert (len(kept), set(map(len, kept.values()))) == (40, {120})
