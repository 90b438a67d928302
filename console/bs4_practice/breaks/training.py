"""The trainer's ranks and what they train: signals, memory, and steps that lead nowhere."""

from __future__ import annotations

import contextlib
import signal

from bs4_practice import disks, faults, limits
from bs4_practice.person import edit_config, restore_and_recover, with_config
from bs4_practice.scenario import BOTH, NEW, OLD, Act, Scenario, nothing, train
from bs4_practice.stage import Stage

#: Two ranks: three GPUs, of which inference takes one.
_TWO_RANKS = {"gpus": 3}
_FAST = {"step_seconds": 0.15}


async def kill_rank(stage: Stage) -> None:
    """Kill the run's first trainer rank with SIGKILL."""
    faults.kill(faults.find(stage.pod, "rank")[0])


async def crash_rank(stage: Stage) -> None:
    """End the run's first trainer rank with SIGSEGV."""
    faults.crash(faults.find(stage.pod, "rank")[0], signal.SIGSEGV)


async def abort_rank(stage: Stage) -> None:
    """End the run's first trainer rank with SIGABRT, as NCCL's watchdog does to its own process."""
    faults.crash(faults.find(stage.pod, "rank")[0], signal.SIGABRT)


async def end_torchrun(stage: Stage) -> None:
    """Send SIGTERM to the run's torchrun, the parent of the trainer ranks."""
    faults.terminate(faults.find(stage.pod, "torchrun")[0])


async def stop_rank(stage: Stage) -> None:
    """Stop the run's first trainer rank with SIGSTOP; its process stays and does nothing."""
    faults.pause(faults.find(stage.pod, "rank")[0])


async def no_memory(stage: Stage) -> None:
    """Limit the memory that the first trainer rank may map to what it has mapped now, so that its
    next allocation fails.
    """
    limits.address_space(faults.find(stage.pod, "rank")[0])


async def no_files(stage: Stage) -> None:
    """Limit the files that the first trainer rank may open to what it has open now, so that it can
    open no other.
    """
    limits.open_files(faults.find(stage.pod, "rank")[0])


def two_ranks(stage: Stage) -> None:
    """Change the run's config so that the trainer has two ranks, each on its own GPU. Nothing is
    launched.
    """
    if stage.trainer == OLD:
        edit_config(stage, {"trainer_gpu_ids": [1, 2]})
    else:
        edit_config(stage, {"deployment.num_train_gpus": 2})


async def train_with_two_ranks(stage: Stage) -> None:
    """Launch a run with two trainer ranks, and wait until step 7 has finished. Raises StageError if
    that takes longer than two minutes.
    """
    two_ranks(stage)
    await train(stage)


async def stop_second_rank(stage: Stage) -> None:
    """Stop the second of the run's two trainer ranks with SIGSTOP; its process stays and does
    nothing.
    """
    ranks = sorted(faults.find(stage.pod, "rank"), key=lambda process: process.pid)
    faults.pause(ranks[1])


async def stop_second_rank_at_its_start(stage: Stage) -> None:
    """Launch a run with two trainer ranks and stop the second one with SIGSTOP as soon as both
    processes are there. Raises TimeoutError if that takes longer than 60 seconds. Raises StageError
    if the run cannot be started.
    """
    two_ranks(stage)
    await stage.launch(wait=False, preflight=False)
    ranks = await faults.wait_for(stage.pod, "rank", count=2, timeout=60)
    faults.pause(max(ranks, key=lambda process: process.pid))


def rate(value: float) -> Act:
    """Return a function that breaks a pod (the `inject` of a Scenario): it launches a run with the
    learning rate `value` and does not wait for its first step.
    """
    return with_config(lambda stage: {"trainer.optim.lr": value})


async def start_with_groups_of_one(stage: Stage) -> None:
    """Launch a run that generates only one rollout for each prompt. Advantages compare the rollouts
    of a prompt with each other, so that this run has none to train on. Does not wait for the run's
    first step. Raises StageError if the run cannot be started.
    """
    edit_config(stage, {"orchestrator.group_size": 1})
    await stage.launch(wait=False, preflight=False)


