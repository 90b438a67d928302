"""What `prime env push` would bring to the hub from a directory, found without running anything.

The tool itself has no dry run (prime 0.18). It sends README.md, pyproject.toml, the Python files
beside them and all that lies in directories below, but nothing that is hidden and no build output.
"""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_console.errors import UsageError
from bs4_console.secret import redacted

#: Directories that the tool leaves out, beside hidden ones and those of *.egg-info.
_LEFT_OUT = ("dist", "__pycache__", "build", "outputs")
_AT_THE_TOP = ("README.md", "pyproject.toml")
#: Names of files that hold a private key.
_KEYS = (".pem", ".key", ".p12", ".pfx")
_KEY_NAMES = ("id_rsa", "id_ed25519", "id_ecdsa")
#: Bytes of a file that are searched for secrets.
_SEARCHED = 1 << 20
#: Options of the tool that change the version in pyproject.toml.
_BUMPS = ("auto_bump", "rc", "post")


@dataclass(frozen=True, kw_only=True)
class Package:
    """The training environment that `prime env push` would publish from `directory`. `files` are
    the files that it would send, relative to `directory`, without those that .gitignore names;
    `size` is their sum in bytes. `problems` are sentences about what would make the push fail and
    about secrets that must not be published. `notes` say what the tool changes in the directory.
    """

    directory: str
    name: str
    version: str
    dependencies: tuple[str, ...]
    files: tuple[str, ...]
    size: int
    problems: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _About:
    """What a pyproject.toml says of its project. `problem` is a sentence if it cannot be read."""

    name: str = ""
    version: str = ""
    dependencies: tuple[str, ...] = ()
    problem: str = ""


def pushed(words: Sequence[str], project: Path) -> Package:
    """Return what the command `prime env push`, with the arguments `words`, would publish if it
    were run in `project`. Nothing is sent. Raises UsageError if the command does not take these
    arguments.
    """
    asked = _asked(words)
    directory = Path(asked.path or ("environments" if asked.env else "."))
    if asked.env:
        directory /= asked.env.rpartition("/")[2].replace("-", "_")
    directory = project / directory.expanduser()
    about = _about(directory)
    files = sorted(_files(directory))
    name = asked.name or about.name
    problems = []
    if about.problem:
        problems.append(about.problem)
    elif not name:
        problems.append("pyproject.toml has no name, and --name gives none.")
    elif not about.version:
        problems.append("pyproject.toml has no version.")
    if not any(file.suffix == ".py" for file in files):
        problems.append("There is no Python file.")
    for file in files:
        if _is_secret(directory / file):
            problems.append(f"{file} holds what looks like a secret (not shown).")
    notes = []
    if (directory / "dist").exists():
        notes.append("dist/ is emptied before the wheel is built.")
    if any(getattr(asked, bump) for bump in _BUMPS):
        notes.append("The version in pyproject.toml is raised first: look at that file afterwards.")
    return Package(
        directory=str(directory),
        name=name,
        version=about.version,
        dependencies=about.dependencies,
        files=tuple(map(str, files)),
        size=sum((directory / file).stat().st_size for file in files),
        problems=tuple(problems),
        notes=tuple(notes),
    )


def _asked(words: Sequence[str]) -> argparse.Namespace:
    """Return the options of `prime env push` among its words."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("env", nargs="?")
    for short, name in (("-p", "path"), ("-n", "name"), ("-o", "owner"), ("-t", "team")):
        parser.add_argument(short, f"--{name}")
    parser.add_argument("-v", "--visibility")
    for name in _BUMPS:
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true")
    try:
        return parser.parse_known_args(words)[0]
    except argparse.ArgumentError as error:
        raise UsageError(
            f"prime env push does not take this: {error}.", "`prime env push --help` says what."
        ) from None


def _about(directory: Path) -> _About:
    """Return what the directory's pyproject.toml says, or what is wrong with it."""
    path = directory / "pyproject.toml"
    try:
        project = tomllib.loads(path.read_text()).get("project")
    except OSError as error:
        return _About(problem=f"{path} cannot be read: {error.strerror}.")
    except ValueError as error:
        return _About(problem=f"{path} is no TOML: {error}.")
    if not isinstance(project, dict):
        return _About(problem=f"{path} has no [project].")
    dependencies = project.get("dependencies")
    return _About(
        name=str(project.get("name") or ""),
        version=str(project.get("version") or ""),
        dependencies=tuple(map(str, dependencies if isinstance(dependencies, list) else ())),
    )


def _files(directory: Path) -> Iterator[Path]:
    """Yield the files that the tool puts into its archive, relative to the directory."""
    for place, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if _is_sent(name)]
        for name in names:
            path = Path(place) / name
            at_the_top = path.parent == directory
            wanted = name in _AT_THE_TOP or path.suffix == ".py" or not at_the_top
            if wanted and not name.startswith(".") and not path.is_symlink():
                yield path.relative_to(directory)


def _is_sent(name: str) -> bool:
    """Return True if the tool looks into a directory of this name."""
    return not (name.startswith(".") or name.endswith(".egg-info") or name in _LEFT_OUT)


def _is_secret(path: Path) -> bool:
    """Return True if a file is named as a private key, or its text has the form of a secret."""
    if path.suffix in _KEYS or path.name in _KEY_NAMES:
        return True
    with path.open("rb") as handle:
        text = handle.read(_SEARCHED).decode(errors="replace")
    return redacted(text) != text
