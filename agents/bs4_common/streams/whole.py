"""A finished file as a stream: its bytes by cursor, and nothing that comes later."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

from bs4_common.errors import BadCursor
from bs4_common.streams.cursor import END, START, Chunk, Cursor
from bs4_common.streams.stream import Piece, Stat

#: A cursor's generation has at most twelve digits.
_GENERATIONS = 10**12


class WholeFile:
    """One finished file as a stream of its raw bytes. If the file is replaced or written again, a
    read at a cursor (place) from before raises BadCursor, and the file must be read from the start.
    """

    timestamp: Callable[[bytes], float | None] | None = None
    """None, because no times are looked for in the lines of such a file (see `Stream`)."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, cursor: str, limit: int) -> Chunk:
        """Return the chunk of at most `limit` bytes at `cursor`, which is a place in the file as
        text, or "start" or "end". Raises BadCursor if the file is gone or was written again since
        the cursor was made.
        """
        piece = self._piece()
        place = self._place(cursor, piece)
        fd = piece.open()
        try:
            data = os.pread(fd, min(limit, piece.size - place.offset), place.offset)
        finally:
            os.close(fd)
        end = Cursor(piece.generation, place.offset + len(data))
        return Chunk(str(place), str(end), data, more=end.offset < piece.size)

    def stat(self) -> Stat:
        """Return the state of the stream as a dictionary: `kind` "file", the cursors (places as
        text) `start` and `end`, and `bytes`, the size of the file. Raises BadCursor if the file is
        gone.
        """
        piece = self._piece()
        return {
            "kind": "file",
            "start": str(Cursor(piece.generation, 0)),
            "end": str(Cursor(piece.generation, piece.size)),
            "bytes": piece.size,
        }

    def pieces(self) -> list[Piece]:
        """Return a list with the file as its only piece. Raises BadCursor if the file is gone."""
        return [self._piece()]

    def place_at(self, t: float) -> str | None:
        """Return None always, whatever the time `t` is, because nobody records when a finished file
        grew.
        """
        return None

    def close(self) -> None:
        """Do nothing, because no file is held open."""

    def _piece(self) -> Piece:
        """Return the file as it is now. Raises BadCursor if it is gone."""
        try:
            info = self._path.stat()
        except FileNotFoundError:
            raise BadCursor(
                f"{self._path.name} is gone; list the streams to see what there is."
            ) from None
        # The number changes whenever the file is written, so that cursors into an older one do not
        # come to mean other bytes.
        return Piece(
            info.st_mtime_ns // 1_000_000 % _GENERATIONS,
            info.st_size,
            functools.partial(os.open, self._path, os.O_RDONLY | os.O_CLOEXEC),
        )

    @staticmethod
    def _place(cursor: str, piece: Piece) -> Cursor:
        """Return the cursor in a text, also for "start" and "end". Raises BadCursor."""
        if cursor in (START, END):
            return Cursor(piece.generation, 0 if cursor == START else piece.size)
        place = Cursor.parse(cursor)
        if place.generation != piece.generation or place.offset > piece.size:
            raise BadCursor("The file was written anew; read it from the start.")
        return place
