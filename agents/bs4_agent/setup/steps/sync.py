"""Runs `uv sync`, which makes prime-rl's own environment from its lock file."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from bs4_agent.playbooks.pod_actions import Planned, Stepping, Target
from bs4_agent.setup.place import Say, SetupContext
from bs4_agent.setup.steps.checkout import in_image
from bs4_common.errors import StepFailed

#: A file in the environment, deleted together with it, that has the digest of the last complete
#: sync.
_STAMP = ".bs4-synced"


class Sync(Stepping):
    """The step of a set-up that installs prime-rl's dependencies into the `.venv` of its checkout
    with `uv sync`.
    """

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return a list with one planned step: to run `uv sync` in the checkout of prime-rl. The
        step's dictionary `shown` also says what is in `.venv` at present.
        """
        directory = context.place.shown(context.recipe.directory)
        now = "is not there"
        if in_image(context):
            now = "is what the image brought, and is left as it is"
        elif _synced(context):
            now = "is what the lock file says"
        elif (context.recipe.directory / ".venv").exists():
            now = "is there, whole or not: uv adds what is missing"
        return [
            Planned(
                "sync",
                "Install the training environment",
                f"cd {directory} && uv {shlex.join(['sync', *context.recipe.sync])}",
                {"arguments": list(context.recipe.sync)},
                [],
                {"now": f"{directory}/.venv {now}", "done": _synced(context)},
            )
        ]

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if the last `uv sync` was complete and was made with the present lock file
        and project file and the recipe's arguments. `planned` is the step. Return True also if
        prime-rl came with the pod's image, because its environment is then complete.
        """
        return _synced(context)

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Say,
    ) -> str:
        """Run `uv sync` as the step `planned` says, and return a sentence about the result.
        `targets` is not used, and `say` is called with progress messages. Raises StepFailed if it
        fails, or if the `.venv` has no `python` or no `rl` program afterwards. Raises LaunchFailed
        if a command cannot be started.
        """
        directory = context.recipe.directory
        uv = context.place.which("uv")
        if uv is None:
            raise StepFailed("uv is not on the PATH any more; repeat the set-up.")
        context.run([uv, "sync", *planned.parameters["arguments"]], say, cwd=directory)
        for program in ("python", "rl"):
            if not os.access(directory / ".venv" / "bin" / program, os.X_OK):
                raise StepFailed(
                    f"uv sync ended well, but {directory}/.venv/bin/{program} is not there; "
                    "look at the log, then repeat."
                )
        (directory / ".venv" / _STAMP).write_text(_digest(context))
        return f"{context.place.shown(directory)}/.venv is whole"


def _synced(context: SetupContext) -> bool:
    """Return True if the environment's stamp matches the current lock file, project file and
    arguments. An image's environment has no stamp and counts: a sync could take packages out of it.
    """
    if in_image(context):
        return True
    venv = context.recipe.directory / ".venv"
    stamp = venv / _STAMP
    return (
        stamp.is_file()
        and os.access(venv / "bin" / "python", os.X_OK)
        and stamp.read_text() == _digest(context)
    )


def _digest(context: SetupContext) -> str:
    """Return the SHA-256 digest of the lock file, the project file and the arguments of the sync.
    Another revision with the same files needs no sync.
    """
    found = hashlib.sha256(shlex.join(context.recipe.sync).encode())
    for name in ("uv.lock", "pyproject.toml"):
        path: Path = context.recipe.directory / name
        found.update(path.read_bytes() if path.is_file() else b"-")
    return found.hexdigest()
