"""Installs uv into ~/.local/bin with the official installer of one version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.errors import StepFailed
from bs4_agent.playbooks.world import Planned, Stepping
from bs4_agent.setup.place import Say, SetupContext


class Uv(Stepping):
    """Installs uv if there is none."""

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return the planned step with the version of uv that is installed now."""
        version = _version(context)
        place = context.place
        script = place.shown(_script(context))
        command = (
            f"curl -LsSf {context.recipe.uv} -o {script} && "
            f"UV_INSTALL_DIR={place.shown(place.bin())} UV_NO_MODIFY_PATH=1 sh {script}"
        )
        shown = {"now": version or "there is no uv", "done": bool(version)}
        return [Planned("uv", "Install uv", command, {"installer": context.recipe.uv}, [], shown)]

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
        """Download and run the installer and return uv's version. Raises StepFailed if uv does not
        answer afterwards.
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
    return text[:80] if code == 0 and text.startswith("uv ") else ""


def _script(context: SetupContext) -> Path:
    """Return the path to which the installer is downloaded."""
    return context.place.home.setup / "uv-installer.sh"
