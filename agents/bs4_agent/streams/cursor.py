"""A place in a stream, and the result of a read from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bs4_agent.errors import BadCursor

#: ASCII digits only: int() alone would also take spaces, underscores and other alphabets' digits.
_PLACE = re.compile(r"([0-9]{1,12}):([0-9]{1,18})")


@dataclass(frozen=True, order=True)
class Cursor:
    """A place in a stream, as text `generation:offset`: a byte offset in one file. Generations of a
    stream ascend, so cursors of one stream can be compared.
    """

    generation: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Return the cursor in `text`. Raises BadCursor for anything else, also for "start" and
        "end", because only a stream knows where they are.
        """
        match = _PLACE.fullmatch(text)
        if match is None:
            raise BadCursor(
                f"{text[:40]!r} is no cursor; use 'start', 'end' or a cursor that a read gave."
            )
        return cls(int(match[1]), int(match[2]))

    def gap(self, to: int | None, reason: str) -> dict[str, Any]:
        """Return the `gap` of a Chunk for the bytes from here up to byte `to`; None is unknown."""
        return {"generation": self.generation, "from": self.offset, "to": to, "reason": reason}

    def __str__(self) -> str:
        return f"{self.generation}:{self.offset}"


START = "start"
END = "end"


@dataclass(frozen=True)
class Chunk:
    """The result of a read: `data` are the raw bytes from cursor `start` on, all of one generation.
    The next read continues at `next`.

    `data` ends with a whole line, with two exceptions, which have `partial` set:

    * `next == start`: an unfinished last line, older than a second. It will come again from its
      start
      when it has grown and when it is complete, so a reader that shows it replaces it. Only whole
        lines
      advance the cursor, so each comes exactly once.
    * `next != start`: a piece of a line that is too long for one chunk, or the last line of a file
      that
      ended without LF. These bytes will not come again.

    `gap` is `{"generation", "from", "to", "reason"}` with byte offsets (`to` None is unknown) for
    bytes that existed and cannot be read any more. Then `data` is empty and `next` lies behind the
    gap. `more` means that another read would return data at once.
    """

    start: str
    next: str
    data: bytes = b""
    gap: dict[str, Any] | None = None
    partial: bool = False
    more: bool = False

    @property
    def repeats(self) -> bool:
        """Return True if this is an unfinished line that will be delivered again."""
        return self.partial and self.next == self.start
