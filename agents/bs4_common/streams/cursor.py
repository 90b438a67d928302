"""A place in a stream, and the result of a read from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypedDict

from bs4_common.errors import BadCursor

#: ASCII digits only: int() alone would also take spaces, underscores and other alphabets' digits.
_PLACE = re.compile(r"([0-9]{1,12}):([0-9]{1,18})")


_Range = TypedDict("_Range", {"from": int, "to": "int | None"})


class Gap(_Range):
    """Bytes of a stream that are lost: `from` and `to` are offsets in the file `generation`. `to`
    is None if it is not known how many bytes are lost.
    """

    generation: int
    reason: str
    """A text for a person that says why."""


@dataclass(frozen=True, order=True)
class Cursor:
    """A place in a stream, which consists of one or more numbered files: byte `offset` of the file
    with the number `generation`. As text it is written `generation:offset`. Later files of a stream
    have higher numbers, so the cursors of one stream can be compared.
    """

    generation: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Return the cursor in `text`, which has the form `generation:offset`. Raises BadCursor for
        any other text, also for "start" and "end", because only the stream knows where these are.
        """
        match = _PLACE.fullmatch(text)
        if match is None:
            raise BadCursor(
                f"{text[:40]!r} is no cursor; use 'start', 'end' or a cursor that a read gave."
            )
        return cls(int(match[1]), int(match[2]))

    def gap(self, to: int | None, reason: str) -> Gap:
        """Return a gap, as in `Chunk.gap`. It says that the bytes from this cursor up to byte `to`
        of the same file are lost, or, with `to` None, that an unknown number of bytes is lost.
        `reason` is a text for a person that says why.
        """
        return {"generation": self.generation, "from": self.offset, "to": to, "reason": reason}

    def __str__(self) -> str:
        return f"{self.generation}:{self.offset}"


START = "start"
END = "end"


@dataclass(frozen=True)
class Chunk:
    """The result of one read of a stream. `data` are the raw bytes from cursor `start` on, all from
    one file. The next read continues at cursor `next`. `more` is True if that read would return
    data at once.

    `data` ends with a whole line, except in two cases, in which `partial` is True:

    * `next == start`: `data` is the last line of the stream, which its writer has not finished for
      over a second. Later reads return this line again from its start, when it has grown and when
      it is complete, so a reader that shows it must replace it. `next` advances only over whole
      lines, so that each whole line comes exactly once.
    * `next != start`: `data` is a piece of a line that is too long for one chunk, or the last line
      of a finished file that ended without LF. These bytes do not come again.

    `gap` is None unless bytes at `start` existed that cannot be read any more. It is then a
    dictionary {"generation", "from", "to", "reason"}: the number of the file, the byte offsets
    between which bytes are lost (`to` is None if the end is not known), and a text that says why.
    `data` is then empty, and `next` is the place after the lost bytes.
    """

    start: str
    next: str
    data: bytes = b""
    gap: Gap | None = None
    partial: bool = False
    more: bool = False

    @property
    def repeats(self) -> bool:
        """Return True if `data` is an unfinished last line, which later reads will return again
        from its start.
        """
        return self.partial and self.next == self.start
