"""Of the pod: GPUs, their memory, limits."""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.preflight import pod as judges
from bs4_console.preflight.checks import GIB, Check, Wanted

GB = 1_000_000_000


def pod(**changes: Any) -> dict[str, Any]:
    """A healthy one."""
    gpus = {
        "state": "ok",
        "detail": "",
        "driver": "580.65.06",
        "pids": "local",
        "holders": [],
        "devices": [
            {"index": index, "used": 0, "total": 80 * GIB, "error": None} for index in (0, 1)
        ],
    }
    return {
        "gpus": {**gpus, **changes.pop("gpus", {})},
        "nofile": {"soft": 65536, "hard": 1048576},
        "shm": {"free": 16 * GIB, "total": 16 * GIB},
        **changes,
    }


def holder(**changes: Any) -> dict[str, Any]:
    return {
        "pid": 77,
        "gpu": 1,
        "command": "VLLM::EngineCore",
        "run": None,
        "dead_run": None,
        **changes,
    }


def busy(*holders: dict[str, Any]) -> dict[str, Any]:
    devices = [{"index": 0, "used": 0, "error": None}, {"index": 1, "used": 5 * GB, "error": None}]
    return {"devices": devices, "holders": list(holders)}


START = Wanted(trainer="prime-rl-2026-01", config="rl.toml", run="demo")


def judged(
    run: dict[str, Any] | None = None, wanted: Wanted = START, **changes: Any
) -> dict[str, Check]:
    return {check.id: check for check in judges.judge(pod(**changes), run, wanted)}


def test_a_healthy_pod_is_ok_throughout() -> None:
    assert {check.state for check in judged().values()} == {"ok"}
    assert len(judged()) == 5


@pytest.mark.parametrize("part", [None, {"unknown": "the driver hangs"}])
def test_a_part_that_is_not_there_leaves_everything_unknown(part: dict[str, Any] | None) -> None:
    checks = judges.judge(part, None, START)
    assert {check.state for check in checks} == {"unknown"}
    assert len(checks) == 5


@pytest.mark.parametrize(
    ("state", "word"), [("absent", "blocking"), ("error", "blocking"), ("stale", "unknown")]
)
def test_gpus_that_do_not_answer(state: str, word: str) -> None:
    checks = judged(gpus={"state": state, "detail": "driver not loaded", "devices": []})
    assert checks["cuda-driver-missing"].state == word
    assert "driver not loaded" in checks["cuda-driver-missing"].why
    assert checks["stale-gpu-process"].state == "unknown"


def test_a_lost_gpu_blocks() -> None:
    checks = judged(gpus={"devices": [{"index": 0, "used": 0, "error": "GPU is lost"}]})
    assert (checks["gpu-off-bus"].state, checks["gpu-off-bus"].playbook) == (
        "blocking",
        "gpu-off-bus",
    )


def test_memory_held_by_what_a_dead_run_left_names_the_command_that_ends_it() -> None:
    check = judged(gpus=busy(holder(dead_run="old")))["stale-gpu-process"]
    assert (check.state, check.playbook) == ("blocking", "stale-gpu-process")
    assert "pid 77 on GPU 1 (left behind by old)" in check.why
    assert "bs4-console stop --pod POD --run old" in check.fix


def test_memory_held_by_a_stranger_names_it_and_ends_nothing() -> None:
    check = judged(gpus=busy(holder()))["stale-gpu-process"]
    assert "of no known run" in check.why
    assert "ps -fp 77" in check.fix
    assert "bs4-console stop" not in check.fix


def test_memory_that_nobody_visible_holds_blocks_too() -> None:
    check = judged(gpus=busy())["stale-gpu-process"]
    assert check.state == "blocking"
    assert "no process that holds it can be seen" in check.why


def test_gpus_that_the_run_does_not_use_are_not_asked_of_it() -> None:
    assert judged({"gpu_ids": [0]}, gpus=busy(holder()))["stale-gpu-process"].state == "ok"
    assert judged({"gpu_ids": [0, 1]}, gpus=busy(holder()))["stale-gpu-process"].state == "blocking"


def test_gpus_that_the_start_leaves_idle_are_told() -> None:
    """A run for two GPUs that was moved to a pod with four: two were paid for and idle."""
    four = [{"index": i, "used": 0, "total": 80 * GIB, "error": None} for i in range(4)]
    check = judged({"gpu_ids": [0, 1]}, gpus={"devices": four})["idle-gpus"]
    assert check.state == "warning"
    assert "GPU 2, 3 of 4 would have no work: the run uses 0, 1." in check.why
    assert "inference_gpu_ids and trainer_gpu_ids" in check.fix
    assert judged({"gpu_ids": [0, 1, 2, 3]}, gpus={"devices": four})["idle-gpus"].state == "ok"
    # Where another run is at work nothing is idle.
    four[2]["used"] = four[3]["used"] = 40 * GB
    assert judged({"gpu_ids": [0, 1]}, gpus={"devices": four})["idle-gpus"].state == "ok"
    assert "idle-gpus" not in judged({"gpu_ids": None}, gpus={"devices": four})
    part = Wanted(trainer="verl", config="sft.toml", run="demo", component="sft")
    assert "idle-gpus" not in judged({"gpu_ids": [0]}, part, gpus={"devices": four})


def test_memory_that_cannot_be_read_is_unknown() -> None:
    check = judged(gpus={"devices": [{"index": 0, "used": None, "error": None}]})[
        "stale-gpu-process"
    ]
    assert check.state == "unknown"


@pytest.mark.parametrize(
    ("limits", "state"),
    [
        ({"soft": 1024, "hard": 1048576}, "ok"),  # vLLM raises its own
        ({"soft": 65536, "hard": 65536}, "ok"),
        ({"soft": 32000, "hard": 32000}, "warning"),
        ({"soft": 256, "hard": 1048576}, "warning"),
        ({}, "unknown"),
        (None, "unknown"),
    ],
)
def test_limits(limits: Any, state: str) -> None:
    assert judged(nofile=limits)["fd-limit-low"].state == state


@pytest.mark.parametrize(
    ("usage", "state"),
    [
        ({"free": 16 * GIB, "total": 16 * GIB}, "ok"),
        ({"free": GIB // 2, "total": GIB}, "warning"),
        ({"free": 60 << 20, "total": 64 << 20}, "blocking"),
        ({"free": None, "total": None}, "unknown"),
    ],
)
def test_shared_memory(usage: dict[str, Any], state: str) -> None:
    assert judged(shm=usage)["dev-shm-full"].state == state


@pytest.mark.parametrize(
    ("component", "serves", "word"),
    [
        ("rl", True, "blocking"),
        ("rl", False, "warning"),
        ("trainer", False, "warning"),
        ("inference", True, "warning"),
        ("orchestrator", False, "ok"),
    ],
)
def test_the_other_parts_of_a_run_may_hold_gpus(component: str, serves: bool, word: str) -> None:
    wanted = Wanted(trainer="prime-rl-2026-01", config="rl.toml", run="demo", component=component)
    assert (
        judged({"serves_itself": serves}, wanted, gpus=busy(holder(run="inference")))[
            "stale-gpu-process"
        ].state
        == word
    )
    stranger = judged(
        {"serves_itself": serves}, wanted, gpus=busy(holder(run="inference"), holder(pid=78))
    )["stale-gpu-process"]
    assert stranger.state == ("ok" if component == "orchestrator" else "blocking")
