"""Detectors for filesystems: full, nearly full, too small for the next checkpoint, or read-only;
and for what fills them.
"""

from __future__ import annotations

from collections.abc import Sequence

from bs4_common.failures.compiled import Parameters
from bs4_common.failures.detectors.reporting import found, live, number, setting, size
from bs4_common.failures.environment import Disk
from bs4_common.failures.evidence import Evidence, as_evidence, file_evidence
from bs4_common.failures.facts import Facts, Finding, RunFacts

Found = Sequence[Finding]
#: The settings of how many checkpoints a trainer keeps.
_KEEP = ("ckpt.keep_last", "trainer.ckpt.keep_last", "trainer.max_actor_ckpt_to_keep")


def disk_full(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if a filesystem
    that a live run writes to is at least `parameters["percent"]` percent full (default 98), else an
    empty list. The next checkpoint fails then, even if none has failed yet. Nothing is found if the
    filesystem could not be measured.
    """
    disk, limit = facts.fullest(run.name), float(parameters.get("percent", 98))
    if disk is None or disk.share is None or disk.share < limit or not live(run):
        return []
    return found(
        "disk-full",
        run,
        f"{disk.path} is {disk.share:.0f} % full: {size(disk.free or 0)} are free.",
        [_reading(disk, limit)],
        f"disk:{disk.path}",
    )


def disk_high(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if a filesystem
    that a live run writes to is more than `parameters["percent"]` percent full (default 85), else
    an empty list. Nothing is found if the filesystem could not be measured.
    """
    disk, limit = facts.fullest(run.name), float(parameters.get("percent", 85))
    if disk is None or disk.share is None or disk.share <= limit or not live(run):
        return []
    evidence = [_reading(disk, limit)]
    if when := _full_in(disk):
        evidence[0]["text"] += when
    text = f"{disk.path} is {disk.share:.0f} % full: {size(disk.free or 0)} are free."
    return found("disk-high", run, text, evidence, f"disk:{disk.path}")


def disk_next_checkpoint(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the filesystem
    that a live run writes to has less free space than `parameters["factor"]` (default 1.5) times
    the size of the newest complete checkpoint, else an empty list. Nothing is found before the
    first complete checkpoint or without a measurement.

    Trainers delete an old checkpoint only after the new one is saved, so the new one needs space
    beside all that exist.
    """
    disk, factor = facts.disk(run.name), float(parameters.get("factor", 1.5))
    newest = run.newest_complete
    if (
        disk is None
        or disk.free is None
        or newest is None
        or newest.bytes <= 0
        or not live(run)
        or disk.free >= factor * newest.bytes
    ):
        return []
    said = (
        f"{size(disk.free)} free, {factor:g} times step {newest.step} is "
        f"{size(factor * newest.bytes)}"
    )
    evidence = [as_evidence("disk", said, disk.path)]
    for part, path in newest.parts.items():
        evidence.append(file_evidence(path, f"{part} of step {newest.step}"))
    text = (
        f"{disk.path} has less left than {factor:g} times the last checkpoint, which took "
        f"{size(newest.bytes)}."
    )
    return found("disk-next-checkpoint", run, text, evidence, f"disk:{disk.path}")


def shm_full(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the run lives and
    the pod's shared memory (/dev/shm) is at least `parameters["percent"]` percent full (default
    95), else an empty list. Nothing is found if the shared memory could not be measured.
    """
    shm, limit = facts.shm, float(parameters.get("percent", 95))
    if shm is None or shm.share is None or shm.share < limit or not live(run):
        return []
    return found(
        "dev-shm-full",
        run,
        f"{shm.path} is {shm.share:.0f} % full.",
        [_reading(shm, limit)],
        f"disk:{shm.path}",
    )


def readonly_fs(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the filesystem
    that a live run writes to is mounted read-only, else an empty list. Nothing is found if that is
    unknown. `parameters` is not used.
    """
    disk = facts.disk(run.name)
    if disk is None or disk.read_only is not True or not live(run):
        return []
    return found(
        "readonly-fs",
        run,
        f"{disk.path}, where this run writes, is read-only.",
        [as_evidence("disk", "mounted read-only", disk.path)],
        f"disk:{disk.path}",
    )


def heaps_grow(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the files that a
    live run has written for steps without a checkpoint (weights, weights that were broadcast to the
    inference server, rollouts) take more space than all complete checkpoints together and at least
    `parameters["percent"]` percent of the filesystem (default 10), and one of these directories has
    grown over the last two checkpoints. Else return an empty list. Every run has some of these
    files, so they count only if they cost space.
    """
    disk = facts.disk(run.name)
    if (
        run.environment is None
        or run.environment.heaps is None
        or disk is None
        or disk.total is None
        or not live(run)
    ):
        return []
    earlier = run.environment.earlier_heaps or {}
    grown, total, evidence = False, 0, []
    for name, heap in run.environment.heaps.items():
        grown = grown or (name in earlier and heap.total > earlier[name].total)
        if name in ("weights", "broadcasts", "rollouts"):
            amount = sum(heap.bytes[step] for step in heap.bytes.keys() - set(run.steps))
            total += amount
            if amount:
                said = f"{size(amount)} belong to steps without a checkpoint"
                evidence.append(file_evidence(heap.root, said))
    saved = sum(c.bytes for c in run.complete.values())
    share = float(parameters.get("percent", 10))
    if not grown or total <= saved or total < share / 100 * disk.total:
        return []
    text = (
        f"{size(total)} of weights, broadcasts and rollouts belong to no kept checkpoint and "
        "grow on."
    )
    return found("weights-broadcasts-grow", run, text, evidence, "heaps")


def keep_last_not_deleting(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if a checkpoint
    directory of a live run holds more steps than its setting keep_last plus `parameters["slack"]`
    (default 1, because one may be being written), else an empty list. Nothing is found without that
    setting. The trainer's and the orchestrator's directories are counted apart, because prime-rl's
    version of January 2026 deletes old checkpoints in the trainer's only. A step without a byte of
    a checkpoint does not count: verl's rotation empties `actor` and leaves the step's directory.
    """
    keep = number(run.setting(*_KEEP))
    if keep is None or keep < 1 or not live(run):
        return []
    roots: dict[str, set[int]] = {}
    for checkpoint in run.checkpoints:
        if not checkpoint.complete and checkpoint.bytes == 0:
            continue
        for path in checkpoint.directories.values() or checkpoint.parts.values():
            if not path.parent.name.endswith(("broadcasts", "weights")):
                roots.setdefault(str(path.parent), set()).add(checkpoint.step)
    most = keep + float(parameters.get("slack", 1))
    over = {root: steps for root, steps in roots.items() if len(steps) > most}
    if not over:
        return []
    evidence = []
    for root, steps in over.items():
        evidence.append(
            as_evidence("files", f"{len(steps)} steps, {min(steps)} to {max(steps)}", root)
        )
    evidence.append(setting(run, "keep_last", f"{keep:.0f}"))
    text = f"keep_last is {keep:.0f}, but {max(map(len, over.values()))} steps lie there."
    return found(
        "keep-last-not-deleting", run, text, evidence, "keep-last:" + ",".join(sorted(over))
    )


def keep_last_missing(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the settings of a
    live run do not limit how many checkpoints stay, and the free space does not suffice for all
    that are to be saved until the run's last step. Else return an empty list. The free space, a
    complete checkpoint, the save interval and the last step must be known. `parameters` is not
    used.
    """
    if run.config is None or not live(run) or not _saves(run) or run.setting(*_KEEP) is not None:
        return []
    disk, newest = facts.disk(run.name), run.newest_complete
    interval = number(run.setting("ckpt.interval", "trainer.ckpt.interval", "trainer.save_freq"))
    goal = number(run.setting("max_steps", "trainer.max_steps", "trainer.total_training_steps"))
    if (
        disk is None
        or disk.free is None
        or newest is None
        or not interval
        or interval < 1
        or goal is None
    ):
        return []
    more = max(0, int((goal - newest.step) // interval))
    if more * newest.bytes <= disk.free:
        return []
    evidence = [
        setting(run, "ckpt.keep_last", "not set"),
        as_evidence(
            "disk",
            f"{size(disk.free)} free; {more} more checkpoints of {size(newest.bytes)} are to come",
            disk.path,
        ),
    ]
    text = (
        f"Nothing limits the checkpoints: {more} more are to come and "
        f"{max(0, int(disk.free // max(newest.bytes, 1)))} fit."
    )
    return found("keep-last-missing", run, text, evidence, "config:keep-last")


def _saves(run: RunFacts) -> bool:
    """Return True if the run saves checkpoints."""
    frequency = number(run.setting("trainer.save_freq")) or 0
    return bool(run.checkpoints) or frequency > 0 or bool(run.under("ckpt"))


def _reading(disk: Disk, limit: float) -> Evidence:
    """Return the filesystem's numbers as evidence."""
    text = f"{size(disk.used or 0)} used, {size(disk.free or 0)} free: {disk.share:.1f} %"
    return as_evidence("disk", f"{text}, limit {limit:g} %", disk.path)


def _full_in(disk: Disk) -> str:
    """Return ", full in 3.0 h at this rate" if the recent growth fills the filesystem within 48
    hours, or "".
    """
    if not disk.growth or disk.growth <= 0 or disk.free is None:
        return ""
    hours = disk.free / disk.growth / 3600
    if hours < 48:
        return f", full in {hours:.1f} h at this rate"
    return ""
