"""Read the `Host` aliases of ~/.ssh/config, so that they can be added as pods.

The meaning of an alias stays in that file: SSH reads it at connect time.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bs4_console.errors import UsageError
from bs4_console.pods.inventory import Pod

# OpenSSH's own limit for nested Include (READCONF_MAX_DEPTH).
_MAX_DEPTH = 16
_LINE = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)")


@dataclass(frozen=True)
class Alias:
    """One name on a `Host` line of an SSH config that is a plain name and not a pattern: `name`.
    `file` and `line` (from 1) say where it stands.
    """

    name: str
    file: Path
    line: int


@dataclass(frozen=True)
class Candidates:
    """What an import of an SSH config would do. `pods` are the pods that it would add. `skipped`
    holds each alias that cannot be a pod's name, with the reason.
    """

    pods: tuple[Pod, ...]
    skipped: tuple[tuple[Alias, str], ...]


def default_path() -> Path:
    """Return the path of the person's SSH config, ~/.ssh/config. The file need not exist."""
    return Path("~/.ssh/config").expanduser()


def aliases(path: Path) -> tuple[Alias, ...]:
    """Return every alias in the SSH config `path` and in the files that it includes, in order. If a
    name appears several times, only its first place is returned. Raises UsageError if a file cannot
    be read.
    """
    seen: dict[str, Alias] = {}
    for alias in _read(path, path.parent, 0):
        seen.setdefault(alias.name, alias)
    return tuple(seen.values())


def candidates(path: Path) -> Candidates:
    """Return the pods that could be imported from the SSH config `path`, one for each alias, and
    the aliases that cannot be used. The alias becomes the pod's host; all other settings stay in
    ~/.ssh/config. Raises UsageError if `path` cannot be read.
    """
    pods, skipped = [], []
    for alias in aliases(path):
        try:
            pods.append(Pod(name=alias.name, host=alias.name))
        except UsageError as error:
            skipped.append((alias, error.message))
    return Candidates(tuple(pods), tuple(skipped))


def _read(path: Path, base: Path, depth: int) -> Iterator[Alias]:
    if depth > _MAX_DEPTH:
        raise UsageError(
            f"{path} is included more than {_MAX_DEPTH} levels deep.",
            "Look for an Include that leads back to itself.",
        )
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.",
            "Give the right path with --ssh-config FILE.",
        ) from error
    for number, line in enumerate(text.splitlines(), 1):
        keyword, arguments = _split(line, path, number)
        if keyword == "host":
            yield from (
                Alias(word, path, number) for word in arguments if not set(word) & set("*?!")
            )
        elif keyword == "include":
            for pattern in arguments:
                for included in _glob(pattern, base):
                    yield from _read(included, base, depth + 1)


def _split(line: str, path: Path, number: int) -> tuple[str, list[str]]:
    """Return the keyword of a line in lower case, and its arguments. One `=` may stand between
    them. Return ("", []) for a line without a keyword.
    """
    match = _LINE.match(line)
    if match is None:
        return "", []
    try:
        return match[1].lower(), shlex.split(match[2], comments=True)
    except ValueError as error:
        raise UsageError(
            f"{path} line {number}: {error}.", "Close the quote on that line."
        ) from error


def _glob(pattern: str, base: Path) -> list[Path]:
    """Return the files that match an Include pattern. Relative patterns count from the directory of
    the first file (~/.ssh), as in OpenSSH.
    """
    path = Path(pattern).expanduser()
    if path.is_absolute():
        root, relative = (Path(path.anchor), str(path.relative_to(path.anchor)))
    else:
        root, relative = (base, str(path))
    return sorted(found for found in root.glob(relative) if found.is_file())
