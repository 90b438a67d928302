"""Several logs of one run, as a crash leaves them: the one cause is named, and what followed from
it in other processes is not.

Each log is only as long as the story needs. `dmesg.log` counts in dates, the others in times of
day, which is how real ones differ.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from bs4_console.checks.diagnose import diagnose

OOM_KILL = (
    "[Wed Nov 12 10:11:12 2025] Memory cgroup out of memory: Killed process 4100 ({name}) "
    "total-vm:245123456kB, anon-rss:130123456kB, file-rss:123456kB, shmem-rss:2048kB, UID:0 "
    "pgtables:301234kB oom_score_adj:0\n"
)
WATCHDOG = (
    "[rank0]:[E1112 10:21:12.5 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=808, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600030 milliseconds "
    "before timing out.\n"
    "[rank0]:[E1112 10:21:12.6 ProcessGroupNCCL.cpp:636] [Rank 0] To avoid data inconsistency, "
    "we are taking the entire process down.\n"
)
ACTOR_DIED = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. "
    "To troubleshoot the problem, check the "
    "logs for the dead worker.\n"
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
)

STORIES = {
    "wandb.init gives up and both sides end on it": (
        "wandb-unreachable",
        {
            "trainer.log": "10:00:00    INFO Starting RL trainer in World(world_size=1)\n"
            "10:01:31   ERROR An error has been caught in function 'train', process "
            "'MainProcess' (78), thread 'MainThread' (1):\n"
            "Traceback (most recent call last):\n"
            "wandb.errors.errors.CommError: Run initialization has timed out after 90.0 sec.\n"
            "E1112 10:01:33.101 78 torch/distributed/elastic/multiprocessing/api.py:874] failed "
            "(exitcode: 1) local_rank: 0 (pid: 78) of binary: /root/.venv/bin/python\n",
            "orchestrator.log": "10:01:32   ERROR Fatal error in orchestrate\n"
            "Traceback (most recent call last):\n"
            "wandb.errors.errors.CommError: Run initialization has timed out after 90.0 sec.\n",
            "rl.log": "10:01:34   ERROR Error: Trainer failed with exit code 1\n",
        },
    ),
    "a full disk ends the trainer, and the others wait for it in vain": (
        "disk-full",
        {
            "trainer.log": "10:10:00    INFO Saving checkpoint at step 20\n10:10:31   ERROR "
            "Fatal error in train\n"
            "Traceback (most recent call last):\n"
            "OSError: [Errno 28] No space left on device: "
            "'/data/outputs/checkpoints/step_20/trainer/__0_0.distcp'\n",
            "orchestrator.log": "10:11:20 WARNING Checkpoint step_20 did not become stable "
            "within 60 seconds\n"
            "10:11:30   ERROR Fatal error in orchestrate\nTraceback (most recent call last):\n"
            "httpx.ReadTimeout\n",
            "inference.log": "(APIServer pid=1) INFO:     Application startup complete.\n"
            "(APIServer pid=1) INFO:     Shutting down\n"
            "(APIServer pid=1) ERROR 11-12 10:11:40 [async_llm.py:480] AsyncLLM output_handler "
            "failed.\n",
            "rl.log": "10:10:32   ERROR Error: Trainer failed with exit code 1\n",
        },
    ),
    "two ranks have one GPU, and the launcher only knows that the trainer failed": (
        "nccl-duplicate-gpu",
        {
            "trainer.log": "10:10:31   ERROR Fatal error in train\nTraceback (most recent call "
            "last):\n"
            "torch.distributed.DistBackendError: NCCL error in: "
            "/pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, invalid usage (run with "
            "NCCL_DEBUG=WARN for details), NCCL version 2.21.5\n"
            "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
            "Last error:\n"
            "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 9000\n",
            "rl.log": "10:10:32   ERROR Error: Trainer failed with exit code 1\n",
        },
    ),
    "the engine does not know this transformers, and the others wait for the server": (
        "library-version-skew",
        {
            "inference.log": "(APIServer pid=75487) Traceback (most recent call last):\n"
            '(APIServer pid=75487)     raise AttributeError(f"{self.__class__.__name__} has no '
            'attribute {key}")\n'
            "(APIServer pid=75487) AttributeError: Qwen2Tokenizer has no attribute "
            "all_special_tokens_extended. Did you mean: 'num_special_tokens_to_add'?\n",
            "orchestrator.log": "10:11:20 WARNING Inference server was not reached after 60 "
            "seconds (Error: All connection attempts failed) on http://localhost:8000/\n",
            "rl.log": "10:11:32   ERROR Error: Inference failed with exit code 1\n",
        },
    ),
    "only the kernel knows why a rank is gone": (
        "host-oom-kill",
        {
            "dmesg.log": OOM_KILL.format(name="pt_main_thread"),
            "trainer.log": (
                "E1112 10:11:14.123000 4321 torch/distributed/elastic/multiprocessing/api.py:874] "
                "failed (exitcode: -9) local_rank: 1 (pid: 4100) of binary: "
                "/app/.venv/bin/python3\n"
            ),
        },
    ),
    "one rank runs out of GPU memory, the others wait ten minutes for it": (
        "cuda-oom",
        {
            "trainer.log": "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to "
            "allocate 18.55 "
            "GiB.\n"
            + WATCHDOG
            + "E1112 10:21:14.123000 4321 torch/distributed/elastic/multiprocessing/api.py:874] "
            "failed (exitcode: -6) local_rank: 0 (pid: 41)\n",
            "orchestrator.log": (
                "10:21:30   ERROR Fatal error in orchestrate\nTraceback (most recent call "
                "last):\nhttpx.ReadTimeout\n"
            ),
        },
    ),
    "verl's actor is killed by the kernel": (
        "host-oom-kill",
        {"dmesg.log": OOM_KILL.format(name="ray::WorkerDict"), "trainer.log": ACTOR_DIED},
    ),
    "verl's actor aborts itself after its neighbour": (
        "nccl-timeout",
        {
            "trainer.log": "".join(
                f"(WorkerDict pid=278) {line}\n" for line in WATCHDOG.splitlines()
            )
            + ACTOR_DIED
        },
    ),
    "the kernel ends a worker of vLLM, and rollouts fail": (
        "host-oom-kill",
        {
            "dmesg.log": OOM_KILL.format(name="VLLM::Worker"),
            "inference.log": "(EngineCore_DP0 pid=300) ERROR 11-12 10:11:13 "
            "[multiproc_executor.py:230] Worker proc VllmWorker-1 died "
            "unexpectedly, shutting down executor.\n"
            "(EngineCore_DP0 pid=300) ERROR 11-12 10:11:13 [core.py:710] EngineCore encountered "
            "a fatal error.\n",
            "orchestrator.log": "10:11:20   ERROR Fatal error in orchestrate\nTraceback (most "
            "recent call last):\n"
            "openai.APIConnectionError: Connection error.\n",
        },
    ),
}


def write(directory: Path, logs: Mapping[str, str]) -> None:
    """As if just after their last lines: those have no date, so whatever the hour of the test is
    must not decide on which day they are.
    """
    written = time.mktime((2026, 11, 12, 10, 30, 0, 0, 0, -1))
    for name, text in logs.items():
        (directory / name).write_text(text)
        os.utime(directory / name, (written, written))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.replace(" ", "-"))
def test_the_cause_is_named_alone(story: str, tmp_path: Path) -> None:
    cause, logs = STORIES[story]
    write(tmp_path, logs)
    assert [finding["id"] for finding in diagnose([tmp_path])["findings"]] == [cause]


def test_a_store_that_was_slow_long_before_explains_nothing(tmp_path: Path) -> None:
    """What happened an hour before the disk was full is a story of its own."""
    _, logs = STORIES["a full disk ends the trainer, and the others wait for it in vain"]
    early = (
        "09:11:20 WARNING Checkpoint step_10 did not become stable within 60 seconds\n09:12:00   "
        " INFO Waiting for checkpoint 10\n"
    )
    write(
        tmp_path,
        {"orchestrator.log": early + logs["orchestrator.log"], "trainer.log": logs["trainer.log"]},
    )
    assert {"disk-full", "checkpoint-no-stable"} <= {
        finding["id"] for finding in diagnose([tmp_path])["findings"]
    }
