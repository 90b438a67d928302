"""The interface of every stream, and the files that a stream consists of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from bs4_agent.streams.cursor import Chunk


@dataclass(frozen=True)
class Piece:
    """One generation as a query sees it: `size` bytes that will not change, and how to open them.

    `open` returns a descriptor that the caller closes, or -1 if the file is gone in the meantime.
    """

    generation: int
    size: int
    open: Callable[[], int]


def opened(pieces: Iterable[Piece]) -> Iterator[tuple[Piece, int]]:
    """Yield each piece with its open descriptor, which is closed afterwards. Pieces whose file is
    gone are skipped.
    """
    for piece in pieces:
        fd = piece.open()
        if fd >= 0:
            try:
                yield piece, fd
            finally:
                os.close(fd)


class Stream(Protocol):
    """A log or a stream of records. Safe to use from several threads."""

    @property
    def timestamp(self) -> Callable[[bytes], float | None] | None:
        """Return the function that reads the wall second of a line (without LF). It returns None
        for a line without a time. The property is None if lines are not understood at all.
        """

    def read(self, cursor: str, limit: int) -> Chunk:
        """Return a chunk of about `limit` bytes from `cursor` on. `cursor` is a place, "start" or
        "end". It never waits. Raises BadCursor if there is no such place.
        """

    def stat(self) -> dict[str, Any]:
        """Return `kind` ("log", "records" or "file"), `start` and `end` (cursors), `bytes`, and
        what the kind adds.
        """

    def pieces(self) -> list[Piece]:
        """Return the files that can be read now, each with its size, oldest first."""

    def place_at(self, t: float) -> str | None:
        """Return the cursor that was the end of the stream at wall second `t`. None if the stream
        does not note such times.
        """
