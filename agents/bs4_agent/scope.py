"""The part of a machine that the agent may see: one user, one pid namespace, and optionally only
one subtree of processes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bs4_common.identity import Identity, own_pidns


@dataclass(frozen=True)
class Scope:
    """The part of the machine that the agent may see. Processes of users other than `uid` are shown
    but never signalled. `pidns` is the inode of the agent's pid namespace. If `root` is a process
    (on a practice pod, a simulated one), only its descendants exist for the agent; `root` is None
    for the whole machine. `dev` is the directory with the devices of the GPUs, shared memory and
    the kernel's log.
    """

    uid: int
    pidns: int
    root: Identity | None
    dev: Path

    @classmethod
    def from_environment(cls) -> Scope:
        """Return the part of the machine that the agent may see, as two environment variables set
        it. BS4_SCOPE_ROOT is a pid; the agent then sees only the descendants of that process.
        BS4_DEV is the directory that takes the place of /dev. Without them the agent sees the whole
        machine. Raises RuntimeError if no process with that pid runs.
        """
        root = None
        if text := os.environ.get("BS4_SCOPE_ROOT"):
            root = Identity.of(int(text))
            if root is None:
                raise RuntimeError(
                    f"BS4_SCOPE_ROOT names process {text}, which does not run; start the "
                    "agent inside its pod."
                )
        return cls(os.getuid(), own_pidns(), root, Path(os.environ.get("BS4_DEV", "/dev")))
