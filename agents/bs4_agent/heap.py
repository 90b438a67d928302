"""One heap for all threads of the agent."""

from __future__ import annotations

import ctypes

#: M_ARENA_MAX of glibc's mallopt(3).
_M_ARENA_MAX = -8


def one_arena() -> bool:
    """Keep glibc from giving every thread a heap of its own, before the first thread starts. False where libc is another one.

    The agent's threads sleep nearly all the time, so they never compete for the heap; seven heaps cost about 3 MB of the 30 it may use.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
    except AttributeError:
        return False
