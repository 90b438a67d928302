"""verl's own ways to fail: killed processes, a disk that Ray fills, words that it refuses, and steps beyond the plan."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path

from bs4_console.demo import disks, faults
from bs4_console.demo.person import edit_config, recover, replace_in_config, restore_and_recover, with_config
from bs4_console.demo.scenario import VERL, Scenario, nothing, train, train_longer
from bs4_console.demo.stage import Stage


async def kill_worker(stage: Stage) -> None:
    faults.kill(faults.find(stage.pod, "ray-worker")[0])


async def kill_task_runner(stage: Stage) -> None:
    faults.kill(faults.find(stage.pod, "task-runner")[0])


async def kill_driver(stage: Stage) -> None:
    faults.kill(faults.find(stage.pod, "launcher")[0])


async def tear_newest(stage: Stage) -> None:
    """As a driver that is killed while a rank still writes leaves it, and as long ago as nobody can be writing any more."""
    await kill_driver(stage)
    await stage.until(lambda: not faults.find(stage.pod, "task-runner"), 30, "the end of the task runner")
    root = stage.pod.run_dir / "checkpoints"
    steps = sorted(root.glob("global_step_*"), key=lambda path: int(path.name.rpartition("_")[2]))
    file = steps[-1] / "actor" / "model_world_size_2_rank_1.pt"
    os.truncate(file, file.stat().st_size // 2)
    (steps[-1] / "data.pt").unlink(missing_ok=True)
    (root / "latest_checkpointed_iteration.txt").write_text(steps[-2].name.rpartition("_")[2])
    for path in [steps[-1], *steps[-1].rglob("*")]:
        os.utime(path, (time.time() - _LONG_AGO_S,) * 2)


async def train_with_a_small_ray_disk(stage: Stage) -> None:
    await asyncio.to_thread(disks.give_own_disk, stage, _rays(stage), 16)
    await train(stage)


async def fill_rays_disk(stage: Stage) -> None:
    disks.fill_to(_rays(stage), 97)


async def free_rays_disk(stage: Stage) -> None:
    shutil.move(_rays(stage) / "somebody-elses.tar", stage.pod.project)
    await recover(stage)


def _rays(stage: Stage) -> Path:
    return stage.pod.root / "tmp" / "ray"


async def train_beyond_the_plan(stage: Stage) -> None:
    """Epochs alone say how long it trains."""
    replace_in_config(stage, "total_training_steps = 10000\n", "")
    edit_config(stage, {"plan.steps": _PLANNED})
    await train(stage, steps=_PLANNED - 2)


_PLANNED = 6
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
        "verl-hydra-override", "verl-hydra-override", ONLY, nothing, with_config(lambda _: {"rollout.n": 4}), repair=restore_and_recover
    ),
    Scenario("verl-overshoot", "verl-overshoot", ONLY, train_beyond_the_plan, nothing, repair=restore_and_recover),
    Scenario(
        "ray-spill-disk-full",
        "ray-spill-disk-full",
        ONLY,
        train_with_a_small_ray_disk,
        fill_rays_disk,
        repair=free_rays_disk,
        needs=disks.needs_mounts,
    ),
    Scenario("ray-leftover-processes", "ray-leftover-processes", ONLY, train, kill_driver, repair=recover, detect_s=150.0),
)
