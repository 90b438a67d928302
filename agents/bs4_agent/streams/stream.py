"""The interface of every stream, and the files that a stream consists of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from bs4_agent.streams.cursor import Chunk


@dataclass(frozen=True)
class Piece:
    """One file of a stream as a query sees it: the number `generation`, the first `size` bytes,
    which do not change any more, and `open`, which returns a new descriptor.

    The caller of `open` closes the descriptor. It is -1 if the file is gone by now.
    """

    generation: int
    size: int
    open: Callable[[], int]


def opened(pieces: Iterable[Piece]) -> Iterator[tuple[Piece, int]]:
    """Yield each piece with an open descriptor of its file, which is closed when the next piece is
    asked for. Pieces whose file is gone are skipped.
    """
    for piece in pieces:
        fd = piece.open()
        if fd >= 0:
            try:
                yield piece, fd
            finally:
                os.close(fd)


class Stream(Protocol):
    """The interface of every stream: a log, a stream of records, or a finished file. Safe to use
    from several threads.
    """

    @property
    def timestamp(self) -> Callable[[bytes], float | None] | None:
        """Return the function that returns the wall second of a line (its bytes without LF), or
        None for a line without a time. Return None in place of the function if the lines of this
        stream are not understood.
        """

    def read(self, cursor: str, limit: int) -> Chunk:
        """Return the chunk of about `limit` bytes at `cursor`, which is the text of a cursor,
        "start" or "end". It does not wait, so the chunk may be empty. Raises BadCursor if there is
        no such place.
        """

    def stat(self) -> dict[str, Any]:
        """Return the state of the stream as a dictionary: `kind` ("log", "records" or "file"), the
        cursors `start` and `end`, `bytes`, and more that depends on the kind.
        """

    def pieces(self) -> list[Piece]:
        """Return the stream's files that can be read now, as pieces, oldest first. The list is
        empty if there is none.
        """

    def place_at(self, t: float) -> str | None:
        """Return the cursor of the place that the stream had reached at wall second `t`. Return
        None if the stream keeps no such times.
        """
