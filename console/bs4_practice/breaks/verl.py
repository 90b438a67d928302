"""verl's own ways to fail: killed processes, a disk or a memory that Ray finds full, words that it
refuses or takes for others, answers without a token, and steps beyond the plan.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from bs4_practice import disks, faults, limits, tree
from bs4_practice.person import (
    edit_config,
    recover,
    replace_in_config,
    restore_and_recover,
    start_afresh,
    with_config,
)
from bs4_practice.scenario import VERL, Scenario, nothing, start, train, train_longer
from bs4_practice.stage import Stage
from bs4_practice.threads import to_its_end


async def kill_worker(stage: Stage) -> None:
    """Kill the run's first Ray worker, which holds a trainer rank, with SIGKILL."""
    faults.kill(faults.find(stage.pod, "ray-worker")[0])


async def kill_task_runner(stage: Stage) -> None:
    """Kill the task runner of the verl run (the Ray process that directs the training) with
    SIGKILL.
    """
    faults.kill(faults.find(stage.pod, "task-runner")[0])


async def kill_driver(stage: Stage) -> None:
    """Kill the driver of the verl run, the process that was started by hand, with SIGKILL."""
    faults.kill(faults.find(stage.pod, "launcher")[0])


async def tear_newest(stage: Stage) -> None:
    """Kill verl's driver, and make the newest checkpoint look as if that had happened while a rank
    was writing: half of the second rank's file is there, `data.pt` is missing, and the file with
    the number of the latest step still names the step before. The checkpoint is dated 10 minutes
    back, so that nobody can take it for one that is still being written. Raises StageError if the
    task runner has not ended after 30 seconds.
    """
    await kill_driver(stage)
    await stage.until(
        lambda: not faults.find(stage.pod, "task-runner"), 30, "the end of the task runner"
    )
    root = stage.pod.run_dir / "checkpoints"
    steps = sorted(root.glob("global_step_*"), key=lambda path: int(path.name.rpartition("_")[2]))
    file = steps[-1] / "actor" / "model_world_size_2_rank_1.pt"
    os.truncate(file, file.stat().st_size // 2)
    (steps[-1] / "data.pt").unlink(missing_ok=True)
    (root / "latest_checkpointed_iteration.txt").write_text(steps[-2].name.rpartition("_")[2])
    for path in [steps[-1], *steps[-1].rglob("*")]:
        os.utime(path, (time.time() - _LONG_AGO_S,) * 2)


async def train_with_a_small_ray_disk(stage: Stage) -> None:
    """Give the directory of Ray's files on the pod a small disk of its own (16 MiB), launch the
    run, and wait until step 7 has finished. Raises StageError if that takes longer than two
    minutes.
    """
    await to_its_end(disks.give_own_disk, stage, _rays(stage), 16)
    await train(stage)


async def fill_rays_disk(stage: Stage) -> None:
    """Fill the disk of Ray's directory until 97 percent of the disk are used. Raises OSError if the
    disk cannot be written to.
    """
    disks.fill_to(_rays(stage), 97)


async def free_rays_disk(stage: Stage) -> None:
    """Move the file that fills Ray's disk into the project's directory, and have the agent resume
    the run. Raises StageError if it cannot be resumed.
    """
    shutil.move(_rays(stage) / "somebody-elses.tar", stage.pod.project)
    await recover(stage)


def _rays(stage: Stage) -> Path:
    return stage.pod.root / "tmp" / "ray"


async def stop_workers_at_their_start(stage: Stage) -> None:
    """Launch the run, and stop both Ray workers with SIGSTOP before they have registered with Ray,
    as happens to workers whose GPU does not answer. Raises TimeoutError if two workers are not
    stopped within 60 seconds. Raises StageError if the run cannot be started.
    """
    await start(stage)
    paused: set[int] = set()

    def all_paused() -> bool:
        for worker in faults.find(stage.pod, "ray-worker"):
            if worker.pid not in paused and faults.pause(worker):
                paused.add(worker.pid)
        return len(paused) == 2

    await faults.until(all_paused, 60, "two workers that can be held up")


async def fill_its_memory(stage: Stage) -> None:
    """Put the run's processes into a control group of 512 MiB, and start another program in the
    group, which takes 97 percent of that memory. The group is removed when the pod is gone. Raises
    OSError if the group cannot be made.
    """
    held = contextlib.ExitStack()
    group = held.enter_context(limits.memory_group(stage.pod.root.parent.name))
    stage.afterwards(held.close)
    launcher = faults.find(stage.pod, "launcher")[0]
    for process in [launcher, *tree.below(launcher.pid)]:
        limits.confine(group, process, _MACHINE_BYTES)
    words = [
        "python3",
        "-c",
        _SOMEBODY_ELSE,
        str(group / "cgroup.procs"),
        str(_MACHINE_BYTES * 97 // 100),
    ]
    await stage.pod.spawn(words, cwd=stage.pod.home)


async def end_the_other_and_go_on(stage: Stage) -> None:
    """Kill the program that `fill_its_memory` has started, and have the agent resume the run.
    Raises StageError if it cannot be resumed.
    """
    for process in stage.pod.processes():
        if _SOMEBODY_ELSE in process.cmdline:
            faults.kill(process)
    await recover(stage)


async def start_by_hand_with_a_mode_that_is_none(stage: Stage) -> None:
    """Stop the run, and start it again by hand with the same command line and with
    `trainer.resume_mode=off`, which is no mode that verl knows. A person who wants the run to begin
    anew may do so; the console refuses such a start. The output goes to `by-hand.log` in the pod's
    home directory.
    """
    shown = faults.find(stage.pod, "launcher")[0].cmdline
    await stage.must("stop", run="demo")
    words = [word for word in shown if not word.startswith("trainer.resume_")]
    await stage.pod.spawn([*words, "trainer.resume_mode=off"], log=stage.pod.home / "by-hand.log")


async def start_from_half_an_adapter(stage: Stage) -> None:
    """Write a LoRA adapter that has its weights but no config, name it in the run's config, and
    launch the run. Does not wait for the run's first step. Raises StageError if the run cannot be
    started.
    """
    adapter = stage.pod.project / "adapter"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(b"\0" * 64)
    edit_config(stage, {"actor_rollout_ref.model.lora_adapter_path": str(adapter)})
    await start(stage)


async def train_on_a_small_disk_without_rotation(stage: Stage) -> None:
    """Give the output directory a small disk of its own (96 MiB), remove the limit on the number of
    checkpoints from the config, launch the run, and wait until step 7 has finished. Raises
    StageError if that takes longer than two minutes.
    """
    await to_its_end(disks.give_own_disk, stage, stage.pod.output_dir, 96)
    replace_in_config(stage, "max_actor_ckpt_to_keep = 100\n", "")
    await train(stage)


async def train_beyond_the_plan(stage: Stage) -> None:
    """Launch a run whose config announces six steps but does not end the training after them, only
    after a number of epochs. Wait until step 4 has finished. Raises StageError if that takes longer
    than two minutes.
    """
    replace_in_config(stage, "total_training_steps = 10000\n", "")
    edit_config(stage, {"plan.steps": _PLANNED})
    await train(stage, steps=_PLANNED - 2)


_PLANNED = 6
_MACHINE_BYTES = 512 * disks.MIB
_SOMEBODY_ELSE = (
    "import os, pathlib, signal, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); "
    "held = bytearray(b'x') * int(sys.argv[2]); signal.pause()"
)
_LONG_AGO_S = 600
ONLY = (VERL,)
ALL = (
    Scenario("ray-worker-died", "ray-worker-died", ONLY, train, kill_worker),
    Scenario("ray-worker-died/task-runner", "ray-worker-died", ONLY, train, kill_task_runner),
    Scenario("trainer-exited", "trainer-exited", ONLY, train, kill_driver),
    Scenario("checkpoint-torn/tracker", "checkpoint-torn", ONLY, train_longer, tear_newest),
    Scenario(
        "nan-loss/any-metric",
        "nan-loss",
        ONLY,
        nothing,
        with_config(lambda _: {"actor_rollout_ref.actor.optim.lr": 1e308}),
        repair=restore_and_recover,
    ),
    Scenario(
        "verl-hydra-override",
        "verl-hydra-override",
        ONLY,
        nothing,
        with_config(lambda _: {"rollout.n": 4}),
        repair=restore_and_recover,
    ),
    Scenario(
        "verl-overshoot",
        "verl-overshoot",
        ONLY,
        train_beyond_the_plan,
        nothing,
        repair=restore_and_recover,
    ),
    Scenario(
        "ray-spill-disk-full",
        "ray-spill-disk-full",
        ONLY,
        train_with_a_small_ray_disk,
        fill_rays_disk,
        repair=free_rays_disk,
        needs=disks.needs_mounts,
    ),
    Scenario(
        "ray-register-timeout",
        "ray-register-timeout",
        ONLY,
        nothing,
        stop_workers_at_their_start,
        repair=recover,
        pod={"pace": 0.03, "env": {"BS4_MINIATURE_REGISTER_CENTER": "1"}},
    ),
    Scenario(
        "ray-low-memory",
        "ray-low-memory",
        ONLY,
        train,
        fill_its_memory,
        repair=end_the_other_and_go_on,
        needs=limits.needs_memory_groups,
    ),
    Scenario(
        "verl-all-aborted",
        "verl-all-aborted",
        ONLY,
        nothing,
        # A prompt of the practice environment has 12 tokens, so nothing is left for an answer.
        with_config(
            lambda _: {
                "actor_rollout_ref.rollout.name": "sglang",
                "actor_rollout_ref.rollout.multi_turn.enable": True,
                "data.max_prompt_length": 12,
                "data.max_response_length": 1,
            }
        ),
        repair=restore_and_recover,
    ),
    Scenario(
        "verl-wake-oom",
        "verl-wake-oom",
        ONLY,
        nothing,
        with_config(lambda _: {"actor_rollout_ref.rollout.gpu_memory_utilization": 0.9}),
        repair=restore_and_recover,
    ),
    Scenario(
        "adapter-incomplete",
        "adapter-incomplete",
        ONLY,
        nothing,
        start_from_half_an_adapter,
        repair=restore_and_recover,
    ),
    Scenario(
        "offload-slow",
        "offload-slow",
        ONLY,
        nothing,
        with_config(lambda _: {"actor_rollout_ref.actor.fsdp_config.param_offload": True}),
        repair=restore_and_recover,
    ),
    Scenario(
        "checkpoints-off",
        "checkpoints-off",
        ONLY,
        nothing,
        with_config(lambda _: {"trainer.save_freq": -1}),
        repair=restore_and_recover,
    ),
    Scenario(
        "keep-last-missing",
        "keep-last-missing",
        ONLY,
        train_on_a_small_disk_without_rotation,
        nothing,
        repair=restore_and_recover,
        needs=disks.needs_mounts,
    ),
    Scenario(
        "resume-mode-not-off",
        "resume-mode-not-off",
        ONLY,
        train,
        start_by_hand_with_a_mode_that_is_none,
        repair=start_afresh,
    ),
    Scenario(
        "ray-leftover-processes",
        "ray-leftover-processes",
        ONLY,
        train,
        kill_driver,
        repair=recover,
        detect_s=150.0,
    ),
)
