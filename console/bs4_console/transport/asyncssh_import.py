"""Imports asyncssh, for all modules of this package, without running a compiler.

asyncssh looks for shared libraries that it can do without (liboqs, nettle). For each that the
loader's cache does not name, Python's search runs gcc and ld: 50 ms of each start of a command, and
a health check has no business with a compiler.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import os
from collections.abc import Iterator
from pathlib import Path

#: The names of the shared libraries that the loader of glibc finds.
_CACHE = Path("/etc/ld.so.cache")


@contextlib.contextmanager
def no_compiler(cache: Path = _CACHE) -> Iterator[None]:
    """Keep Python's search for a shared library from running a compiler, for the length of the
    `with` block: the search finds only libraries that the loader's cache names. `cache` is the path
    of the file with that cache. Nothing is changed where there is no such cache (macOS, musl), or
    where the environment variable LD_LIBRARY_PATH names further directories, which only the linker
    searches.
    """
    search = ctypes.util.find_library
    try:
        known = cache.read_bytes()
    except OSError:
        yield
        return

    def quick(name: str) -> str | None:
        if f"lib{name}.so".encode() in known:
            return search(name)
        return None

    if not os.environ.get("LD_LIBRARY_PATH"):
        ctypes.util.find_library = quick
    try:
        yield
    finally:
        ctypes.util.find_library = search


with no_compiler():
    import asyncssh

__all__ = ["asyncssh", "no_compiler"]
