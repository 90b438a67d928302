"""Keeping the agent small: one heap for all threads, and no library that is imported and never
used.
"""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType
from typing import NoReturn

#: M_ARENA_MAX of glibc's mallopt(3).
_M_ARENA_MAX = -8


def one_arena() -> bool:
    """Keep glibc from giving every thread a heap of its own. Call it before the first thread
    starts. Return False if libc is not glibc.

    The agent's threads sleep nearly all the time, so they never compete for the heap. Seven heaps
    cost about 3 MB of the 30 it may use.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
    except AttributeError:
        return False


def no_library_search() -> None:
    """Replace ctypes.util before pynvml is imported. pynvml imports `find_library` and never calls
    it (nvidia-ml-py 13.580), and that import brings shutil, tempfile, random, bz2 and lzma: 1.2 MB.
    """

    def find_library(name: str) -> NoReturn:
        raise NotImplementedError(f"the agent looks for no library by name ({name})")

    stand_in = ModuleType("ctypes.util")
    stand_in.find_library = find_library  # type: ignore[attr-defined]
    sys.modules.setdefault("ctypes.util", stand_in)
