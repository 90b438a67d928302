"""The second bundle: b2sdk and its dependencies, pure Python, for the processes on a pod that talk
to an object store. It is sent only when it is needed.
"""

from __future__ import annotations

import functools
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from bs4_console import assets
from bs4_console.transport import bundle
from bs4_console.transport.bundle import Bundle

ARCHIVE, DESCRIPTION, LOCK = "b2.tar.gz", "b2.json", "bundle_b2.lock"
#: Files of the wheels that are left out: no pod needs command line tools and type stubs. METADATA
#: stays, because b2sdk reads its own version from it.
_LEFT_OUT = re.compile(
    r"/(RECORD|WHEEL|top_level\.txt|entry_points\.txt|INSTALLER)$|/_pyinstaller/|\.pyi$|\.data/"
)


@functools.cache
def shipped() -> Bundle:
    """Return this console's bundle of b2sdk, the library with which an agent reads and writes an
    object store. It is the one in the console's wheel, or, in a source checkout, one built now from
    the pinned wheels. Raises ConsoleError, which names the command to run, if the bundle or a
    pinned wheel is missing.
    """
    root = assets.checkout()
    if root is None:
        return bundle.read(assets.find("bundle"), ARCHIVE, DESCRIPTION)
    return from_checkout(root)


def from_checkout(root: Path, *, work: Path | None = None) -> Bundle:
    """Return the bundle of b2sdk (the library for the object store) that is built from the pinned
    wheels of the checkout `root`. `work` (None: the directory `build` in the checkout) has the
    wheels in `wheels/` and earlier bundles in `cache-b2/`. Raises ConsoleError if a pinned wheel is
    missing or has another hash than the lock file names.
    """
    work = work or root / "build"
    return bundle.assemble(dict(contents(root, work)), version(root), 0, cache=work / "cache-b2")


def contents(root: Path, work: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path in the bundle and the bytes of every file of b2sdk (the library for the object
    store) and of the packages that it needs. They come from the wheels in the directory `wheels/`
    of `work` that the lock file of the checkout `root` names with their hashes. The packages are
    side by side, as in a directory of sys.path. Raises ConsoleError if a wheel is missing or has
    another hash.
    """
    for wheel in bundle.wheels(root, work, LOCK):
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                if not entry.is_dir() and not _LEFT_OUT.search(entry.filename):
                    yield entry.filename, archive.read(entry)


def version(root: Path) -> str:
    """Return the version of b2sdk in the lock file of the checkout `root`, or "0" if the lock file
    does not name b2sdk.
    """
    found = re.search(r"(?m)^b2sdk==([\d.]+)", (root / "agents" / LOCK).read_text())
    return found[1] if found else "0"
