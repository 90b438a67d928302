"""A finished file as a stream: all of it, by cursor, never more."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bs4_agent.errors import BadCursor
from bs4_agent.streams.cursor import END, START, Chunk, Cursor
from bs4_agent.streams.stream import Piece

#: Of a cursor's generation there are twelve digits.
_GENERATIONS = 10**12


class WholeFile:
    """Raw bytes, no lines. When the file is replaced by another one its cursors end with BadCursor:
    read it from the start.
    """

    timestamp: Callable[[bytes], float | None] | None = None

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, cursor: str, limit: int) -> Chunk:
        piece = self._piece()
        place = self._place(cursor, piece)
        fd = piece.open()
        try:
            data = os.pread(fd, min(limit, piece.size - place.offset), place.offset)
        finally:
            os.close(fd)
        end = Cursor(piece.generation, place.offset + len(data))
        return Chunk(str(place), str(end), data, more=end.offset < piece.size)

    def stat(self) -> dict[str, Any]:
        piece = self._piece()
        return {
            "kind": "file",
            "start": str(Cursor(piece.generation, 0)),
            "end": str(Cursor(piece.generation, piece.size)),
            "bytes": piece.size,
        }

    def pieces(self) -> list[Piece]:
        return [self._piece()]

    def place_at(self, t: float) -> str | None:
        return None

    def close(self) -> None:
        """Nothing is held open."""

    def _piece(self) -> Piece:
        try:
            info = self._path.stat()
        except FileNotFoundError:
            raise BadCursor(
                f"{self._path.name} is gone; list the streams to see what there is."
            ) from None
        # One number per writing of the file: cursors into an older one must not come to mean other
        # bytes.
        return Piece(
            info.st_mtime_ns // 1_000_000 % _GENERATIONS,
            info.st_size,
            functools.partial(os.open, self._path, os.O_RDONLY | os.O_CLOEXEC),
        )

    @staticmethod
    def _place(cursor: str, piece: Piece) -> Cursor:
        if cursor in (START, END):
            return Cursor(piece.generation, 0 if cursor == START else piece.size)
        place = Cursor.parse(cursor)
        if place.generation != piece.generation or place.offset > piece.size:
            raise BadCursor("The file was written anew; read it from the start.")
        return place
