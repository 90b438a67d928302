"""Find line n and time t in the files of a stream, with a limited number of reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bs4_common.streams.budget import Budget
from bs4_common.streams.cursor import Cursor
from bs4_common.streams.lines import STRIDE, LineIndex, ends_with_newline, nth_newline
from bs4_common.streams.stream import Piece, opened

#: A number of lines that no file has.
ALL_LINES = 1 << 62


@dataclass(frozen=True)
class SeekResult:
    """The result of looking for a place in a stream. If `ask_again` is None, `place` is the place
    that was sought. Otherwise the time of the query was over first: `place` is how far the search
    got, and `ask_again` has the arguments of a query that continues from there.

    A search backwards may read only a given number of bytes. `cut` is True if the search ended for
    that reason, and `within` is True if `place` is then inside a line.
    """

    place: Cursor
    ask_again: dict[str, Any] | None = None
    cut: bool = False
    """True if the search ended because it had read as many bytes as it may."""
    within: bool = False
    """True if `place` is inside a line for this reason."""


def line_from_start(
    pieces: Sequence[Piece], index_of: Callable[[int], LineIndex], line: int, budget: Budget
) -> SeekResult:
    """Return the place at which the line with the 0-based number `line` begins, counted over all
    files `pieces` of the stream, or the stream's end if it has fewer lines. If the time `budget` is
    over first, the result says how to continue.

    `index_of(generation)` returns the LineIndex of a file. These indexes remember what was counted,
    so that a call that continues reads nothing twice.
    """
    place = Cursor(1, 0)
    wanted = line
    for piece, fd in opened(pieces):
        index = index_of(piece.generation)
        complete = index.extend(fd, piece.size, budget, line)
        if not complete and index.newlines <= line:
            return SeekResult(Cursor(piece.generation, index.scanned), {"line": wanted})
        lines = index.newlines
        if lines <= line:
            lines = index.count(fd, piece.size) + (not ends_with_newline(fd, piece.size))
        if line < lines:
            return SeekResult(Cursor(piece.generation, index.offset(fd, piece.size, line) or 0))
        line -= lines
        place = Cursor(piece.generation, piece.size)
    return SeekResult(place)


def count_lines(
    pieces: Sequence[Piece], index_of: Callable[[int], LineIndex], place: Cursor, budget: Budget
) -> tuple[int, int] | None:
    """Return two numbers for the stream with the files `pieces`: the 0-based number of the line
    that contains `place`, and how many whole lines the stream has. Return None if the time `budget`
    is over first. Call again in that case: the LineIndex of each file, which `index_of(generation)`
    returns, remembers what was counted.
    """
    line = lines = 0
    for piece, fd in opened(pieces):
        index = index_of(piece.generation)
        if not index.extend(fd, piece.size, budget, ALL_LINES):
            return None
        if piece.generation == place.generation:
            line = lines + index.before(fd, min(place.offset, piece.size))
        lines += index.count(fd, piece.size)
        if piece is not pieces[-1] and not ends_with_newline(fd, piece.size):
            lines += 1
        if piece.generation < place.generation:
            line = lines
    return line, lines


def line_from_end(
    pieces: Sequence[Piece], end: Cursor, lines: int, budget: Budget, room: int | None = None
) -> SeekResult:
    """Find the place at which the last `lines` lines before the place `end` begin, in the stream
    with the files `pieces`. If there are fewer lines, it is the start of the stream. If the time
    `budget` is over first, the result says how to continue. With `room`, the search ends after it
    has read about that many bytes, even inside a line; the result then has `cut` True.
    """
    place = end
    earlier = (piece for piece in reversed(pieces) if piece.generation <= end.generation)
    for piece, fd in opened(earlier):
        limit = piece.size
        if piece.generation == end.generation:
            limit = min(piece.size, end.offset)
        back = _back(fd, limit, lines, budget, room)
        lines, place = back.lines, Cursor(piece.generation, back.place)
        if lines == 0 or back.cut:
            return SeekResult(place, cut=back.cut, within=back.within)
        if room is not None:
            room = max(1, room - (limit - back.place))
        if budget.spent:
            return SeekResult(
                place,
                {"cursor": str(place), "line": -lines, **({} if room is None else {"room": room})},
            )
    return SeekResult(place)


@dataclass(frozen=True)
class _Back:
    """How far a walk back through a stream came: the place, the lines that are still to go, and
    whether a limit of bytes ended it there, or ended it inside a line.
    """

    place: int
    lines: int
    cut: bool = False
    within: bool = False


def _back(fd: int, end: int, lines: int, budget: Budget, room: int | None) -> _Back:
    """Return the start of the line that the walk back from `end` reached. It stops inside a line
    only if the room ends or the query is cancelled.
    """
    if end == 0:
        return _Back(0, lines)
    # The LF at the end of the last line does not begin another line.
    position = end - ends_with_newline(fd, end)
    reached = end
    while position > 0:
        if budget.cancelled or (budget.spent and reached < end):
            return _Back(reached, lines)
        if room is not None and end - position >= room:
            if reached < end:
                return _Back(reached, lines, cut=True)
            return _Back(position, lines, cut=True, within=True)
        begin = max(0, position - STRIDE)
        block = os.pread(fd, position - begin, begin)
        newline = block.rfind(b"\n")
        while newline >= 0:
            lines -= 1
            reached = begin + newline + 1
            if lines == 0:
                return _Back(reached, 0)
            newline = block.rfind(b"\n", 0, newline)
        position = begin
    return _Back(0, lines - 1)


def first_at(
    pieces: Sequence[Piece], timestamp: Callable[[bytes], float | None], t: float
) -> tuple[Cursor, float] | None:
    """Return two things: the place of the first line whose time is not before `t`, and the time of
    that line, both times as Unix time in seconds. The function `timestamp` returns the Unix time of
    a line, or None if the line has no time. Return None if there is no such line or no line has a
    time.
    """
    answer: tuple[Cursor, float] | None = None
    for piece, fd in opened(reversed(pieces)):
        first = _first_time(fd, 0, piece.size, timestamp, lambda _: True)
        if first is None:
            continue
        if first[1] < t:
            inside = _bisect(fd, piece.size, timestamp, t, first[0])
            if inside:
                return (Cursor(piece.generation, inside[0]), inside[1])
            return answer
        answer = Cursor(piece.generation, first[0]), first[1]
    return answer


def _bisect(
    fd: int, size: int, timestamp: Callable[[bytes], float | None], t: float, low: int
) -> tuple[int, float] | None:
    """Return the same as first_at, for one file. The line at `low` is before `t`, and times are
    assumed to ascend.
    """
    high, answer = size, None
    while high - low > STRIDE:
        middle = (low + high) // 2
        begin = nth_newline(fd, middle, high, 1)
        found = None
        if begin is not None:
            found = _first_time(fd, begin, min(high, begin + STRIDE), timestamp, lambda _: True)
        if found is not None and found[1] < t:
            low = found[0]
        else:
            high, answer = middle, found or answer
    return (
        _first_time(fd, low, min(size, high + STRIDE), timestamp, lambda time: time >= t) or answer
    )


def _first_time(
    fd: int,
    start: int,
    end: int,
    timestamp: Callable[[bytes], float | None],
    wanted: Callable[[float], bool],
) -> tuple[int, float] | None:
    """Return the offset and the time of the first line of [start, end) with a wanted time. At most
    three strides are read.
    """
    block = os.pread(fd, min(end - start, 3 * STRIDE), start)
    position = 0
    while position < len(block):
        stop = block.find(b"\n", position)
        stop = len(block) if stop < 0 else stop
        time = timestamp(block[position:stop])
        if time is not None and wanted(time):
            return start + position, time
        position = stop + 1
    return None
