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
    """A place in a stream: a byte offset in one of its files, which the number `generation` names.
    Its text is `generation:offset`. The numbers of a stream's files ascend, so its cursors can be
    compared.
    """

    generation: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Return the cursor in `text`. Raises BadCursor if the text is none. "start" and "end" are
        refused too, because only the stream knows where they are.
        """
        match = _PLACE.fullmatch(text)
        if match is None:
            raise BadCursor(
                f"{text[:40]!r} is no cursor; use 'start', 'end' or a cursor that a read gave."
            )
        return cls(int(match[1]), int(match[2]))

    def gap(self, to: int | None, reason: str) -> dict[str, Any]:
        """Return the value of `Chunk.gap` that says that the bytes from this cursor up to byte `to`
        of the same file are lost, and why. With `to` None it is not known how many.
        """
        return {"generation": self.generation, "from": self.offset, "to": to, "reason": reason}

    def __str__(self) -> str:
        return f"{self.generation}:{self.offset}"


START = "start"
END = "end"


@dataclass(frozen=True)
class Chunk:
    """The result of a read: `data` are the raw bytes from cursor `start` on, all from one file. The
    next read continues at cursor `next`. `more` means that it would return data at once.

    `data` ends with a whole line, except in two cases, which have `partial` set:

    * `next == start`: it is the last line, not finished for over a second. It comes again from its
      start when it has grown and when it is complete, so a reader that shows it replaces it. Only
      whole lines advance the cursor, so each of these comes exactly once.
    * `next != start`: it is a piece of a line that is too long for one chunk, or the last line of a
      finished file that ended without LF. These bytes do not come again.

    `gap` is not None if bytes existed that cannot be read any more: `{"generation", "from", "to",
    "reason"}` with byte offsets (`to` None is unknown). Then `data` is empty and `next` is the
    place after the lost bytes.
    """

    start: str
    next: str
    data: bytes = b""
    gap: dict[str, Any] | None = None
    partial: bool = False
    more: bool = False

    @property
    def repeats(self) -> bool:
        """Return True if the data is an unfinished last line, which later reads return again from
        its start.
        """
        return self.partial and self.next == self.start
