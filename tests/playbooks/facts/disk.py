"""Disks that are full, nearly full, too small for what comes, or broken, and the same disks at half
of every limit.
"""

from __future__ import annotations

import dataclasses

from bs4_common.failures.environment import Disk
from bs4_common.failures.facts import Facts
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import CONFIG, GIB, around, disk, heap, look, run, saved

UNLIMITED = {key: value for key, value in CONFIG.items() if key != "ckpt.keep_last"}


@positive("disk-full")
def ninety_eight_percent() -> Facts:
    return look(run(), disks=[disk(98.5)])


@positive("disk-high")
def eighty_six_percent() -> Facts:
    return look(run(), disks=[disk(86.0)])


@negative(
    "disk-full",
    "disk-high",
    "disk-next-checkpoint",
    "readonly-fs",
    "dev-shm-full",
    "weights-broadcasts-grow",
)
def half_full() -> Facts:
    return look(
        run(),
        disks=[disk(49.0)],
        shm=Disk(
            path="/dev/shm", used=8 * GIB, total=16 * GIB, free=8 * GIB, read_only=False, growth=0.0
        ),
    )


@negative("disk-full", "disk-high", "disk-next-checkpoint", "readonly-fs", "dev-shm-full")
def a_disk_that_does_not_answer() -> Facts:
    """Unknown is neither 0 nor full."""
    return look(run(), disks=[Disk(path="/data", runs=("demo",))], shm=None)


@negative("disk-high")
def another_disk_than_the_runs() -> Facts:
    return look(run(), disks=[disk(), disk(97.0, path="/backup", runs=())])


@negative("disk-high")
def a_run_that_has_ended() -> Facts:
    return look(run(state="ended"), disks=[disk(97.0)])


@positive("disk-next-checkpoint")
def less_than_the_next_one_needs() -> Facts:
    return look(run(checkpoints=[saved(5, 60 * GIB)]), disks=[disk(92.0)])


@negative("disk-next-checkpoint")
def room_for_twice_the_next_one() -> Facts:
    return look(run(checkpoints=[saved(5, 60 * GIB)]), disks=[disk(80.0)])


@positive("dev-shm-full")
def shared_memory_is_used_up() -> Facts:
    return look(
        run(),
        shm=Disk(
            path="/dev/shm",
            used=63 << 20,
            total=64 << 20,
            free=1 << 20,
            read_only=False,
            growth=0.0,
        ),
    )


@positive("readonly-fs")
def mounted_read_only() -> Facts:
    return look(run(), disks=[disk(read_only=True)])


def growing(weights: int) -> Facts:
    heaps = {
        "weights": heap("weights", *[weights] * 8),
        "rollouts": heap("run_default/rollouts", *[1 << 20] * 8),
    }
    before = {
        "weights": heap("weights", *[weights] * 4),
        "rollouts": heap("run_default/rollouts", *[1 << 20] * 4),
    }
    return look(run(environment=around(heaps=heaps, earlier_heaps=before)))


@positive("weights-broadcasts-grow")
def weights_of_steps_without_a_checkpoint() -> Facts:
    return growing(20 * GIB)


@negative("weights-broadcasts-grow")
def a_few_of_them() -> Facts:
    return growing(6 * GIB)


@negative("weights-broadcasts-grow")
def many_that_do_not_grow_any_more() -> Facts:
    now = growing(20 * GIB)
    (one,) = now.runs
    assert one.environment is not None
    return dataclasses.replace(
        now,
        runs=[
            dataclasses.replace(
                one,
                environment=around(
                    heaps=one.environment.heaps, earlier_heaps=one.environment.heaps
                ),
            )
        ],
    )


@positive("keep-last-missing")
def more_to_come_than_fits() -> Facts:
    return look(run(config=UNLIMITED, checkpoints=[saved(5, 60 * GIB)]))


@negative("keep-last-missing")
def all_of_them_fit() -> Facts:
    return look(run(config=UNLIMITED, checkpoints=[saved(5, GIB)]))


@negative("keep-last-missing")
def a_limit_is_set() -> Facts:
    return look(run(checkpoints=[saved(5, 60 * GIB)]))
