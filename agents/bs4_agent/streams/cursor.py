"""A place in a stream, and what a read from it gives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bs4_agent.errors import BadCursor

#: ASCII digits only: int() alone would also take spaces, underscores and other alphabets' digits.
_PLACE = re.compile(r"([0-9]{1,12}):([0-9]{1,18})")


@dataclass(frozen=True, order=True)
class Cursor:
    """`generation:offset`: raw bytes of one file. Generations of a stream ascend, so cursors of one
    stream compare.
    """

    generation: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The place in `text`. BadCursor for anything else, "start" and "end" included: only a
        stream knows where they are.
        """
        match = _PLACE.fullmatch(text)
        if match is None:
            raise BadCursor(
                f"{text[:40]!r} is no cursor; use 'start', 'end' or a cursor that a read gave."
            )
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.generation}:{self.offset}"


START = "start"
END = "end"


@dataclass(frozen=True)
class Chunk:
    """What a read gives: `data` are the raw bytes from cursor `start` on, all of one generation;
    the next read goes on at `next`.

    `data` ends with a whole line, with two exceptions, both with `partial` set:

    * `next == start`: an unfinished last line, older than a second. It will come again, from its
      start, when it has grown and when it is complete: whoever shows it replaces it. Only whole
      lines advance the cursor, so they come exactly once.
    * `next != start`: a piece of a line that is too long for one chunk, or the last line of a file
      that ended without LF. These bytes will not come again.

    `gap` is `{"generation", "from", "to", "reason"}` with byte offsets (`to` None = unknown) for
    bytes that existed and cannot be had; `data` is then empty and `next` lies behind the gap.
    `more`: another read would give data at once.
    """

    start: str
    next: str
    data: bytes = b""
    gap: dict[str, Any] | None = None
    partial: bool = False
    more: bool = False

    @property
    def repeats(self) -> bool:
        """Whether this is an unfinished line that will be delivered again."""
        return self.partial and self.next == self.start
