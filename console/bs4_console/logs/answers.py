"""What a pod's agent answers to queries of a log. pods/gate/replies.py has checked it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from bs4_common.streams.query import Hit


class Sought(TypedDict, total=False):
    """The agent's answer to a query for a place in a log: `seek-line` (by the number of a line),
    `seek-time` (by a Unix time) or `seek-clock` (by the time of day in its lines).
    """

    cursor: str | None
    """The place as GENERATION:OFFSET (the number of one of the log's files, and the byte in it), or
    None if none of the lines that were looked at shows a time of day.
    """
    cut: bool
    """True if the place is not as far back as requested, because there are more bytes between the
    requested place and the one from which the search begins than a query may cover.
    """
    within: bool
    """True if the place is in the middle of a line."""


class LineNumber(TypedDict):
    """The agent's answer to the query `where`, which asks for the number of the line at a place in
    a log.
    """

    line: int
    """The number of the line, from 0."""
    lines: int
    """How many whole lines the stream has."""


class Further(TypedDict):
    """The parameters for the next query of the same kind, which continues where this one has ended.
    `cursor` is the place, GENERATION:OFFSET (the number of one of the log's files, and the byte in
    it).
    """

    cursor: str


class Found(TypedDict):
    """The agent's answer to the query `search`, which looks for a text in a log. `hits` are the
    matches. `next` says where to continue, or is None if the log was searched to its end.
    """

    hits: Sequence[Hit]
    next: Further | None


class Counted(TypedDict):
    """The agent's answer to the query `count`, which counts the lines of a log that match. `cursor`
    is the place up to which they were counted, GENERATION:OFFSET. `next` says where to continue, or
    is None if the log was counted to its end.
    """

    stretches: Sequence[tuple[int, int, int, int]]
    """One tuple for each part of the log that has matching lines: the number of the log's file, the
    first byte, the byte after the last one, and how many lines in between match.
    """
    cursor: str
    next: Further | None


class Sifted(TypedDict):
    """The agent's answer to the query `sift`, which filters a log on the pod. `cursor` is the place
    up to which lines were tested, GENERATION:OFFSET (the number of one of the log's files, and the
    byte in it). `next` says where to continue, or is None at the end of the log.
    """

    lines: Sequence[tuple[str, str, int]]
    """One tuple for each line that passes the filter: its cursor, its text, and its size in bytes.
    """
    cursor: str
    next: Further | None
