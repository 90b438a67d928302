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
    """Make all threads share one heap, and return True. Return False if the C library is not glibc,
    which alone has a heap for each thread. Call it before the first thread starts.

    The agent's threads sleep nearly all the time, so they do not compete for the heap. Seven heaps
    would cost about 3 MB of the 30 MB that the agent may use.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
    except AttributeError:
        return False


def no_library_search() -> None:
    """Put an empty stand-in in the place of the module ctypes.util, which saves 1.2 MB of memory.
    Call it before pynvml is imported.

    pynvml (nvidia-ml-py 13.580) imports `find_library` from ctypes.util and never calls it, and
    that import loads shutil, tempfile, random, bz2 and lzma.
    """

    def find_library(name: str) -> NoReturn:
        raise NotImplementedError(f"the agent looks for no library by name ({name})")

    stand_in = ModuleType("ctypes.util")
    stand_in.find_library = find_library  # type: ignore[attr-defined]
    sys.modules.setdefault("ctypes.util", stand_in)
