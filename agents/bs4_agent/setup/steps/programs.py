"""The steps that install programs: tools installs git and curl, which fetch everything else (bare
CUDA images have neither), and uv puts uv into ~/.local/bin from a wheel whose SHA-256 the recipe
names.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from bs4_agent.playbooks.pod_actions import Planned, Stepping, Target
from bs4_agent.setup.place import Say, SetupContext
from bs4_common import digest
from bs4_common.errors import StepFailed

#: Where a wheel of uv holds the program.
_MEMBER = ".data/scripts/uv"
#: The most bytes that are fetched for uv. Its wheels have 22 MB.
_ARCHIVE_BYTES = 200 * 1024 * 1024
_COPY_BYTES = 1024 * 1024
_PACKAGES = ("git", "curl", "ca-certificates")


class Tools(Stepping):
    """The step of a set-up that installs git and curl with apt-get."""

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return a list with one planned step: to install git and curl. The step's dictionary
        `shown` also says which of the two are missing now, and whether they cannot be installed
        from here.
        """
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
        """Return True if git is installed, and either curl or uv is. curl is only needed to install
        uv. `planned` is the step.
        """
        return not _missing(context)

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Say,
    ) -> str:
        """Install the programs that are missing, and return the word "installed". `planned` is the
        step, `targets` is not used, and `say` is called with progress messages. Raises StepFailed
        if the pod has no apt-get, the agent cannot become root, or a program is still missing
        afterwards. Raises LaunchFailed if a command cannot be started.
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
    # curl is only needed to fetch uv.
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
    """The step of a set-up that installs the program uv if the pod has none. Nothing that was
    fetched is run before it is found to have the SHA-256 that the recipe names.
    """

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return a list with one planned step, which also shows the version of uv that is installed
        now. The step's parameters are empty if the recipe has no archive for this machine type.
        """
        version = _version(context)
        now = version or "there is no uv"
        command, parameters = "", {}
        archive = context.recipe.uv_archives.get(os.uname().machine)
        if archive is not None:
            part, program = context.place.shown(_part(context)), context.place.shown(_uv(context))
            command = (
                f"curl -LsSf {archive.url} -o {part} && echo '{archive.sha256}  {part}' | "
                f"sha256sum -c && unzip -p {part} '*{_MEMBER}' > {program} && chmod 755 {program}"
            )
            parameters = {"url": archive.url, "sha256": archive.sha256}
        elif not version:
            now += f"; {_unpinned()}"
        shown = {"now": now, "done": bool(version)}
        return [Planned("uv", "Install uv", command, parameters, [], shown)]

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if uv is installed and answers `uv --version`. `planned` is the step."""
        return bool(_version(context))

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Say,
    ) -> str:
        """Fetch the archive that the step `planned` names, compare its SHA-256, install the program
        uv from it, and return the version of uv. `targets` is not used, and `say` is called with
        progress messages. Raises StepFailed if the recipe has no archive for this machine type, the
        SHA-256 is another one, or uv cannot be run afterwards. Raises LaunchFailed if a command
        cannot be started.
        """
        if "sha256" not in planned.parameters:
            raise StepFailed(f"uv cannot be installed: {_unpinned()}")
        part = _part(context)
        part.parent.mkdir(mode=0o700, exist_ok=True)
        address = str(planned.parameters["url"])
        limit = str(_ARCHIVE_BYTES)
        context.run(
            ["curl", "-LsSf", "--retry", "3", "--max-filesize", limit, address, "-o", str(part)],
            say,
        )
        try:
            _unpack(part, str(planned.parameters["sha256"]), _uv(context))
        except (OSError, BadZipFile) as error:
            raise StepFailed(
                f"What {address} sent cannot be unpacked ({error}); look at the disk, then repeat."
            ) from error
        finally:
            part.unlink(missing_ok=True)
        version = _version(context)
        if not version:
            raise StepFailed(
                f"uv was put into {_uv(context)}, but `uv --version` does not answer; run it by "
                "hand to see why, then repeat."
            )
        return version


def _unpinned() -> str:
    """Return the sentence that says that no archive is pinned for this machine type."""
    return (
        f"no archive of uv is pinned for {os.uname().machine}; install uv by hand, or give one "
        "with --uv URL#sha256=HASH."
    )


def _unpack(archive: Path, sha256: str, program: Path) -> None:
    """Copy the program uv out of the wheel `archive` to the path `program`, at once and executable.
    Raises StepFailed if the wheel's SHA-256 is not `sha256` or it holds no uv, BadZipFile if it is
    no zip file, and OSError.
    """
    with archive.open("rb") as file:
        hashing = digest.sha256()
        while data := file.read(_COPY_BYTES):
            hashing.update(data)
        if hashing.hexdigest() != sha256:
            raise StepFailed(
                f"The archive of uv has the SHA-256 {hashing.hexdigest()}, not {sha256}, which is "
                "pinned. Nothing of it was run; find out who answers for that address, then repeat."
            )
        # The same open file: what was hashed is what is unpacked.
        with ZipFile(file) as wheel:
            names = [name for name in wheel.namelist() if name.endswith(_MEMBER)]
            if not names:
                raise StepFailed(
                    "The archive holds no program uv; give a wheel of uv with --uv, then repeat."
                )
            program.parent.mkdir(parents=True, exist_ok=True)
            whole = program.with_name(".uv.part")
            with wheel.open(names[0]) as source, whole.open("wb") as target:
                shutil.copyfileobj(source, target)
            whole.chmod(0o755)
            whole.replace(program)


def _version(context: SetupContext) -> str:
    """Return the output of `uv --version`, or "" if uv is not installed or does not answer."""
    if (program := context.place.which("uv")) is None:
        return ""
    code, text = context.place.ask([program, "--version"])
    if code == 0 and text.startswith("uv "):
        return text[:80]
    return ""


def _part(context: SetupContext) -> Path:
    """Return the path to which the archive is downloaded."""
    return context.place.home.setup / "uv.whl"


def _uv(context: SetupContext) -> Path:
    """Return the path at which the program uv is put."""
    return context.place.bin() / "uv"
