"""What the agent may see of a machine: one user, one pid namespace, and optionally only one subtree
of processes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bs4_agent.identity import Identity, own_pidns


@dataclass(frozen=True)
class Scope:
    """What the agent may see of a machine. `uid`: processes of other users are shown, never
    signalled. `root`: only descendants of this process exist for the agent (a practice pod). `dev`:
    where the device nodes of GPUs, shm and the kernel log are.
    """

    uid: int
    pidns: int
    root: Identity | None
    dev: Path

    @classmethod
    def from_environment(cls) -> Scope:
        """Return the scope that BS4_SCOPE_ROOT (a pid) and BS4_DEV (a directory) set, or the whole
        machine.
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
