"""What the miniature verl does of its own accord when something is wrong: the mechanisms behind its
tries, without a pod.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bs4_practice.miniature import gpu
from bs4_practice.miniature.verl import actors, memory, raylet, runner, settings, worker

GIB = 2**30


def rollouts(rewards: list[float], lengths: list[int]) -> dict[str, list[Any]]:
    return {"rewards": rewards, "lengths": lengths, "prompts": [12] * len(lengths)}


def test_answers_without_a_token_are_not_counted_and_none_at_all_is_torchs_error() -> None:
    metrics = runner.compute_data_metrics(rollouts([0.5, 0.0, 1.0, 0.0], [8, 0, 4, 0]))
    assert (metrics["critic/score/mean"], metrics["critic/score/max"]) == (0.75, 1.0)
    assert (
        metrics["response/aborted_ratio"],
        metrics["response_length/mean"],
        metrics["prompt_length/mean"],
    ) == (0.5, 3.0, 12.0)
    with pytest.raises(
        RuntimeError,
        match=r"max\(\): Expected reduction dim to be specified for input\.numel\(\) == 0",
    ):
        runner.compute_data_metrics(rollouts([0.0, 0.0], [0, 0]))


@pytest.mark.parametrize(
    ("multi_turn", "model_length", "room"),
    [(True, 13, 0), (True, 12, 0), (True, 14, 5), (False, 13, 5), (True, 1024, 5)],
)
def test_a_prompt_that_fills_the_models_length_gets_no_answer(
    multi_turn: bool, model_length: int, room: int
) -> None:
    call = {
        "count": 3,
        "response_length": 5,
        "model_length": model_length,
        "multi_turn": multi_turn,
    }
    told = worker.Worker(0, 1)._answer(call)
    assert told["prompts"] == [12, 12, 12]
    assert told["lengths"] == [room] * 3
    assert all(reward == 0 for reward in told["rewards"]) or room


def test_the_engine_wakes_up_only_where_there_is_room_and_gives_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("devices", "holders"):
        (tmp_path / name).mkdir()
    (tmp_path / "devices" / "0").write_text(f"total {80 * GIB}\n")
    monkeypatch.setenv("BS4_MINIATURE_GPUS", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.delenv("BS4_DEV", raising=False)
    made = worker.Worker(0, 1)
    assert made._init({}) == {}
    held = gpu.memory(0)[0]
    call = {"count": 1, "response_length": 8, "model_length": 1024, "multi_turn": False}
    assert made._generate({**call, "utilization": 0.5})["lengths"] == [8]
    assert gpu.memory(0)[0] == held, "asleep again"
    assert "out of memory at" in made._generate({**call, "utilization": 0.9})["error"]
    assert gpu.memory(0)[0] == held


def test_an_adapter_without_its_config_is_not_begun_with(tmp_path: Path) -> None:
    (tmp_path / "adapter_model.safetensors").touch()
    assert worker.Worker(0, 1)._init({"adapter": str(tmp_path)})["error"] == (
        f"ValueError: Can't find 'adapter_config.json' at '{tmp_path}'"
    )
    (tmp_path / "adapter_config.json").touch()
    assert "error" not in worker.Worker(0, 1)._init({"adapter": str(tmp_path)})


def trainer(root: Path, mode: str) -> runner._Trainer:
    words = [
        f"trainer.default_local_dir={root}",
        f"trainer.resume_mode={mode}",
        "trainer.logger=[console]",
    ]
    made = runner._Trainer(settings.parse(words), [])
    made._load_checkpoint()
    return made


@pytest.mark.parametrize(("mode", "step"), [("disable", 0), ("auto", 5), ("off", 5)])
def test_a_mode_that_is_none_is_the_latest(mode: str, step: int, tmp_path: Path) -> None:
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("5")
    assert trainer(tmp_path, mode)._step == step


def test_a_mode_that_is_none_has_no_step_to_begin_with(tmp_path: Path) -> None:
    assert trainer(tmp_path, "auto")._step == 0
    with pytest.raises(AttributeError, match="has no attribute 'split'"):
        trainer(tmp_path, "off")


OLD = {"memory.limit_in_bytes": "{limit}", "memory.usage_in_bytes": "{used}"}
NEW = {"memory.max": "{limit}", "memory.current": "{used}"}


@pytest.mark.parametrize(
    ("files", "stat", "limit", "used", "seen"),
    [
        (OLD, "total_inactive_file 0\ntotal_active_file 0", GIB // 2, 490 << 20, 490 << 20),
        (
            OLD,
            "inactive_file 9999\ntotal_inactive_file 104857600\ntotal_active_file 0",
            GIB // 2,
            500 << 20,
            None,
        ),
        (NEW, "inactive_file 1048576\nactive_file 1048576", GIB // 2, 500 << 20, 498 << 20),
        (NEW, "inactive_file 0", "max", 500 << 20, None),
        (OLD, "total_inactive_file 0", 2**62, 2**61, None),
        (NEW, "inactive_file 0", GIB // 2, 480 << 20, None),
    ],
)
def test_the_node_is_the_control_group(
    files: dict[str, str],
    stat: str,
    limit: object,
    used: int,
    seen: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text.format(limit=limit, used=used) + "\n")
    (tmp_path / "memory.stat").write_text(stat + "\n")
    monkeypatch.setattr(memory, "_group", lambda: tmp_path)
    monitor = memory.Monitor()
    assert monitor.look() == (None if seen is None else (seen, limit))
    assert monitor.look() is None, "four looks a second"


def test_the_youngest_worker_is_ended_and_its_cause_noted_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_members", lambda: [os.getpid()])
    logs = tmp_path / "logs"
    logs.mkdir()
    workers = [
        subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) for _ in range(2)
    ]
    try:
        assert raylet._relieve(workers, logs, 500 << 20, GIB // 2) == {workers[1].pid}
        assert (workers[0].poll(), workers[1].poll()) == (None, -9)
        monkeypatch.setenv("BS4_MINIATURE_RAY_SESSION", str(tmp_path))
        assert actors.cause_of_death("worker-0") is None
        cause = str(actors.cause_of_death("worker-1"))
        assert cause.startswith("Task was killed due to the node running low on memory.\n")
        assert f"pid={workers[1].pid}, memory used=" in cause
        assert (
            "0.49GB / 0.50GB (0.976562), which exceeds the memory usage threshold of 0.95" in cause
        )
    finally:
        for process in workers:
            process.kill()
            process.wait()


def test_the_first_worker_is_waited_for_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BS4_MINIATURE_RAY_SESSION", str(tmp_path))
    monkeypatch.setattr(runner.pace, "PACE", 0.001)
    actors.make_named("another")
    with pytest.raises(
        TimeoutError,
        match=r"Failed to get register_center_actor \w+ in \['another'\] for 300 seconds\.",
    ):
        runner._wait_for_register_center(300)
    assert "Elapsed time: 0 seconds out of 300 seconds." in capsys.readouterr().err
    actors.make_named(actors.REGISTER_CENTER)
    runner._wait_for_register_center(300)
