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
    """Make the garbage collector ignore everything that exists now and scan the rest rarely, and
    stop glibc from adapting its allocation threshold.

    glibc raises the size from which blocks get pages of their own, up to 32 MiB, whenever a large
    block is freed. The blocks of a growing log (1 MiB each, grown by appending) then leave holes:
    188 MB instead of 164 MB for two logs of 64 MiB, reached only after minutes.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTED)
    import ctypes  # after the first screen: its import takes as long as a paint

    try:
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, RETURNED_BYTES)
    except AttributeError:
        return  # macOS and musl have allocators without it, and without the habit


def forget_left(screen: Screen[Any]) -> None:
    """Clear Textual's caches that keep the widgets of the screen that `screen` replaced.

    Textual would keep what 1,024 widgets that are gone have painted, because its style cache is
    keyed by the widget (Textualize/textual#6665). A widget also caches each lookup by name together
    with a counter of changes below it, up to 1,024 times, and a prompt changes that counter
    whenever it opens.
    """
    StylesCache.get_inner_outer.cache_clear()
    for node in (screen, *screen.query("*")):
        node._query_one_cache.clear()
