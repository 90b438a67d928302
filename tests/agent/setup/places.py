"""A pod of files for set-up steps: a home directory, and commands that run at once instead of under
a shim.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.paths import Home
from bs4_agent.setup.place import Place, SetupContext
from bs4_agent.setup.recipe import Recipe
from bs4_common.errors import StepFailed

KEY = "01J00000000000000000000000"
RECIPE: dict[str, Any] = {
    "trainer": "prime-rl",
    "directory": "prime-rl",
    "repository": "https://example.org/prime-rl",
    "revision": "0123abc",
    "sync": ["--all-extras"],
    "uv_archives": {os.uname().machine: {"url": "https://example.org/uv.whl", "sha256": "0" * 64}},
    "variables": {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"},
    "environments": [],
    "secrets": [],
    "nofile": 4096,
}


class Direct:
    """In place of jobs.Jobs: the same words, no shim. `ran`: what was run."""

    def __init__(self) -> None:
        self.ran: list[list[str]] = []

    def find(self, key: str, argv: Sequence[str]) -> Path | None:
        return None

    def run(
        self,
        key: str,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self.ran.append(list(argv))
        done = subprocess.run(
            list(argv),
            cwd=cwd,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise StepFailed(
                f"`{' '.join(argv)}` ended with exit code {done.returncode}: "
                f"{done.stdout}{done.stderr}."
            )


def place(user: Path, hard: int = 65536) -> Place:
    home = Home(user / ".bs4")
    home.create()
    return Place(home, user, Direct(), lambda: hard)  # type: ignore[arg-type]


def context(where: Place, recipe: Recipe, key: str = KEY) -> SetupContext:
    return SetupContext(where, recipe, key)


def carry_out(step: Any, at: SetupContext) -> list[str]:
    """Plans the step and does what is not done; what it said. Afterwards every part of it is done,
    and a new plan says so.
    """
    said = []
    for planned in step.plan(at):
        assert planned.shown["done"] == step.done(at, planned)
        if not step.done(at, planned):
            said.append(step.act(at, planned, step.check(at, planned), lambda text: None))
        assert step.done(at, planned)
    assert all(
        planned.shown["done"] for planned in step.plan(at) if not planned.parameters.get("given")
    )
    return said
