"""What a pod's agent answers to queries of a log. pods/gate/replies.py has checked it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from bs4_common.streams.query import Hit


class Sought(TypedDict, total=False):
    """The answer to `seek-line`, `seek-time` and `seek-clock`."""

    cursor: str | None
    """The place, or None if no line near has a clock."""
    cut: bool
    """True if the line is further away, because there are too many bytes up to there."""
    within: bool
    """True if the place is inside a line."""


class LineNumber(TypedDict):
    """The answer to `where`, once the agent has counted."""

    line: int
    """The number of the line, from 0."""
    lines: int
    """How many whole lines the stream has."""


class Further(TypedDict):
    """Where the next query of the same kind continues."""

    cursor: str


class Found(TypedDict):
    """The answer to `search`."""

    hits: Sequence[Hit]
    next: Further | None


class Counted(TypedDict):
    """The answer to `count`."""

    stretches: Sequence[tuple[int, int, int, int]]
    """Parts of files: the file's number, the first byte, the byte after the last one, and how many
    lines in between match.
    """
    cursor: str
    next: Further | None


class Sifted(TypedDict):
    """The answer to `sift`."""

    lines: Sequence[tuple[str, str, int]]
    """Lines: the cursor, the text, and the size in bytes."""
    cursor: str
    next: Further | None
