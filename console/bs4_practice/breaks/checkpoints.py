"""Checkpoints: bytes that changed, parts that are not there, steps that nobody has, disks that are
full.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from bs4_practice import disks, faults
from bs4_practice.person import aside, edit_config, recover
from bs4_practice.scenario import (
    BOTH,
    NEW,
    OLD,
    Scenario,
    complete,
    nothing,
    orchestrator_checkpoints,
    start,
    stopped,
    stopped_later,
    train,
    train_longer,
)
from bs4_practice.stage import Stage
from bs4_practice.threads import to_its_end

#: A checkpoint that weighs something beside a disk of a few megabytes.
_HEAVY = {"env": {"BS4_MINIATURE_CHECKPOINT_BYTES": str(disks.MIB)}}
_OLD_AGE_S = 900.0


async def flip_bytes_and_resume(stage: Stage) -> None:
    """Overwrite 512 bytes in the middle of the trainer's newest complete checkpoint, and launch the
    run again to resume from that checkpoint. Does not wait for the run's first step. Raises
    ValueError if the run has no complete checkpoint. Raises StageError if the run cannot be
    started.
    """
    newest = complete(stage)
    shard = stage.pod.run_dir / "checkpoints" / f"step_{newest}" / "trainer" / "__0_0.distcp"
    with shard.open("r+b") as out:
        out.seek(shard.stat().st_size // 2)
        out.write(b"\xff" * 512)
    await stage.launch(wait=False, preflight=False, resume=newest)


async def lose_a_part_and_resume(stage: Stage) -> None:
    """Rename the orchestrator's part of the newest complete checkpoint, so that only the trainer's
    part is left, and launch the run again to resume from that checkpoint. Does not wait for the
    run's first step. Raises ValueError if the run has no complete checkpoint. Raises StageError if
    the run cannot be started.
    """
    newest = complete(stage)
    aside(orchestrator_checkpoints(stage) / f"step_{newest}" / "orchestrator")
    await stage.launch(wait=False, preflight=False, resume=newest)


async def tear_newest(stage: Stage) -> None:
    """Make the newest checkpoint look as if its writer had died in the middle: kill the first
    trainer rank, wait until the console shows the run as failed, and move the file `.metadata`,
    which is written last, out of the newest complete checkpoint into the pod's home directory. All
    files of the run's directory are dated 15 minutes back.

    Raises StageError if the run has not failed after 60 seconds. Raises ValueError if the run has
    no complete checkpoint.
    """
    faults.kill(faults.find(stage.pod, "rank")[0])
    await stage.until(
        lambda: stage.session.state.runs["demo"].word == "failed", 60, "the end of the run"
    )
    directory = stage.pod.run_dir / "checkpoints" / f"step_{complete(stage)}"
    aside(directory / "trainer" / ".metadata").rename(stage.pod.home / "aside-metadata")
    _age(stage.pod.run_dir)


def _age(directory: Path) -> None:
    then = time.time() - _OLD_AGE_S
    for path in [*directory.rglob("*"), directory]:
        os.utime(path, (then, then))


async def resume_from_a_step_nobody_has(stage: Stage) -> None:
    """Launch the run to resume from the step that is 103 above its newest complete checkpoint; no
    checkpoint has that step. Does not wait for the run's first step. Raises ValueError if the run
    has no complete checkpoint. Raises StageError if the run cannot be started.
    """
    await stage.launch(wait=False, preflight=False, resume=complete(stage) + 103)


async def lose_all_and_resume(stage: Stage) -> None:
    """Move the run's checkpoints to `~/aside-checkpoints`, as if somebody had cleaned up, and start
    the run by hand with a bare `--resume`, which takes whatever checkpoint is there. Returns when
    the agent has noticed the start; raises StageError if that takes longer than 60 seconds.
    """
    aside(stage.pod.run_dir / "checkpoints").rename(stage.pod.home / "aside-checkpoints")
    known = len(stage.session.state.runs["demo"].view.attempts)
    # by hand: the console itself never passes a bare --resume
    await stage.pod.spawn(stage.pod.launch_command("--resume"))
    await stage.until(
        lambda: len(stage.session.state.runs["demo"].view.attempts) > known,
        60,
        "the agent's notice of it",
    )


async def bring_all_back(stage: Stage) -> None:
    """Repair `lose_all_and_resume` as a person would: stop the run, move the new checkpoints to
    `aside-new-checkpoints` in the pod's project, put the old ones back, and have the agent resume
    the run. Raises StageError if the run cannot be stopped or resumed.
    """
    await stage.must("stop", run="demo")
    new = stage.pod.run_dir / "checkpoints"
    if new.exists():
        aside(new).rename(stage.pod.project / "aside-new-checkpoints")
    (stage.pod.home / "aside-checkpoints").rename(new)
    await recover(stage)


async def start_with_rotation(stage: Stage) -> None:
    """Launch the run with a config by which the trainer is to keep only its two newest checkpoints,
    and wait until step 27 has finished. Raises StageError if that takes longer than two minutes.
    """
    edit_config(stage, {"ckpt.keep_last": 2})
    await train(stage, steps=27)


async def train_with_rotation(stage: Stage) -> None:
    """Launch the run with a config by which the trainer is to keep only its two newest checkpoints,
    and wait until step 12 has finished; the run then has two complete checkpoints. Raises
    StageError if that takes longer than two minutes.
    """
    edit_config(stage, {"ckpt.keep_last": 2})
    await train_longer(stage)


async def move_the_old_ones_aside(stage: Stage) -> None:
    """Rename all checkpoints of the trainer and of the orchestrator, except the two newest of each,
    to `aside-step_N`, so that no trainer finds them. Nothing is deleted.
    """
    roots = {orchestrator_checkpoints(stage), stage.pod.run_dir / "checkpoints"}
    for root in roots:
        steps = sorted(root.glob("step_*"), key=lambda path: int(path.name[5:]))
        for path in steps[:-2]:
            aside(path)


async def write_into_what_is_being_deleted(stage: Stage) -> None:
    """Start a program on the pod that keeps writing small files into the newest checkpoint until
    the trainer's rotation removes that checkpoint. Returns once the program is started.
    """
    root = stage.pod.run_dir / "checkpoints"
    newest = max((p for p in root.glob("step_*")), key=lambda path: int(path.name[5:])) / "trainer"
    code = (
        "import pathlib, sys\np = pathlib.Path(sys.argv[1])\n"
        "for i in range(120_000):\n    try: (p / f'sync-{i}').touch()\n    except "
        "FileNotFoundError: break\n"
    )
    await stage.pod.spawn(["python3", "-c", code, str(newest)], cwd=stage.pod.home)


async def _disk(stage: Stage, directory: Path, megabytes: int) -> Path:
    return await to_its_end(disks.give_own_disk, stage, directory, megabytes)


async def fill_orchestrators_disk(stage: Stage) -> None:
    """Give the directory into which the orchestrator writes a small disk of its own (8 MiB), and
    fill the disk completely. The directory is that of the orchestrator's checkpoints in prime-rl of
    January 2026, and that of the rollouts in current prime-rl. Raises OSError if the disk cannot be
    written to.
    """
    if stage.trainer == OLD:
        disks.fill(await _disk(stage, orchestrator_checkpoints(stage), 8), 0)
    else:
        disks.fill(await _disk(stage, stage.pod.run_dir / "rollouts", 8), 0)


async def fill_trainers_disk(stage: Stage) -> None:
    """Give the directory of the trainer's checkpoints a disk of its own of 24 MiB, and fill the
    disk until half a MiB is free. Raises OSError if the disk cannot be written to.
    """
    disks.fill(await _disk(stage, stage.pod.run_dir / "checkpoints", 24), disks.MIB // 2)


async def make_room(stage: Stage) -> None:
    """Repair a full disk as a person would: move the file that fills the disk into the project's
    directory, rename incomplete checkpoints so that no trainer finds them, and, if the rollouts
    have a disk of their own, move the rollouts into the project's directory `aside`. Then stop the
    run and have the agent resume it. Raises StageError if it cannot be stopped or resumed.
    """
    for ballast in list(stage.pod.run_dir.rglob("somebody-elses.tar")):
        shutil.move(ballast, stage.pod.project)
    for root in {stage.pod.run_dir / "checkpoints", orchestrator_checkpoints(stage)}:
        _set_torn_aside(root)
    if (stage.pod.run_dir / "rollouts").is_mount():
        for step in list((stage.pod.run_dir / "rollouts").glob("step_*")):
            shutil.move(step, stage.pod.project / "aside" / step.name)
    await stage.must("stop", run="demo")
    await recover(stage)


def _set_torn_aside(root: Path) -> None:
    """Rename incomplete checkpoints as a person would who makes room on a full disk."""
    for step in sorted(root.glob("step_*"), key=lambda path: int(path.name[5:]))[1:]:
        if not (step / "trainer" / ".metadata").exists() or not (step / "orchestrator").exists():
            aside(step)


async def train_on_a_small_disk(stage: Stage) -> None:
    """Give the pod's output directory a small disk of its own (32 MiB), launch the run, and wait
    until step 7 has finished. Raises StageError if that takes longer than two minutes.
    """
    await _disk(stage, stage.pod.output_dir, 32)
    await train(stage)


async def fill_most(stage: Stage) -> None:
    """Fill the disk of the pod's output directory until 92 percent of the disk are used. Raises
    OSError if the disk cannot be written to.
    """
    disks.fill_to(stage.pod.output_dir, 92)


async def delete_ballast(stage: Stage) -> None:
    """Free the disk of the output directory that `fill_most` has filled, by moving the file that
    fills it into the project's directory.
    """
    shutil.move(stage.pod.output_dir / "somebody-elses.tar", stage.pod.project)


async def make_read_only(stage: Stage) -> None:
    """Give the directory of the trainer's checkpoints a disk of its own of 24 MiB, and make the
    disk read-only, as a kernel does after an error of the device.
    """
    directory = await _disk(stage, stage.pod.run_dir / "checkpoints", 24)
    await to_its_end(disks.remount, directory, "ro")


async def make_writable(stage: Stage) -> None:
    """Make the disk of the trainer's checkpoints writable again, rename incomplete checkpoints so
    that no trainer finds them, and have the agent resume the run. Raises StageError if it cannot be
    resumed. On a real pod there is no such way back: the pod is replaced, and the run is resumed
    elsewhere from its copy in the object store.
    """
    await to_its_end(disks.remount, stage.pod.run_dir / "checkpoints", "rw")
    _set_torn_aside(stage.pod.run_dir / "checkpoints")
    await recover(stage)


ALL = (
    Scenario(
        "checkpoint-corrupt", "checkpoint-corrupt", BOTH, stopped_later, flip_bytes_and_resume
    ),
    Scenario("run-dir-collision", "run-dir-collision", (NEW,), stopped, start),
    Scenario("checkpoint-torn", "checkpoint-torn", BOTH, train_longer, tear_newest),
    Scenario(
        "incomplete-resume-set",
        "incomplete-resume-set",
        BOTH,
        stopped_later,
        lose_a_part_and_resume,
    ),
    Scenario(
        "wandb-step-as-checkpoint",
        "wandb-step-as-checkpoint",
        BOTH,
        stopped,
        resume_from_a_step_nobody_has,
    ),
    Scenario(
        "silent-fresh-start",
        "silent-fresh-start",
        (NEW,),
        stopped,
        lose_all_and_resume,
        repair=bring_all_back,
    ),
    Scenario(
        "cleanup-crashes-trainer",
        "cleanup-crashes-trainer",
        (OLD,),
        train_with_rotation,
        write_into_what_is_being_deleted,
    ),
    Scenario(
        "keep-last-not-deleting",
        "keep-last-not-deleting",
        (OLD,),
        nothing,
        start_with_rotation,
        repair=move_the_old_ones_aside,
        pod={"step_seconds": 0.15},
    ),
    Scenario(
        "disk-full",
        "disk-full",
        BOTH,
        train,
        fill_orchestrators_disk,
        repair=make_room,
        needs=disks.needs_mounts,
        pod=_HEAVY,
    ),
    Scenario(
        "checkpoint-write-failed",
        "checkpoint-write-failed",
        BOTH,
        train,
        fill_trainers_disk,
        repair=make_room,
        needs=disks.needs_mounts,
        pod=_HEAVY,
    ),
    Scenario(
        "disk-high",
        "disk-high",
        BOTH,
        train_on_a_small_disk,
        fill_most,
        repair=delete_ballast,
        needs=disks.needs_mounts,
    ),
    Scenario(
        "readonly-fs",
        "readonly-fs",
        BOTH,
        train,
        make_read_only,
        repair=make_writable,
        needs=disks.needs_mounts,
    ),
)
