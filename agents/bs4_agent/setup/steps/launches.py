"""The steps that set what every later launch and login gets: limits the number of files that a run
may open and variables the environment of one checkout, both as standing orders, and profile the
same for a login shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from bs4_agent.playbooks.pod_actions import Planned, Stepping, Target
from bs4_agent.setup.credentials import write_private
from bs4_agent.setup.place import Say, SetupContext
from bs4_common.files import read_json, write_json


class Limits(Stepping):
    """The step of a set-up that sets the limit of open files for all later launches on the pod."""

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return a list with one planned step, which sets the limit of open files that the recipe
        asks for. The step also shows the limit that launches have at present.
        """
        wanted, hard = context.recipe.nofile, context.place.hard_nofile()
        now = "no order; the login's own limit"
        if _ordered(context):
            now = f"launches start with at least {_ordered(context)} open files"
        if hard < wanted:
            now += f"; the hard limit is {hard}, and launches get no more"
        return [
            Planned(
                "limits",
                f"Let launches open {wanted} files",
                f"ulimit -n {min(wanted, hard)}, before each launch",
                {"nofile": wanted},
                [],
                {"now": now, "done": _ordered(context) >= wanted},
            )
        ]

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if a limit at least as high as that of the step `planned` is set for later
        launches already.
        """
        return _ordered(context) >= int(planned.parameters["nofile"])

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Say,
    ) -> str:
        """Save the limit of the step `planned`, in a file in the agent's home directory, for all
        later launches, and return a sentence about it. `targets` is not used, and `say` is not
        called.
        """
        path = context.place.home.limits
        write_json(path, {**(read_json(path) or {}), "nofile": int(planned.parameters["nofile"])})
        return "ordered for every later launch"


def _ordered(context: SetupContext) -> int:
    """Return the number of open files that is ordered for launches, 0 if there is no order."""
    return int((read_json(context.place.home.limits) or {}).get("nofile", 0))


class Variables(Stepping):
    """The step of a set-up that writes the recipe's environment variables to a file in the agent's
    home directory. Launches in the directory of the prime-rl checkout get these variables.
    """

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return a list with one planned step, which writes the file. Its text shows the variables,
        and whether the file is absent, the same or different at present.
        """
        path = context.place.home.variables(context.recipe.directory)
        text = "".join(
            f"{name}={value}\n" for name, value in sorted(context.recipe.variables.items())
        )
        now = "is not there"
        if path.exists():
            now = "says just that" if _is(path, text) else "says otherwise"
        shown = context.place.shown(path)
        return [
            Planned(
                "variables",
                f"Set the environment of launches in "
                f"{context.place.shown(context.recipe.directory)}",
                f"{' '.join(text.split()) or 'nothing'} in {shown}",
                {"text": text},
                [{"file": str(path)}],
                {"now": f"{shown} {now}", "done": _is(path, text)},
            )
        ]

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if the file of environment variables has exactly the text of the step
        `planned`.
        """
        return _is(
            context.place.home.variables(context.recipe.directory), planned.parameters["text"]
        )

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Say,
    ) -> str:
        """Write the environment variables of the step `planned` to their file in the agent's home
        directory, readable by its owner only, and return the word "written". `targets` is not used,
        and `say` is not called.
        """
        write_private(
            context.place.home.variables(context.recipe.directory), planned.parameters["text"]
        )
        return "written"


def _is(path: Path, text: str) -> bool:
    """Return True if the file exists and has exactly this text."""
    return path.is_file() and path.read_text() == text


_BEGIN, _END = "# >>> bs4-console >>>", "# <<< bs4-console <<<"
_BLOCK = re.compile(rf"(?ms)^{re.escape(_BEGIN)}$.*?^{re.escape(_END)}$\n?")


class Profile(Stepping):
    """The step of a set-up that writes a block of lines into the start-up files of the user's
    shell. The block sets the PATH with uv's directory, the limit of open files and the environment
    variables. It stands between two comment lines by which it is found again.
    """

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return a list with one planned step, which also shows which start-up files of the shell
        lack the block of lines now.
        """
        files = _files(context)
        names = [context.place.shown(path) for path in files]
        lacking = []
        for path, name in zip(files, names, strict=True):
            if not _has(path, _block(context)):
                lacking.append(name)
        now = f"{', '.join(names)} has it"
        if lacking:
            now = f"{', '.join(lacking)} without it"
        return [
            Planned(
                "profile",
                "Put uv, the limit and the variables into the shell's profile",
                f"one marked block in {', '.join(names)}: " + "; ".join(_lines(context)),
                {"block": _block(context)},
                [{"file": str(path)} for path in files],
                {"now": now, "done": not lacking},
            )
        ]

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if every start-up file of the shell that the step `planned` names has exactly
        the planned block of lines.
        """
        return all(
            _has(Path(target["file"]), planned.parameters["block"]) for target in planned.targets
        )

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Say,
    ) -> str:
        """Write the planned block of lines into every start-up file of the shell in `targets`, and
        return the word "written". `planned` is the step, and `say` is not called.
        """
        for target in targets:
            _write(Path(target["file"]), planned.parameters["block"])
        return "written"


def _files(context: SetupContext) -> list[Path]:
    """Return the start-up files to change: `.profile` in any case, which a login shell reads, and
    `.bashrc` if it exists, which an interactive shell reads.
    """
    first, second = context.place.user / ".profile", context.place.user / ".bashrc"
    if second.exists():
        return [first, second]
    return [first]


def _lines(context: SetupContext) -> list[str]:
    """Return the shell commands of the block."""
    variables = shlex.quote(str(context.place.home.variables(context.recipe.directory)))
    limit = context.recipe.nofile
    return [
        (
            'case ":$PATH:" in *":$HOME/.local/bin:"*) ;; *) PATH="$HOME/.local/bin:$PATH"; '
            "export PATH ;; esac"
        ),
        (
            f'case "$(ulimit -n)" in unlimited) ;; *) [ "$(ulimit -n)" -ge {limit} ] || ulimit '
            f"-n {limit} 2>/dev/null || : ;; esac"
        ),
        f"if [ -r {variables} ]; then set -a; . {variables}; set +a; fi",
    ]


def _block(context: SetupContext) -> str:
    """Return the block with its markers."""
    return "\n".join([_BEGIN, *_lines(context), _END, ""])


def _has(path: Path, block: str) -> bool:
    """Return True if the file has exactly one marked block and it equals `block`."""
    return path.is_file() and _BLOCK.findall(path.read_text(errors="surrogateescape")) == [block]


def _write(path: Path, block: str) -> None:
    """Write the block at the end of the file in place of an older block. The file's mode stays; a
    symbolic link is followed.
    """
    path = path.resolve()
    rest = _BLOCK.sub("", path.read_text(errors="surrogateescape") if path.is_file() else "")
    if rest and not rest.endswith("\n"):
        rest += "\n"
    temporary = path.with_name(f".{path.name}.bs4-new")
    temporary.write_text(rest + block, errors="surrogateescape")
    if path.is_file():
        temporary.chmod(path.stat().st_mode & 0o777)
    temporary.replace(path)
