"""The pod as set-up steps see it: its directories, programs and commands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bs4_agent.paths import Home
from bs4_agent.playbooks.world import Planned
from bs4_agent.setup.credentials import Incoming
from bs4_agent.setup.jobs import Jobs
from bs4_agent.setup.recipe import Recipe

#: Seconds for a command that only looks.
_ASK_S = 60.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Place:
    """`user` is the home directory of whoever trains; `hard_nofile` the most open files that a
    process may ask for here.
    """

    home: Home
    user: Path
    jobs: Jobs
    hard_nofile: Callable[[], int]

    def bin(self) -> Path:
        """Where uv's installer puts it, and where launches look for it besides the PATH."""
        return self.user / ".local" / "bin"

    def path(self) -> str:
        return os.pathsep.join([str(self.bin()), os.environ.get("PATH", os.defpath)])

    def which(self, program: str) -> str | None:
        import shutil

        return shutil.which(program, path=self.path())

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a command of ours gets besides the agent's own: it must find uv, and must not wait
        for somebody to type.
        """
        return {
            "PATH": self.path(),
            "GIT_TERMINAL_PROMPT": "0",
            "DEBIAN_FRONTEND": "noninteractive",
            "UV_NO_PROGRESS": "1",
            **(more or {}),
        }

    def ask(self, argv: Sequence[str], cwd: Path | None = None) -> tuple[int, str]:
        """Exit code and output of a command that only looks; 127 where there is none, 124 when it
        takes over a minute.
        """
        try:
            done = subprocess.run(
                list(argv),
                cwd=cwd or self.user,
                env={**os.environ, **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_ASK_S,
                check=False,
            )
        except OSError as error:
            return 127, str(error)
        except subprocess.TimeoutExpired:
            return 124, f"no answer within {_ASK_S:.0f} s"
        return done.returncode, done.stdout.decode("utf-8", "replace").strip()

    def sudo(self) -> list[str] | None:
        """What goes before a command that needs root; None where nothing helps."""
        if os.geteuid() == 0:
            return []
        if self.which("sudo") and self.ask(["sudo", "-n", "true"])[0] == 0:
            return ["sudo", "-n"]
        return None

    def shown(self, path: Path) -> str:
        """With ~ for the home directory."""
        if path.is_relative_to(self.user):
            return f"~/{path.relative_to(self.user)}"
        return str(path)


@dataclass(frozen=True)
class SetupContext:
    """Where a step acts: one recipe at one place, for one action."""

    place: Place
    recipe: Recipe
    action: str

    def run(
        self,
        argv: Sequence[str],
        say: Say,
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.place.jobs.run(
            self.action, argv, cwd or self.place.user, self.place.environment(environment), say
        )

    def started(self, argv: Sequence[str]) -> bool:
        """Whether this action has run the command, or runs it."""
        return self.place.jobs.find(self.action, argv) is not None

    def incoming(self) -> Incoming:
        return Incoming(self.place.home, self.action)


class SetupStep(Protocol):
    """As playbooks.world.Step, of a pod instead of a run. `plan` gives a step also where nothing is
    to do: `shown` holds what is there now (`now`) and whether that is enough (`done`).
    """

    def plan(self, context: SetupContext) -> Sequence[Planned]: ...

    def done(self, context: SetupContext, planned: Planned) -> bool: ...

    def check(self, context: SetupContext, planned: Planned) -> Sequence[Mapping[str, Any]]: ...

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Say,
    ) -> str: ...


class Stepping:
    """What most steps share: one step in a plan, nothing to check but what `done` has seen."""

    def check(self, context: SetupContext, planned: Planned) -> Sequence[Mapping[str, Any]]:
        return planned.targets
