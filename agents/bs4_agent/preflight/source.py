"""Reads files of a trainer's source for a console, which compares them with what it knows of the
trainer. Nothing of them is run.
"""

from __future__ import annotations

import base64
import contextlib
import re
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from bs4_common.descriptors import open_file
from bs4_common.errors import BadRequest, Refused
from bs4_common.preflight import SourceFiles

#: Files in one question, and characters of a name. A console asks for 60 files.
_NAMES_MOST, _NAME_MOST = 100, 200
#: Bytes of one file. The largest that a console asks for has 53 KB.
FILE_MOST = 256 * 1024
#: Characters of files in one answer: a frame's header holds 64 KiB.
ANSWER_MOST = 44 * 1024
#: What a checkout has in front of a path that an installed package does not have.
_IN_CHECKOUT = re.compile(r"^(?:packages/[^/]+/)?src/")


def read(cwd: Path, packages: Sequence[Path], names: Sequence[Any], after: int = 0) -> SourceFiles:
    """Return the contents of files of a trainer's source. `names` are the paths of the files in the
    trainer's checkout. The checkout is the directory `cwd`; if none of its Python files is there,
    the files are read from a package that is installed in one of the directories `packages`.

    One answer has only as many files as a reply can hold. `after` is the index in `names` at which
    to begin, and the answer's `next` is the index with which to continue, or None. A file that
    exists and cannot be sent is in `refused`, with the reason; one that does not exist is left out.

    Raises BadRequest if `names` are not plain relative paths of Python files or pyproject.toml.
    """
    if len(names) > _NAMES_MOST or not all(_is_plain(name) for name in names):
        raise BadRequest("`files` are relative paths of Python files or pyproject.toml.")
    root, places = _found(cwd, packages, names)
    answer: SourceFiles = {"root": "", "files": [], "refused": [], "next": None}
    if places:
        answer["root"] = str(root)
    size = 0
    for number in range(max(after, 0), len(names)):
        name = names[number]
        if name not in places:
            continue
        rows = answer["files"]
        try:
            text = _contents(root, places[name])
        except (Refused, OSError) as error:
            rows, text = answer["refused"], _why(error)
        size += len(name) + len(text)
        if size > ANSWER_MOST and size > len(name) + len(text):
            answer["next"] = number
            break
        rows.append([name, text])
    return answer


def _is_plain(name: Any) -> bool:
    """Return True if a console may ask for this path."""
    if not isinstance(name, str) or len(name) > _NAME_MOST or "\0" in name:
        return False
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        return False
    return path.suffix == ".py" or name == "pyproject.toml"


def _found(
    cwd: Path, packages: Sequence[Path], names: Sequence[str]
) -> tuple[Path, dict[str, Path]]:
    """Return the directory in which the source is, and the path of each file that is there."""
    own = _there({name: cwd / name for name in names})
    if any(name.endswith(".py") for name in own):
        return cwd, own
    for directory in packages:
        there = _there({name: directory / _IN_CHECKOUT.sub("", name) for name in names})
        if there:
            return directory, there
    return cwd, own


def _there(places: dict[str, Path]) -> dict[str, Path]:
    """Return those of the places, by name, at which there is something that can be seen."""
    found = {}
    for name, path in places.items():
        # What this user may not look at cannot be sent either.
        with contextlib.suppress(PermissionError):
            if path.exists():
                found[name] = path
    return found


def _contents(root: Path, path: Path) -> str:
    """Return the contents of a file as they are sent. Raises Refused or OSError."""
    real = path.resolve()
    if not real.is_relative_to(root.resolve()):
        raise Refused("leads out of the checkout")
    with open_file(real) as descriptor, open(descriptor, "rb", closefd=False) as stream:
        data = stream.read(FILE_MOST + 1)
    text = base64.b64encode(zlib.compress(data)).decode()
    if len(data) > FILE_MOST or len(text) > ANSWER_MOST:
        raise Refused("is too large to be sent")
    return text


def _why(error: Refused | OSError) -> str:
    """Return why a file is not sent, as the end of a sentence that begins with its name."""
    if isinstance(error, OSError):
        return f"cannot be read ({error.strerror})"
    return error.message[:200]
