"""Keeps the memory of a console small that is open all day. It is called once the first screen is
painted.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from textual._styles_cache import StylesCache

if TYPE_CHECKING:
    from textual.screen import Screen

#: Allocations of at least this many bytes are returned to the system as soon as they are freed. A
#: log's blocks are four times as large.
RETURNED_BYTES = 256 * 1024
#: mallopt's name for it (malloc.h).
M_MMAP_THRESHOLD = -3
#: Thresholds of the garbage collector (gc.set_threshold). Every strip of cells that Textual paints
#: is in a reference cycle with its cache, so that only the collector frees it: some 10,000 objects
#: a second while a log is growing. With Python's defaults (700, 10, 10) they become old before they
#: are garbage, and everything that is not frozen is scanned every three seconds, for up to 120 ms
#: in which no key is answered. With these thresholds the young objects are scanned every two
#: seconds, for 13 ms, and the old ones every ten seconds, usually for 40 ms.
COLLECTED = (5_000, 10, 3)


def settle() -> None:
    """Set up the memory management of this process, after the first screen was painted: the garbage
    collector ignores everything that exists now and scans the rest rarely, and glibc keeps a fixed
    allocation threshold. Where there is no glibc, only the collector is set up.

    Without the fixed threshold, glibc would raise the size from which blocks get pages of their
    own, up to 32 MiB, whenever a large block is freed. The blocks of a growing log (1 MiB each)
    would then leave holes: two logs of 64 MiB would take 188 MB instead of 164 MB.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTED)
    import ctypes  # after the first screen: its import takes as long as a paint

    try:
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, RETURNED_BYTES)
    except AttributeError:
        return  # macOS and musl have allocators without it, and without the habit


def forget_left(screen: Screen[Any]) -> None:
    """Clear Textual's caches that still hold widgets of a screen that was closed. `screen` is the
    screen that is shown now, whose own caches are cleared too.

    Textual's style cache is keyed by the widget (Textualize/textual#6665) and would keep what 1,024
    removed widgets have painted. A widget also caches up to 1,024 results of looking up widgets by
    name, and each opening of a prompt makes new ones.
    """
    StylesCache.get_inner_outer.cache_clear()
    for node in (screen, *screen.query("*")):
        node._query_one_cache.clear()
