"""A preflight of a start in a container: every check says which side was asked."""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.preflight import host as preflight_host
from bs4_console.preflight import pod as preflight_pod
from bs4_console.preflight import services as preflight_services
from bs4_console.preflight import stack as preflight_stack
from bs4_console.preflight.checks import GIB, Check, Wanted
from bs4_console.preflight.examine import examine
from tests.console.preflight.test_examine import FACTS, NO_SOURCE, Agent
from tests.console.preflight.test_pod import pod
from tests.console.preflight.test_services import GOOD
from tests.console.preflight.test_start import run
from tests.console.preflight.test_verl import CONFIG, HOST, one

START = Wanted(trainer="verl", config="c.toml", run="demo", cwd="verl", container="trainer")
STACK = {
    "python": "/workspace/verl/.venv/bin/python3",
    "container": "trainer",
    "versions": {**HOST, "verl": "0.6.1"},
    "imports": {"verl": None, "flash_attn": None},
}
SMALL = {"free": 60 << 20, "total": 64 << 20}


def inside(checks: list[Check]) -> set[str]:
    return {check.title for check in checks if check.why.startswith("In container trainer: ")}


def test_python_and_limits_are_the_containers_and_the_gpus_the_machines() -> None:
    found = pod(container="trainer", nofile={"soft": 512.0, "hard": 1048576.0}, shm=SMALL)
    checks = preflight_pod.judge(found, None, START)
    assert inside(checks) == {"open files", "shared memory"}
    assert "docker run --ulimit nofile=65536:65536" in one(checks, "fd-limit-low").fix
    assert "pods setup" not in one(checks, "fd-limit-low").fix, "a set-up orders nothing in there"
    assert one(checks, "dev-shm-full").state == "blocking", (
        "Docker's own 64 MiB are not enough for Ray"
    )
    sides = one(checks, "container")
    assert (sides.state, "on the machine: GPUs, driver, disks" in sides.why) == ("ok", True)
    stack = preflight_stack.judge(STACK, found, START, {"engine": "vllm"})
    assert inside(stack) == {check.title for check in stack}
    assert {check.state for check in stack} == {"ok"}
    assert "/workspace/verl/.venv/bin/python3" in stack[0].why


def test_nothing_is_said_of_a_container_where_none_is_meant() -> None:
    plain = Wanted(trainer="verl", config="c.toml", run="demo", cwd="verl")
    assert "container" not in {check.id for check in preflight_pod.judge(pod(), None, plain)}
    assert inside(preflight_stack.judge({**STACK, "container": ""}, pod(), plain)) == set()


@pytest.mark.parametrize(
    ("answer", "says"),
    [({"unknown": "Docker knows no container trainer."}, "knows no container"), (None, "is older")],
)
def test_a_container_that_was_not_looked_into_is_unknown(answer: Any, says: str) -> None:
    checks = preflight_pod.judge(pod(container=answer, nofile=None, shm=None), None, START)
    assert [one(checks, name).state for name in ("container", "fd-limit-low", "dev-shm-full")] == [
        "unknown"
    ] * 3
    assert says in one(checks, "container").why


def test_credentials_are_the_containers_own_and_the_stores_are_the_machines() -> None:
    absent = {"token": "absent", "state": "absent", "detail": "neither HF_TOKEN nor a token file"}
    services = {
        "hub": absent,
        "wandb": absent,
        "b2": {**GOOD, "missing": ["writeFiles"]},
        "model": None,
        "container": "trainer",
    }
    checks = preflight_services.judge(services, run(wandb=True, model="x"), START, 0.0)
    assert inside(checks) == {"Hugging Face token", "W&B key", "model"}
    wandb = one(checks, "wandb-auth")
    assert (
        wandb.state,
        "docker exec -it trainer wandb login" in wandb.fix,
        "pods setup" in wandb.fix,
    ) == ("blocking", True, False)
    assert "pods setup" in one(checks, "object-store-auth").fix


def test_a_machine_for_verl_through_its_container() -> None:
    cuda = {"torch": "2.8.0", "cuda": "12.8", "available": True, "devices": 2}
    host = {
        "container": "trainer",
        "project": "/workspace/verl",
        "memory": {"used": 1, "total": 64 * GIB},
        "disk": {"free": 512 * GIB, "total": 999 * GIB},
        "cuda": cuda,
    }
    wanted = Wanted(trainer="verl", cwd="verl", container="trainer")
    assert wanted.body() == {"cwd": "verl", "urls": {}, "trainer": "verl", "container": "trainer"}
    checks = preflight_host.judge(host, STACK, wanted)
    assert inside(checks) == {
        "project directory",
        "torch and the GPUs",
        "rollout engine",
        "host memory",
    }
    assert not one(checks, "disk-high").why.startswith("In container")
    missing = preflight_host.judge({**host, "project": None}, STACK, wanted)
    assert "mounted" in one(missing, "path-drift").why


async def test_a_whole_preflight_of_a_start_in_a_container_has_nothing_unknown() -> None:
    facts = {
        **FACTS,
        "pod": pod(environment={}, container="trainer"),
        "run": run(model="own/small-1.5B", ports=[], engine="vllm", bytes_each=12.0, keep_last=3.0),
        "stack": STACK,
        "services": {**FACTS["services"], "container": "trainer"},
    }
    agent = Agent({name: part for name, part in facts.items() if name != "schema"}, CONFIG)
    found = await examine(agent, START)
    assert [
        (check.id, check.state, check.why)
        for check in found.checks
        if check.state != "ok" and check.id not in NO_SOURCE
    ] == []
    assert next(body for op, body in agent.asked if op == "look")["container"] == "trainer"
