"""What every stream can do, and the files it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from bs4_agent.streams.cursor import Chunk


@dataclass(frozen=True)
class Piece:
    """One generation as a query sees it: `size` bytes that will not change, and how to open them.

    `open` gives a descriptor that the caller closes, or -1 when the file has gone in the meantime.
    """

    generation: int
    size: int
    open: Callable[[], int]


class Stream(Protocol):
    """A log or a stream of records. Safe to use from several threads."""

    @property
    def timestamp(self) -> Callable[[bytes], float | None] | None:
        """Wall seconds of a line (without LF), None for lines that have no time; None as a whole
        where lines are not understood.
        """
        ...

    def read(self, cursor: str, limit: int) -> Chunk:
        """About `limit` bytes from `cursor` (a place, "start" or "end") on; never waits. BadCursor
        when there is no such place.
        """
        ...

    def stat(self) -> dict[str, Any]:
        """`kind` ("log" or "records"), `start` and `end` (cursors), `bytes`, and what is particular
        to the kind.
        """
        ...

    def pieces(self) -> list[Piece]:
        """What can be read now, oldest first."""
        ...

    def place_at(self, t: float) -> str | None:
        """The cursor that was the end of the stream at wall time `t`, where the stream has noted
        such pairs; None where not.
        """
        ...


class Polled(Stream, Protocol):
    """A stream whose bytes are written by someone else, so that it has to look."""

    def poll(self) -> bool:
        """Whether there is something new for a reader."""
        ...
