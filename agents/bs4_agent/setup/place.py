"""The pod from the point of view of set-up steps: its directories, programs and commands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bs4_agent.jobs import Jobs
from bs4_agent.paths import Home
from bs4_agent.playbooks.pod_actions import Planned, Target
from bs4_agent.setup.credentials import Incoming
from bs4_agent.setup.recipe import Recipe

#: Seconds that a command may take that only reads.
_ASK_S = 60.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Place:
    """The pod on which a set-up works, with everything that the steps of the set-up need there.
    `home` is the agent's own directory, and `user` the home directory of the person who trains.
    `jobs` starts the long commands of the set-up and waits for them. The function `hard_nofile`
    returns the highest number of open files that a process may request on this pod.
    """

    home: Home
    user: Path
    jobs: Jobs
    hard_nofile: Callable[[], int]

    def bin(self) -> Path:
        """Return the directory into which a set-up puts the program uv. A launch looks for uv there
        and in the directories of PATH.
        """
        return self.user / ".local" / "bin"

    def path(self) -> str:
        """Return the value of PATH for the commands of a set-up, with the directory of uv first."""
        return os.pathsep.join([str(self.bin()), os.environ.get("PATH", os.defpath)])

    def which(self, program: str) -> str | None:
        """Return the path of `program` in the directories of the PATH that a set-up's commands get,
        or None if it is not installed.
        """
        import shutil

        return shutil.which(program, path=self.path())

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment variables that a set-up's commands get besides the agent's own,
        together with those in `more`. They let the commands find uv, and prevent them from waiting
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
        """Run the command `argv`, which must change nothing, and return (exit code, output). The
        exit code is 127 if the program does not exist, and 124 if it takes more than a minute.
        `cwd` is the directory to run in; None means the user's home directory.
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
        """Return the words to put before a command that needs root: an empty list if the agent is
        root already, else those that call sudo. Return None if the agent cannot become root.
        """
        if os.geteuid() == 0:
            return []
        if self.which("sudo") and self.ask(["sudo", "-n", "true"])[0] == 0:
            return ["sudo", "-n"]
        return None

    def shown(self, path: Path) -> str:
        """Return the path as text for people, with ~ in the place of the user's home directory."""
        if path.is_relative_to(self.user):
            return f"~/{path.relative_to(self.user)}"
        return str(path)


@dataclass(frozen=True)
class SetupContext:
    """The things that a step of a set-up works with. `place` is the pod with what the set-up needs
    there, and `recipe` is what the set-up installs. `action` is the key (the unique id) of the
    action that carries the set-up out.
    """

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
        """Run the command `argv`, which may take minutes, and return when it has ended. It runs in
        `cwd`, or in the user's home directory if that is None. `environment` has variables in
        addition to those that `Place.environment` returns. `say` is called with progress messages.
        Raises StepFailed if the exit code is not 0, and LaunchFailed if the command cannot be
        started.
        """
        self.place.jobs.run(
            self.action, argv, cwd or self.place.user, self.place.environment(environment), say
        )

    def started(self, argv: Sequence[str]) -> bool:
        """Return True if this action has started the command `argv` before, whether it still runs
        or has ended. Return False if it was never started, or must be started again.
        """
        return self.place.jobs.find(self.action, argv) is not None

    def incoming(self) -> Incoming:
        """Return the object that reads the secrets which a person sent when this action was
        confirmed. If none were sent, it has none.
        """
        return Incoming(self.place.home, self.action)


class SetupStep(Protocol):
    """One kind of step of a set-up. The methods are those of `playbooks.pod_actions.Step`, but for
    a pod instead of a run.

    `plan` returns all steps of this kind, also those that have nothing to do. In a planned step's
    dictionary `shown`, `now` says in words what the pod has at present, and `done` is True if that
    is enough.
    """

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return the steps of this kind that set the pod up as the recipe of `context` (what to
        install) says. The list is empty if the recipe needs none. Raises NotApplicable if files
        that a person has put there or changed are in the way.
        """

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if the pod is already in the state that the step `planned` would leave. The
        step is then skipped.
        """

    def check(self, context: SetupContext, planned: Planned) -> Sequence[Target]:
        """Return the concrete targets on which the step `planned` acts, for example files. Raises
        PlanChanged if the pod has changed since the plan was made, so that the step does not fit
        any more.
        """

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Say,
    ) -> str:
        """Carry out the step `planned` and return a sentence about the result. `targets` are what
        `check` has returned, and `say` is called with progress messages. Raises StepFailed if the
        step does not reach its goal.
        """
