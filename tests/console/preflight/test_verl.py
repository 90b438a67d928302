"""A preflight of verl: what it has of its own (an engine, its own sizes), and what it is not asked
(classes, ports, environments).
"""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.preflight import config, start
from bs4_console.preflight import stack as preflight_stack
from bs4_console.preflight.checks import GIB, Check, Wanted
from bs4_console.preflight.examine import examine
from tests.console.preflight.test_examine import FACTS, NO_SOURCE, Agent
from tests.console.preflight.test_start import run

START = Wanted(trainer="verl", config="c.toml", run="demo", cwd="verl")
POD = {"gpus": {"driver": "570.148.08"}}
#: A rented machine's own interpreter, as its owner set it up by hand.
HOST = {
    "python": "3.10.12",
    "torch": "2.9.0+cu128",
    "vllm": "0.12.0",
    "flash_attn": "2.8.3",
    "cuda": "12.8",
}
CONFIG = """
[trainer]
total_training_steps = 220
save_freq = 50
max_actor_ckpt_to_keep = 3
n_gpus_per_node = 1
[actor_rollout_ref.model]
path = "Qwen/Qwen2.5-Math-1.5B"
[actor_rollout_ref.rollout]
tensor_model_parallel_size = 1
n = 4
"""


def stack(
    imports: dict[str, Any] | None = None, engine: str | None = "vllm", **versions: Any
) -> list[Check]:
    answer = {
        "python": "/usr/bin/python3",
        "versions": {**HOST, **versions},
        "imports": imports or {"verl": None, "flash_attn": None},
    }
    return preflight_stack.judge(answer, POD, START, {"engine": engine})


def one(checks: list[Check], identifier: str) -> Check:
    (found,) = (check for check in checks if check.id == identifier)
    return found


def test_a_host_that_was_set_up_by_hand_is_ok() -> None:
    checks = stack()
    assert {check.state for check in checks} == {"ok"}
    assert (
        "python 3.10.12, torch 2.9.0+cu128, vllm 0.12.0, flash_attn 2.8.3, cuda 12.8"
        in checks[0].why
    )
    assert "from a checkout" in one(checks, "verl-missing").why
    assert "verl 0.6.1" in one(stack(verl="0.6.1"), "verl-missing").why


def test_a_wheel_that_does_not_fit_its_torch_blocks() -> None:
    problem = "ImportError: undefined symbol: _ZN3c104cuda9SetDeviceEab"
    assert one(stack({"verl": None, "flash_attn": problem}), "flash-attn-abi").state == "blocking"
    assert one(stack({"verl": problem, "flash_attn": None}), "verl-missing").state == "blocking"


def test_the_engine_of_the_rollouts_is_installed() -> None:
    check = one(stack(engine="sglang"), "rollout-engine")
    assert check.state == "blocking"
    assert "rollout.name=vllm" in check.fix
    assert one(stack(engine="hf"), "rollout-engine").state == "unknown"
    assert "rollout-engine" not in {check.id for check in stack(engine=None)}  # an SFT has none


def test_nothing_that_was_not_seen_is_ok() -> None:
    assert {check.state for check in preflight_stack.judge({"unknown": "no"}, POD, START)} == {
        "unknown"
    }
    assert one(stack({"flash_attn": None}), "verl-missing").state == "unknown"


@pytest.mark.parametrize(("free", "state"), [(67, "blocking"), (68, "ok")])
def test_checkpoints_have_verls_size_and_one_more_than_are_kept_has_to_fit(
    free: int, state: str
) -> None:
    facts = run(
        model="Qwen/Qwen2.5-Math-1.5B",
        keep_last=3.0,
        bytes_each=12.0,
        ports=[],
        disk={"free": free * GIB},
    )
    checks = start.judge(facts, START)
    check = one(checks, "disk-next-checkpoint")
    assert (check.state, "1.5B x 12 bytes" in check.why) == (state, True)
    assert "port-in-use" not in {check.id for check in checks}


def test_a_short_run_never_has_as_many_as_are_kept() -> None:
    """Three steps to see that everything starts need one checkpoint's room and a second's, not
    four.
    """
    facts = run(
        model="a/b-1.5B",
        keep_last=3.0,
        interval=3.0,
        max_steps=3.0,
        bytes_each=12.0,
        ports=[],
        disk={"free": 40 * GIB},
    )
    check = one(start.judge(facts, START), "disk-next-checkpoint")
    assert (check.state, "at most 2 of them" in check.why) == ("ok", True)


def test_what_limits_them_is_said_in_verls_words() -> None:
    facts = run(
        model="a/b-1.5B", keep_last=None, bytes_each=12.0, ports=[], disk={"free": 50 * GIB}
    )
    assert (
        "trainer.max_actor_ckpt_to_keep=3"
        in one(start.judge(facts, START), "keep-last-missing").fix
    )


def test_there_are_no_classes_to_be_asked_and_the_estimate_says_what_was_measured() -> None:
    checks = config.judge([("/root/verl/c.toml", CONFIG)], START, {}, {}, None)
    assert [(check.id, check.state) for check in checks] == [("config-rejected", "ok")]
    gpus = {"gpus": {"devices": [{"index": 0, "total": 80 * GIB}]}}
    told = config.memory([("/root/verl/c.toml", CONFIG)], START, gpus)
    assert "during rollouts (1 GPU)" in told
    assert any(line.startswith("Measured with verl: ") for line in told)


def test_what_is_really_started_is_linted() -> None:
    command = (
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=8 "
        "data.max_response_length=1536"
    )
    checks = config.judge([("/root/verl/c.toml", CONFIG)], START, {}, {"command": command}, None)
    assert one(checks, "V03").title == "c.toml, line 11"


async def test_a_whole_preflight_has_nothing_unknown() -> None:
    """What verl does not have is left out, not said to be unknown."""
    facts = {
        **FACTS,
        "run": run(model="own/small-1.5B", ports=[], engine="vllm", bytes_each=12.0, keep_last=3.0),
        "stack": {
            "python": "/p",
            "versions": {**HOST, "verl": "0.6.1"},
            "imports": {"verl": None, "flash_attn": None},
        },
    }
    found = await examine(
        Agent({name: part for name, part in facts.items() if name != "schema"}, CONFIG), START
    )
    assert [
        (check.id, check.state, check.why)
        for check in found.checks
        if check.state != "ok" and check.id not in NO_SOURCE
    ] == []
