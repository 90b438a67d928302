"""The steps that install programs: tools installs git and curl, which fetch everything else (bare
CUDA images have neither), and uv installs uv into ~/.local/bin with the official installer of one
version.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.errors import StepFailed
from bs4_agent.playbooks.pod_actions import Planned, Stepping
from bs4_agent.setup.place import Say, SetupContext

_PACKAGES = ("git", "curl", "ca-certificates")


class Tools(Stepping):
    """The step that installs git and curl with apt-get."""

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return one planned step, which also shows which of the programs are missing now."""
        missing = _missing(context)
        now = "git and curl are there"
        if missing:
            now = f"missing: {', '.join(missing)}"
        if missing and (context.place.which("apt-get") is None or context.place.sudo() is None):
            now += (
                "; they cannot be installed from here (no apt-get, or no root): install them by "
                "hand"
            )
        return [
            Planned(
                "tools",
                "Install git and curl",
                shlex.join(_install(context)),
                {"packages": list(_PACKAGES)},
                [],
                {"now": now, "done": not missing},
            )
        ]

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if git is installed, and curl too (which only uv's installation needs) unless
        uv is installed already.
        """
        return not _missing(context)

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Say,
    ) -> str:
        """Install the packages and return the word "installed". Raises StepFailed if the pod has no
        apt-get, the agent cannot become root, or a program is still missing afterwards.
        """
        if context.place.which("apt-get") is None or context.place.sudo() is None:
            raise StepFailed(
                f"{', '.join(_missing(context))} cannot be installed without apt-get and "
                "root; install them by hand, then repeat."
            )
        context.run([*(context.place.sudo() or []), "apt-get", "update", "-qq"], say)
        context.run(_install(context), say)
        if missing := _missing(context):
            raise StepFailed(
                f"apt-get ended well, but {', '.join(missing)} is still not on the PATH; "
                "look at the log, then repeat."
            )
        return "installed"


def _missing(context: SetupContext) -> list[str]:
    """Return the needed programs that are not on the PATH."""
    # curl is only needed to fetch uv's installer.
    needed = ["git"] if context.place.which("uv") else ["git", "curl"]
    found = []
    for program in needed:
        if context.place.which(program) is None:
            found.append(program)
    return found


def _install(context: SetupContext) -> list[str]:
    """Return the argv that installs the packages."""
    return [
        *(context.place.sudo() or []),
        "apt-get",
        "install",
        "-y",
        "-qq",
        "--no-install-recommends",
        *_PACKAGES,
    ]


class Uv(Stepping):
    """The step that installs the program uv if the pod has none."""

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return one planned step, which also shows the version of uv that is installed now."""
        version = _version(context)
        place = context.place
        script = place.shown(_script(context))
        command = (
            f"curl -LsSf {context.recipe.uv} -o {script} && "
            f"UV_INSTALL_DIR={place.shown(place.bin())} UV_NO_MODIFY_PATH=1 sh {script}"
        )
        return [
            Planned(
                "uv",
                "Install uv",
                command,
                {"installer": context.recipe.uv},
                [],
                {"now": version or "there is no uv", "done": bool(version)},
            )
        ]

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if uv is installed and answers `uv --version`."""
        return bool(_version(context))

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Say,
    ) -> str:
        """Download and run uv's installer, and return the version of uv. Raises StepFailed if uv
        cannot be run afterwards.
        """
        script = _script(context)
        script.parent.mkdir(mode=0o700, exist_ok=True)
        # It has another name until it is complete: half a script must never run.
        part = script.with_suffix(".part")
        context.run(
            [
                "curl",
                "-LsSf",
                "--retry",
                "3",
                str(planned.parameters["installer"]),
                "-o",
                str(part),
            ],
            say,
        )
        if part.exists():
            part.replace(script)
        context.run(
            ["sh", str(script)],
            say,
            environment={"UV_INSTALL_DIR": str(context.place.bin()), "UV_NO_MODIFY_PATH": "1"},
        )
        version = _version(context)
        if not version:
            raise StepFailed(
                "uv's installer ended well, but `uv --version` does not answer; look at the "
                "log, then repeat."
            )
        return version


def _version(context: SetupContext) -> str:
    """Return the output of `uv --version`, or "" if uv is not installed or does not answer."""
    if (program := context.place.which("uv")) is None:
        return ""
    code, text = context.place.ask([program, "--version"])
    if code == 0 and text.startswith("uv "):
        return text[:80]
    return ""


def _script(context: SetupContext) -> Path:
    """Return the path to which the installer is downloaded."""
    return context.place.home.setup / "uv-installer.sh"
