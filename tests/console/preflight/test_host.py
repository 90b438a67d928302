"""A machine that was set up by hand: what verl would lack there, as a report."""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.preflight.checks import GIB, Wanted
from bs4_console.preflight.host import judge
from bs4_console.preflight.stack import judge as judge_stack

WANTED = Wanted(trainer="verl", cwd="my-project")
HOST: dict[str, Any] = {
    "memory": {"used": 16 * GIB, "total": 221 * GIB},
    "disk": {"free": 361 * 10**9, "total": 993 * 10**9, "read_only": False},
    "project": "/home/u/my-project",
    "verl": "0.2",
    "cuda": {
        "torch": "2.9.0+cu128",
        "cuda": "12.8",
        "available": True,
        "devices": 1,
        "error": None,
    },
}
STACK: dict[str, Any] = {
    "python": "/usr/bin/python3",
    "versions": {
        "python": "3.10.12",
        "torch": "2.9.0+cu128",
        "cuda": "12.8",
        "vllm": "0.12.0",
        "flash_attn": "2.8.3",
    },
    "imports": {"verl": None, "flash_attn": None},
}
POD = {"gpus": {"state": "ok", "driver": "570.148.08", "devices": [], "holders": []}}


def states(**changes: Any) -> dict[str, str]:
    return {check.title: check.state for check in judge({**HOST, **changes}, STACK, WANTED)}


def test_a_machine_as_it_should_be() -> None:
    assert set(states().values()) == {"ok"}
    told = {check.title: check.why for check in judge(HOST, STACK, WANTED)}
    assert told["host memory"] == "205.0 GiB of 221.0 GiB are available."
    assert told["torch and the GPUs"] == "torch 2.9.0+cu128 for CUDA 12.8 sees 1 GPUs."
    assert told["rollout engine"] == "vllm 0.12.0."
    stack = {check.title: check for check in judge_stack(STACK, POD, WANTED)}
    assert {check.state for check in stack.values()} == {"ok"}
    assert "570.148.08" in stack["driver and CUDA"].why


CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("project directory", "blocking", {"project": None}),
    ("torch and the GPUs", "blocking", {"cuda": {**HOST["cuda"], "available": False}}),
    (
        "torch and the GPUs",
        "blocking",
        {"cuda": {"torch": None, "available": None, "error": "ImportError: libcudart.so.12"}},
    ),
    ("torch and the GPUs", "unknown", {"cuda": {"unknown": "it took too long"}}),
    ("host memory", "warning", {"memory": {"used": 85, "total": 100}}),
    ("host memory", "blocking", {"memory": {"used": 96, "total": 100}}),
    ("host memory", "unknown", {"memory": {}}),
    ("disk", "warning", {"disk": {"free": 60 * 10**9, "total": 993 * 10**9}}),
    ("disk", "blocking", {"disk": {"free": 20 * 10**9, "total": 993 * 10**9}}),
    ("disk", "blocking", {"disk": {"free": 361 * 10**9, "total": 993 * 10**9, "read_only": True}}),
    ("disk", "unknown", {"disk": {"free": None, "total": None}}),
]


@pytest.mark.parametrize(("title", "state", "changes"), CASES)
def test_what_is_wrong_is_said_under_its_own_name_and_nothing_else_is(
    title: str, state: str, changes: dict[str, Any]
) -> None:
    found = states(**changes)
    assert found.pop(title) == state
    assert set(found.values()) == {"ok"}


def test_a_flash_attn_that_does_not_fit_its_torch_blocks_with_its_rebuild() -> None:
    broken = {
        **STACK,
        "imports": {
            "verl": None,
            "flash_attn": "ImportError: undefined symbol: _ZN3c104cuda9SetDeviceEab",
        },
    }
    check = next(
        check for check in judge_stack(broken, POD, WANTED) if check.id == "flash-attn-abi"
    )
    assert (check.state, check.playbook) == ("blocking", "flash-attn-abi")
    assert "--no-build-isolation" in check.fix


def test_without_an_engine_nothing_can_roll_out_and_without_an_answer_nothing_is_well() -> None:
    bare = {**STACK, "versions": {"python": "3.10.12", "torch": "2.9.0"}}
    assert {check.title: check.state for check in judge(HOST, bare, WANTED)}[
        "rollout engine"
    ] == "blocking"
    assert {check.state for check in judge({"unknown": "no answer"}, None, WANTED)} == {"unknown"}


def test_the_question_names_verl_only_before_a_config_is_chosen() -> None:
    assert Wanted(trainer="verl").body()["trainer"] == "verl"
    assert "trainer" not in Wanted().body()
    assert not Wanted(trainer="verl", config="verl.toml").for_machine
