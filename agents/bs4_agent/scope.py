"""The part of a machine that the agent may see: one user, one pid namespace, and optionally only
one subtree of processes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bs4_agent.identity import Identity, own_pidns


@dataclass(frozen=True)
class Scope:
    """The part of a machine that the agent may see. Processes of users other than `uid` are shown
    and never signalled. With `root`, only descendants of this process exist for the agent (a
    practice pod). `dev` is the directory of the device nodes of GPUs, shm and the kernel log.
    """

    uid: int
    pidns: int
    root: Identity | None
    dev: Path

    @classmethod
    def from_environment(cls) -> Scope:
        """Return the scope that BS4_SCOPE_ROOT (a pid) and BS4_DEV (a directory) set, or the whole
        machine. Raises RuntimeError if that process does not run.
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
