"""Prepares the login shell: uv on the PATH, the limit of open files and the variables. Each file
gets one marked block, which a later set-up replaces and never doubles.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.playbooks.world import Planned
from bs4_agent.setup.place import Say, SetupContext, Stepping

_BEGIN, _END = "# >>> bs4-console >>>", "# <<< bs4-console <<<"
_BLOCK = re.compile(rf"(?ms)^{re.escape(_BEGIN)}$.*?^{re.escape(_END)}$\n?")
#: A login shell reads the first file, an interactive shell the second. The first is always written,
#: the second only if it exists.
_FILES = (".profile", ".bashrc")


class Profile(Stepping):
    """Writes the marked block into the shell's start-up files."""

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return the planned step with the files that do not have the block yet."""
        files = [str(path) for path in _files(context)]
        lacking = []
        for path in _files(context):
            if not _has(path, _block(context)):
                lacking.append(path)
        names = ", ".join(context.place.shown(Path(path)) for path in files)
        if lacking:
            now = f"{', '.join(context.place.shown(path) for path in lacking)} without it"
        else:
            now = f"{names} has it"
        command = f"one marked block in {names}: " + "; ".join(_lines(context))
        parameters = {"block": _block(context)}
        return [
            Planned(
                "profile",
                "Put uv, the limit and the variables into the shell's profile",
                command,
                parameters,
                [{"file": file} for file in files],
                {"now": now, "done": not lacking},
            )
        ]

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if every planned file has exactly this block."""
        for target in planned.targets:
            if not (_has(Path(target["file"]), planned.parameters["block"])):
                return False
        return True

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Say,
    ) -> str:
        """Write the block into every target file and return "written"."""
        for target in targets:
            _write(Path(target["file"]), planned.parameters["block"])
        return "written"


def _files(context: SetupContext) -> list[Path]:
    """Return the start-up files to change: `.profile` in any case, `.bashrc` if it exists."""
    found = []
    for name in _FILES:
        if name == _FILES[0] or (context.place.user / name).exists():
            found.append(context.place.user / name)
    return found


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
    text = ""
    if path.is_file():
        text = path.read_text(errors="surrogateescape")
    rest = _BLOCK.sub("", text)
    if rest and not rest.endswith("\n"):
        rest += "\n"
    temporary = path.with_name(f".{path.name}.bs4-new")
    temporary.write_text(rest + block, errors="surrogateescape")
    if path.is_file():
        temporary.chmod(path.stat().st_mode & 0o777)
    temporary.replace(path)
