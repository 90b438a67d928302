"""What people look at each hundred steps of a run, with what is known of it at such a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bs4_console.checks.verdict import DISK_WARNING, measured_disks
from bs4_console.failures import health
from bs4_console.pods.state import PodState, RunState, devices, disk_percent

#: Steps whose mean is compared: one step alone is mostly noise.
WINDOW = 10
#: Percent of a GPU's memory. vLLM takes up to 95 by itself.
MEMORY_LOOK = 98.0
#: The numbers with a healthy range, and what people call them.
_RANGED = {"entropy": "entropy", "mismatch_kl": "KL", "grad_norm": "gradient norm"}

State = Literal["ok", "look", "unknown", "by hand"]


@dataclass(frozen=True)
class Item:
    """One entry of a run's checklist, which a person goes through every so many steps. `name` is
    what is checked, such as "reward", and `text` what is known of it. `state` is "ok", "look" (a
    person should look at it), "unknown", or "by hand" (only a person can check it).
    """

    name: str
    state: State
    text: str


def items(
    pod: PodState, run: RunState, at: int, every: int, whole: Sequence[int] | None
) -> list[Item]:
    """Return the checklist of `run` as it is at the training step `at`: reward, entropy, GPU
    memory, disk, checkpoints and so on. `every` is the number of steps between two checklists;
    numbers are compared with those so many steps before. `whole` are the steps of the run's
    complete checkpoints, or None if the pod could not be asked.
    """
    found = [_reward(run, at, every)]
    found += [_ranged(run, key, at, every) for key in _RANGED]
    found += [_memory(pod), _disk(pod), _checkpoint(whole, at, every), _sync(pod, run, at, every)]
    found.append(
        Item(
            "benchmark",
            "by hand",
            f"evaluate the checkpoint of step {at} and compare it with the one before: "
            "`runs evals PATH --against PATH`, `runs bench`",
        )
    )
    found.append(Item("samples", "by hand", "read some rollouts of the newest step: `:rollouts`"))
    return found


def _mean(run: RunState, key: str, at: int) -> float | None:
    """Return the mean of a number over the steps up to `at`, or None if none is recorded."""
    values = [value for step, value in run.series(key) if at - WINDOW < step <= at]
    if not values:
        return None
    return sum(values) / len(values)


def _reward(run: RunState, at: int, every: int) -> Item:
    """Return the entry about the reward: still rising?"""
    now, before = _mean(run, "reward", at), _mean(run, "reward", at - every)
    if now is None:
        return Item("reward", "unknown", "none is recorded")
    if before is None:
        return Item("reward", "ok", f"{now:.3f}, and none {every} steps before")
    limits = health.ranges()["reward"]
    rises = now - before >= limits["min_gain"] or now >= limits["solved"]
    text = f"{now:.3f}, {now - before:+.3f} in {every} steps"
    return Item("reward", "ok" if rises else "look", text)


def _ranged(run: RunState, key: str, at: int, every: int) -> Item:
    """Return the entry about a number that has a healthy range."""
    name = _RANGED[key]
    now, before = _mean(run, key, at), _mean(run, key, at - every)
    if now is None:
        return Item(name, "unknown", "none is recorded")
    low, high = health.bands()[key]
    earlier = "" if before is None else f", {before:.3g} {every} steps before"
    text = f"{now:.3g}{earlier} (healthy: {low:g} to {high:g})"
    return Item(name, "ok" if low <= now <= high else "look", text)


def _memory(pod: PodState) -> Item:
    """Return the entry about the fullest GPU."""
    shares = []
    for device in devices(pod):
        used, total = device.get("mem_used"), device.get("mem_total")
        if used is not None and total:
            shares.append((100.0 * used / total, device["index"]))
    if not shares:
        return Item("GPU memory", "unknown", "no GPU says how full it is")
    share, index = max(shares)
    text = f"GPU {index} is the fullest, {share:.0f} %"
    return Item("GPU memory", "look" if share >= MEMORY_LOOK else "ok", text)


def _disk(pod: PodState) -> Item:
    """Return the entry about the fullest disk."""
    shares = [(disk_percent(disk) or 0.0, str(disk["path"])) for disk in measured_disks(pod)]
    if not shares:
        return Item("disk", "unknown", "no disk says how full it is")
    share, path = max(shares)
    return Item("disk", "look" if share >= DISK_WARNING else "ok", f"{path} is {share:.0f} % full")


def _checkpoint(whole: Sequence[int] | None, at: int, every: int) -> Item:
    """Return the entry about the newest complete checkpoint."""
    if whole is None:
        return Item("checkpoint", "unknown", "the pod could not be asked")
    if not whole:
        return Item("checkpoint", "look", "none is complete")
    late = max(whole) <= at - every
    return Item("checkpoint", "look" if late else "ok", f"step {max(whole)} is complete")


def _sync(pod: PodState, run: RunState, at: int, every: int) -> Item:
    """Return the entry about the copies in an object store."""
    view = pod.ledger.syncs.get(run.name)
    if view is None or not view.order.get("to"):
        return Item("sync", "look", "no checkpoint is copied to a store: `checkpoints sync`")
    newest = max(view.done, default=None)
    if view.failed is not None:
        return Item("sync", "look", f"{view.failures} uploads have failed: {view.failed['detail']}")
    if view.missed:
        return Item("sync", "look", view.missed_words)
    if newest is None:
        return Item("sync", "look", "nothing is in the store yet")
    return Item("sync", "look" if newest <= at - every else "ok", f"step {newest} is in the store")


def wanting(found: Sequence[Item]) -> list[str]:
    """Return the names of those entries of a checklist at which a person should look (state
    "look").
    """
    return [item.name for item in found if item.state == "look"]
