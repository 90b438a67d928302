"""Limits the bytes per second that the log paints over a link, because the screen must not become
the load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from textual.strip import Strip

#: Bytes per second for the log in remote mode. With the rest of the screen that stays below 100
#: KiB/s.
REMOTE_BYTES_S = 72 * 1024
#: Bytes that a change of style costs on the wire, and that placing the cursor for a row costs.
STYLE_BYTES, ROW_BYTES = 22, 10


class PaintBudget:
    """Limits how many bytes are spent on painting the log, so that a slow link is not filled.
    `bytes_s` bytes may be spent in each second, and at most half a second's bytes are saved up;
    None sets no limit. A row is always painted completely, even if that spends more than is left;
    the next paint then waits. `clock` returns monotonic seconds.
    """

    def __init__(self, bytes_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with the bytes of one second. `bytes_s` is how many bytes a second may be painted,
        or None for no limit.
        """
        self._bytes_s, self._clock = bytes_s, clock
        self._left, self._at = bytes_s or 0.0, clock()

    @property
    def limited(self) -> bool:
        """Return True if there is a limit on the bytes per second for painting the log. There is
        one if the console is used over SSH.
        """
        return self._bytes_s is not None

    @property
    def allows(self) -> bool:
        """Return True if new lines of the log may be painted now, which is so unless the bytes for
        this moment are used up. Ask this only for new lines. What changes because a person has
        pressed a key is always painted.
        """
        if self._bytes_s is None:
            return True
        now = self._clock()
        self._left = min(self._bytes_s / 2, self._left + (now - self._at) * self._bytes_s)
        self._at = now
        return self._left >= 0

    def spend(self, strips: Sequence[Strip]) -> None:
        """Subtract from the bytes that may still be painted about as many as painting the rows
        `strips` sends to the terminal. Do nothing if there is no limit.
        """
        if self._bytes_s is not None:
            self._left -= sum(cost(strip) for strip in strips)


def cost(strip: Strip) -> int:
    """Return about how many bytes painting this row sends to the terminal."""
    return ROW_BYTES + sum(len(segment.text.encode()) + STYLE_BYTES for segment in strip)
