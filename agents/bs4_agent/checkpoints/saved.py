"""Whether a checkpoint on the disk is still the one that was verified in the object store."""

from __future__ import annotations

import hashlib
import os

from bs4_common.checkpoints.sets import StepSet
from bs4_common.checkpoints.sync_view import SyncView
from bs4_common.trainers.base import LaunchSpec, Trainer


def state_of(trainer: Trainer, spec: LaunchSpec, one: StepSet) -> str:
    """Return the state of the files that a resume from the checkpoint `one` needs: a digest of
    their names, sizes and modification times in ns, in 32 hexadecimal digits. It is another one as
    soon as a file was written, added or removed, also within one second and after the clock was set
    back. Every file is looked at anew; the time that `one` has comes from a cache that does not see
    a file that is written in its place. Raises OSError if the disk fails.
    """
    rows = []
    for rule in trainer.parts(spec):
        part = one.parts.get(rule.name)
        pending = [str(part.path)] if part is not None and rule.required else []
        while pending:
            directory = pending.pop()
            try:
                with os.scandir(directory) as found:
                    for entry in found:
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                            continue
                        status = entry.stat(follow_symlinks=False)
                        name = os.fsencode(entry.path)
                        rows.append(b"%b\0%d\0%d" % (name, status.st_size, status.st_mtime_ns))
            except FileNotFoundError:
                rows.append(os.fsencode(directory))  # it is being removed
    return hashlib.sha256(b"\0\0".join(sorted(rows))).hexdigest()[:32]


def is_saved(view: SyncView | None, trainer: Trainer, spec: LaunchSpec, one: StepSet) -> bool:
    """Return True if the uploads, as `view` shows them, have verified this very state of the
    checkpoint `one` in the object store, and nothing was seen to be removed from there since.
    Return False too if only an agent that recorded no states has uploaded it. Raises OSError if the
    disk fails.
    """
    known = "" if view is None else view.done.get(one.step, "")
    return bool(known) and known == state_of(trainer, spec, one)
