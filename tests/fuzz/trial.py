"""One input for one target, within the limits of time and memory."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from tests.fuzz.bounds import MORE_BYTES, bounded

#: Bytes of an input. Larger ones find nothing more and are slow.
LONGEST = 96 * 1024


def tried(target: ModuleType) -> Callable[[bytes], None]:
    """Return a function that gives one input to a target.

    It raises what the target raises, TooSlow, or MemoryError.
    """
    more: int = getattr(target, "MORE_BYTES", MORE_BYTES)

    def one(data: bytes) -> None:
        with bounded(more_bytes=more):
            target.feed(data)

    return one
