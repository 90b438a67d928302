"""What a console that is open all day does about its memory once it has painted its first
screen.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from textual._styles_cache import StylesCache

if TYPE_CHECKING:
    from textual.screen import Screen

#: From this size on an allocation is given back to the system as soon as it is freed. A log's
#: blocks are four times as large.
RETURNED_BYTES = 256 * 1024
#: mallopt's name for it (malloc.h).
M_MMAP_THRESHOLD = -3
#: When the collector looks (gc.set_threshold). Every strip of cells that Textual paints keeps
#: itself in a cache of its own, so only the collector frees it: some 10,000 objects a second while
#: a log flows by. By Python's own numbers (700, 10, 10) they get old before they are garbage, and
#: all that is young enough not to be frozen is walked through every three seconds, for up to 120 ms
#: in which no key is answered. By these the young are looked at every two seconds, for 13 ms, and
#: the old ones every ten, most often for 40.
COLLECTED = (5_000, 10, 3)


def settle() -> None:
    """What was made up to now stays, so the collector need not look at it again, and at the rest it
    looks seldom. And glibc is kept from learning: each large block that is freed moves the size
    from which blocks get pages of their own, up to 32 MiB, and the blocks of a log that flows by (a
    MiB, grown by appending) then leave holes: 188 MB instead of 164 for two logs of 64 MiB, reached
    only after minutes.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTED)
    import ctypes  # after the first screen: its import takes as long as a paint

    try:
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, RETURNED_BYTES)
    except AttributeError:
        return  # macOS and musl have allocators without it, and without the habit


def forget_left(screen: Screen[Any]) -> None:
    """`screen` is shown instead of another one. Textual would keep all that the other's widgets
    painted, of 1,024 widgets that are gone: what asks each for its two colours remembers the
    answers by the one that was asked (Textualize/textual#6665). And what a widget found by name it
    remembers by how often what lies below it has changed, 1,024 times: a prompt changes it whenever
    it opens.
    """
    StylesCache.get_inner_outer.cache_clear()
    for node in (screen, *screen.query("*")):
        node._query_one_cache.clear()
