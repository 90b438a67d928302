"""Installs the environments that a run trains in into the training environment, and verifies each
by importing it there.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from bs4_agent.playbooks.pod_actions import Planned, Stepping, Target
from bs4_agent.probes import imports
from bs4_agent.setup.place import Say, SetupContext
from bs4_agent.setup.recipe import Environment, environment
from bs4_common.errors import StepFailed


class Environments(Stepping):
    """The step of a set-up that installs the recipe's training environments (Python packages that
    give a model its tasks) into the `.venv` of the prime-rl checkout.
    """

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return one planned step for each training environment (a Python package that gives a
        model its tasks) in the recipe. The step installs that package into the `.venv` of the
        prime-rl checkout. Its `shown["done"]` is True if the package can be imported there already,
        in the wanted version. The list is empty if the recipe has no training environments.
        """
        found = []
        for wanted in context.recipe.environments:
            found.append(self._one(context, wanted))
        return found

    def _one(self, context: SetupContext, wanted: Environment) -> Planned:
        """Return the planned step for the environment `wanted`."""
        loads, now = _loads(context, wanted)
        return Planned(
            "environment",
            f"Install the environment {wanted.source}",
            f"cd {context.place.shown(context.recipe.directory)} && "
            f"{shlex.join(_install(context, wanted))}",
            {"source": wanted.source},
            [],
            {"now": now, "done": loads},
        )

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if the training environment of the step `planned` can be imported from the
        `.venv` of the prime-rl checkout, in the wanted version.
        """
        return _loads(context, environment(planned.parameters["source"]))[0]

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Say,
    ) -> str:
        """Install the training environment of the step `planned` into the `.venv` of the prime-rl
        checkout, and return a sentence with its version. `targets` is not used, and `say` is called
        with progress messages. Raises StepFailed if it cannot be imported afterwards. Raises
        LaunchFailed if a command cannot be started.
        """
        wanted, directory = environment(planned.parameters["source"]), context.recipe.directory
        context.run(
            _install(context, wanted),
            say,
            cwd=directory,
            environment={"VIRTUAL_ENV": str(directory / ".venv")},
        )
        loads, now = _loads(context, wanted)
        if not loads:
            raise StepFailed(
                f"{wanted.source} was installed, but cannot be used: {now}. Correct the "
                "environment, then repeat."
            )
        return now


def _install(context: SetupContext, wanted: Environment) -> list[str]:
    """Return the argv that installs the environment."""
    uv = context.place.which("uv") or "uv"
    if wanted.from_hub:
        return [uv, "tool", "run", "prime", "env", "install", wanted.source]
    return [
        uv,
        "pip",
        "install",
        "--python",
        str(context.recipe.directory / ".venv" / "bin" / "python"),
        wanted.source,
    ]


def _loads(context: SetupContext, wanted: Environment) -> tuple[bool, str]:
    """Return whether the training environment's own interpreter can import the environment in the
    wanted version, and a sentence about the result.
    """
    venv = context.recipe.directory / ".venv"
    if not (venv / "bin" / "python").exists():
        return False, "there is no training environment yet"
    found = imports.probe(
        str(venv / "bin" / "python"),
        [wanted.module],
        cwd=str(context.recipe.directory),
        more=context.place.environment(context.recipe.variables),
    )
    if (problem := found[wanted.module]) is not None:
        return False, f"import {wanted.module} fails: {problem[:200]}"
    version = _version(venv, wanted)
    if wanted.version and version != wanted.version:
        return False, f"{wanted.package} {version} is installed, not {wanted.version}"
    return True, f"{wanted.package} {version} loads"


def _version(venv: Path, wanted: Environment) -> str:
    """Return the installed version, or "of no known version". It is read from the metadata that
    every installer leaves, whose directory name is in lower case and with underscores.
    """
    prefix = wanted.module.lower() + "-"
    for path in venv.glob("lib/python3*/site-packages/*.dist-info"):
        if path.name.lower().startswith(prefix):
            return path.name.lower().removeprefix(prefix).removesuffix(".dist-info")
    return "of no known version"
