"""A cache of compiled playbooks. Reading, checking and compiling two hundred files takes half a
second, and every command would pay for it.

The files are `<cache>/bs4-console/playbooks/<sha256>.json`. The hash covers every playbook and the
code that checks and compiles it, so a changed byte gives another name. Nothing depends on the
cache: if a file cannot be read or written, the playbooks are compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

#: The number of results that are kept. Older results are removed when a new one is written.
_KEPT = 8


def directory() -> Path:
    """Return the directory on this machine for compiled playbooks (descriptions of known failures
    and their repair): in `$XDG_CACHE_HOME`, or in ~/.cache if that is not set. It need not exist.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "bs4-console" / "playbooks"


def cached(kind: str, inputs: Iterable[Path], make: Callable[[], bytes]) -> bytes:
    """Return the bytes that `make()` produces from the files `inputs`. If it has produced them from
    files with the same content earlier, they are read from a cache on this machine, and `make` is
    not called. `kind` is a name for what `make` produces, by which the cache keeps its results
    apart. An error that `make` raises is passed on, and then nothing is put into the cache.
    """
    digest = hashlib.sha256(f"{kind}\0{sys.version}".encode())
    for path in inputs:
        content = path.read_bytes()
        digest.update(f"\0{path}\0{len(content)}\0".encode() + content)
    place = directory() / f"{digest.hexdigest()}.json"
    with contextlib.suppress(OSError):
        return place.read_bytes()
    made = make()
    with contextlib.suppress(OSError):
        _write(place, made)
    return made


def _write(place: Path, made: bytes) -> None:
    """Write a result by a rename, so that nobody reads half of it, and remove old results."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(made)
    Path(name).replace(place)
    for old in sorted(
        place.parent.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True
    )[_KEPT:]:
        old.unlink(missing_ok=True)