async def start_with_long_sequences(stage: Stage) -> None:
    """Launch a run with sequences of 24576 tokens, which do not fit into a GPU's memory. Does not
    wait for the run's first step. Raises StageError if the run cannot be started.
    """
    edit_config(stage, {"seq_len": 24576})
    await stage.launch(wait=False, preflight=False)


async def start_on_one_gpu(stage: Stage) -> None:
    """Launch a run whose inference server and trainer share GPU 0. Does not wait for the run's
    first step. Raises StageError if the run cannot be started.
    """
    edit_config(stage, {"inference_gpu_ids": [0], "trainer_gpu_ids": [0]})
    await stage.launch(wait=False, preflight=False)


async def outgrow_its_memory(stage: Stage) -> None:
    """Put the first trainer rank into a control group that allows it 16 MiB more memory, which is
    too little for the next checkpoint. The kernel then kills the rank and says so in the kernel
    log. The group is removed when the pod is gone. Raises OSError if the group cannot be made.
    """
    held = contextlib.ExitStack()
    group = held.enter_context(limits.memory_group(stage.pod.root.parent.name))
    stage.afterwards(held.close)
    limits.confine(group, faults.find(stage.pod, "rank")[0], 16 * disks.MIB)


async def few_files_at_all(stage: Stage) -> None:
    """Set the soft limit of open files to 256 for the trainer ranks and the orchestrator."""
    for process in faults.find(stage.pod, "rank") + faults.find(stage.pod, "orchestrator"):
        limits.soft_open_files(process.pid, 256)


ALL = (
    Scenario(
        "host-oom-kill",
        "host-oom-kill",
        BOTH,
        train,
        outgrow_its_memory,
        needs=limits.needs_memory_groups_and_kernel_log,
        pod={"env": {"BS4_MINIATURE_CHECKPOINT_BYTES": str(48 * disks.MIB)}},
    ),
    Scenario("fd-limit-low", "fd-limit-low", BOTH, train, few_files_at_all),
    Scenario("rank-sigkill", "rank-sigkill", BOTH, train, kill_rank),
    Scenario("rank-segfault", "rank-segfault", BOTH, train, crash_rank),
    Scenario("nccl-takedown", "nccl-takedown", BOTH, train, abort_rank),
    Scenario("trainer-exited", "trainer-exited", BOTH, train, end_torchrun),
    Scenario("run-stalled", "run-stalled", BOTH, train, stop_rank),
    Scenario(
        "host-memory-error",
        "host-memory-error",
        BOTH,
        train,
        no_memory,
        pod={"env": {"BS4_MINIATURE_CHECKPOINT_BYTES": str(8 * disks.MIB)}},
    ),
    Scenario("fd-limit", "fd-limit", BOTH, train, no_files),
    Scenario(
        "gloo-timeout",
        "gloo-timeout",
        BOTH,
        train_with_two_ranks,
        stop_second_rank,
        pod={**_TWO_RANKS, "pace": 0.004},
    ),
    Scenario(
        "rendezvous-timeout",
        "rendezvous-timeout",
        BOTH,
        nothing,
        stop_second_rank_at_its_start,
        pod={**_TWO_RANKS, "pace": 0.008},
    ),
    Scenario(
        "cuda-oom", "cuda-oom", BOTH, nothing, start_with_long_sequences, repair=restore_and_recover
    ),
    Scenario(
        "shared-gpu-budget",
        "shared-gpu-budget",
        (OLD,),
        nothing,
        start_on_one_gpu,
        repair=restore_and_recover,
    ),
    Scenario("nan-loss", "nan-loss", BOTH, nothing, rate(1e308), repair=restore_and_recover),
    Scenario(
        "few-trainable",
        "few-trainable",
        (NEW,),
        nothing,
        start_with_groups_of_one,
        repair=restore_and_recover,
        pod=_FAST,
    ),
)
