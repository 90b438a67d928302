"""How many bytes a second the log may paint: over a link of its own the screen must not become the
load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from textual.strip import Strip

#: Bytes a second in remote mode; the rest of the screen needs a few more, and 100 KiB/s is what the
#: whole may take.
REMOTE_BYTES_S = 72 * 1024
#: What a change of style costs on the wire, and placing the cursor for a row.
STYLE_BYTES, ROW_BYTES = 22, 10


class PaintBudget:
    """A bucket of bytes that fills by the second. A paint is always whole: it may overdraw, and
    then the next one waits.
    """

    def __init__(self, bytes_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        """`bytes_s` None: without a limit."""
        self._bytes_s, self._clock = bytes_s, clock
        self._left, self._at = bytes_s or 0.0, clock()

    @property
    def limited(self) -> bool:
        return self._bytes_s is not None

    @property
    def allows(self) -> bool:
        """Whether the log's growth may be painted now. What a person does is painted anyway."""
        if self._bytes_s is None:
            return True
        now = self._clock()
        self._left = min(self._bytes_s / 2, self._left + (now - self._at) * self._bytes_s)
        self._at = now
        return self._left >= 0

    def spend(self, strips: Sequence[Strip]) -> None:
        if self._bytes_s is not None:
            self._left -= sum(cost(strip) for strip in strips)


def cost(strip: Strip) -> int:
    """About how many bytes painting this row takes."""
    return ROW_BYTES + sum(len(segment.text.encode()) + STYLE_BYTES for segment in strip)
