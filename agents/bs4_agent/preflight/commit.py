"""Read which commit is checked out in a directory, from git's own files: git itself may be missing,
or refuse a checkout of another user.
"""

from __future__ import annotations

import re
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
#: Bytes. A larger file is none of these, or a repository with more packed references than are read.
_MOST = 4 << 20


def checked_out(directory: Path) -> str | None:
    """Return the commit that is checked out in `directory` or above it, as hex digits, or None if
    there is no checkout or its files do not show it. Changes that are not committed have no effect.
    """
    for place in (directory, *directory.parents):
        git = place / ".git"
        if git.exists():
            try:
                return _head(_repository(git))
            except (OSError, ValueError):
                return None
    return None


def _repository(git: Path) -> Path:
    """Return the directory with the state of a checkout: `.git`, or the one that the file `.git` of
    a submodule or worktree names. Raises OSError or ValueError if it does not tell.
    """
    if git.is_dir():
        return git
    word, _, path = _read(git).partition(" ")
    if word != "gitdir:":
        raise ValueError(f"{git} names no repository")
    return git.parent / path


def _head(repository: Path) -> str | None:
    """Return the commit of HEAD. Raises OSError if it cannot be read."""
    head = _read(repository / "HEAD")
    if not head.startswith("ref: "):
        return _commit(head)
    name = head.removeprefix("ref: ").strip()
    if ".." in name.split("/") or name.startswith("/"):
        return None
    common = repository
    if (repository / "commondir").is_file():
        common = repository / _read(repository / "commondir")
    for place in (repository, common):
        if (place / name).is_file():
            return _commit(_read(place / name))
    for line in _read(common / "packed-refs").splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name:
            return _commit(commit)
    return None


def _commit(text: str) -> str | None:
    """Return a text if it is a commit, else None."""
    if _COMMIT.fullmatch(text) is None:
        return None
    return text


def _read(path: Path) -> str:
    """Return the beginning of a text file without the white space around it. Raises OSError, also
    if it is no file: opening a pipe would wait for a writer.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file")
    with path.open("rb") as handle:
        return handle.read(_MOST).decode("utf-8", "replace").strip()
