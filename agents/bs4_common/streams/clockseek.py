"""Move through a log by its own clock: HH:MM:SS in its lines, without a date, over midnights and
over the ends of files.

The clock of one line says nothing alone, only its movement from one place to the next does. Places
are tried at growing distances, so that two neighbours are less than half a day apart in any log
that writes 64 KiB in that time. A slower log is walked line by line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from types import TracebackType

from bs4_common.streams.budget import Budget
from bs4_common.streams.cursor import Cursor
from bs4_common.streams.lines import STRIDE
from bs4_common.streams.stream import Piece

#: The most seconds that one query can move.
FURTHEST_S = 366 * 86400
#: The most bytes between two places that are tried.
STEP_LIMIT = 64 * 1024 * 1024
#: Strides without any clock that are read in search of a line with one.
QUIET_STRIDES = 4
_DAY = 86400
_CLOCK = re.compile(rb"(?<!\d)([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?!\d)")
_REACH = 60

#: A line with a clock: its place on the tape, and its seconds since midnight.
Tick = tuple[int, int]


def shift(pieces: Sequence[Piece], start: Cursor, seconds: int, budget: Budget) -> Cursor | None:
    """Move in a stream (the files `pieces`) from the line at `start` by `seconds`, later or, if
    negative, earlier, and return the place that is reached. The times are the clocks in the
    stream's lines: times of day HH:MM:SS without a date. The place is the beginning of the first
    line whose clock is not before the clock of the line at `start` plus `seconds`.

    If the stream does not reach so far, return its end or its start. If `budget`, the time that the
    query may take, is over, return the place that was reached by then. Return None if no line
    within about 256 KiB of `start` has a clock.
    """
    with Tape(pieces) as tape:
        here = tape.place(start)
        tick = tape.tick_from(here) or tape.tick_before(here)
        if tick is None:
            return None
        move = _forward if seconds > 0 else _backward
        return tape.cursor(move(tape, tick, seconds, budget))


def _forward(tape: Tape, tick: Tick, seconds: int, budget: Budget) -> int:
    """Return the place on the tape that is `seconds` after `tick`."""
    low, elapsed, step = tick, 0, STRIDE
    while not budget.cancelled:
        high = tape.tick_from(low[0] + step)
        if high is None:
            return _between(tape, low, tape.size, seconds - elapsed)
        moved = _moved(low, high)
        if elapsed + moved >= seconds:
            return _between(tape, low, high[0], seconds - elapsed)
        low, elapsed, step = high, elapsed + moved, min(step * 2, STEP_LIMIT)
    return low[0]


def _backward(tape: Tape, tick: Tick, seconds: int, budget: Budget) -> int:
    """Return the place on the tape that is `-seconds` before `tick`; `seconds` is negative or 0."""
    high, elapsed, step = tick, 0, STRIDE
    while not budget.cancelled and high[0] > 0:
        low = tape.tick_from(max(0, high[0] - step))
        if low is not None and low[0] < high[0]:
            moved = elapsed - _moved(low, high)
            if moved < seconds:
                return _between(tape, low, high[0], seconds - moved)
            high, elapsed = low, moved
        elif high[0] <= step:
            return high[0]
        step = min(step * 2, STEP_LIMIT)
    return high[0]


def _between(tape: Tape, low: Tick, high: int, seconds: int) -> int:
    """Return the first line of (low, high] that is `seconds` or more after `low`, or `high` if
    there is none.
    """
    best = high
    while high - low[0] > STRIDE:
        middle = (low[0] + high) // 2
        tick = tape.tick_from(middle)
        if tick is not None and tick[0] < high and (moved := _moved(low, tick)) < seconds:
            low, seconds = tick, seconds - moved
        else:
            if tick is not None and tick[0] < high:
                best = tick[0]
            high = middle
    found = tape.walk(low, high, seconds)
    return best if found is None else found


def _moved(low: Tick, high: Tick) -> int:
    """Return the seconds from one clock to the clock of a later line. A clock that goes back a
    little, because several processes write, gives a negative number and not a day.
    """
    moved = (high[1] - low[1]) % _DAY
    if moved > _DAY // 2:
        return moved - _DAY
    return moved


class Tape:
    """The files of a stream laid one after the other. Each byte of them has one number, its place
    on the tape, from 0 up to `size`. Files that are gone are left out.

    Use a Tape in a `with` block; the files are closed when the block ends.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._parts: list[tuple[int, Piece, int]] = []
        at = 0
        for piece in pieces:
            fd = piece.open()
            if fd >= 0:
                self._parts.append((at, piece, fd))
                at += piece.size
        self.size = at

    def __enter__(self) -> Tape:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the files."""
        for _, _, fd in self._parts:
            os.close(fd)

    def place(self, cursor: Cursor) -> int:
        """Return the place (the number of the byte on the tape) for `cursor`, which names a file of
        the stream and a byte in it. If that file is gone, return the place at which the next file
        begins, or the end of the tape if there is no later file.
        """
        for at, piece, _ in self._parts:
            if piece.generation >= cursor.generation:
                return at + (
                    min(cursor.offset, piece.size) if piece.generation == cursor.generation else 0
                )
        return self.size

    def cursor(self, place: int) -> Cursor:
        """Return the cursor (the number of a file of the stream, and a byte in it) for the byte
        whose number on the tape is `place`. If the stream has no file, return the cursor of file
        number 1, byte 0.
        """
        for at, piece, _ in reversed(self._parts):
            if place >= at:
                return Cursor(piece.generation, min(place - at, piece.size))
        return Cursor(1, 0)

    def tick_from(self, place: int) -> Tick | None:
        """Find the first line that begins at or after `place` and has a clock HH:MM:SS. A place is
        a byte offset into all files of the stream laid one after the other (the tape). Return two
        numbers: the place at which the line begins, and its clock in seconds since midnight. Return
        None if no line in about the next 256 KiB has a clock.
        """
        begin = self._line_from(place)
        for _ in range(QUIET_STRIDES):
            data = self._read(begin)
            if not data:
                return None
            found = _first_clock(data)
            if found is not None:
                return begin + found[0], found[1]
            begin += len(data)
        return None

    def tick_before(self, place: int) -> Tick | None:
        """Find a line that begins at or before `place` and has a clock HH:MM:SS; it need not be the
        last such line. Return two numbers: the place at which the line begins, and its clock in
        seconds since midnight. Return None if no line in about the 256 KiB before `place` has a
        clock. A place is the number of a byte, counted over the files of the stream that still
        exist.
        """
        for n in range(1, QUIET_STRIDES + 1):
            tick = self.tick_from(max(0, place - n * STRIDE))
            if tick is not None and tick[0] <= place:
                return tick
        return None

    def walk(self, low: Tick, high: int, seconds: int) -> int | None:
        """Read the lines after the line `low` one by one, up to the place `high`. Find the first
        line whose clock is at least `seconds` after that of `low`. Return the place at which it
        begins, or None if there is no such line. `low` is a pair: the place at which a line begins,
        and its clock in seconds since midnight. A place is the number of a byte, counted over the
        files of the stream that are left.
        """
        at, last, elapsed = low[0], low, 0
        while at < high and (data := self._read(at)):
            for line in data.removesuffix(b"\n").split(b"\n"):
                clock = clock_of(line)
                if clock is not None and at > low[0]:
                    elapsed, last = elapsed + _moved(last, (at, clock)), (at, clock)
                    if elapsed >= seconds:
                        return at
                at += len(line) + 1
        return None

    def _line_from(self, place: int) -> int:
        """Return the place at which the first line at or after `place` begins."""
        for at, piece, fd in self._parts:
            if at <= place < at + piece.size:
                if place == at or os.pread(fd, 1, place - at - 1) == b"\n":
                    return place
                data = self._read(place)
                newline = data.find(b"\n")
                return place + (newline + 1 if newline >= 0 else len(data))
        return self.size

    def _read(self, place: int) -> bytes:
        """Return about a stride of whole lines of one file, from `place` on. Empty at the end."""
        for at, piece, fd in self._parts:
            if at <= place < at + piece.size:
                data = os.pread(fd, min(STRIDE, at + piece.size - place), place - at)
                if place + len(data) < at + piece.size:
                    data = data[: data.rfind(b"\n") + 1] or data
                return data
        return b""


def _first_clock(data: bytes) -> Tick | None:
    """Return the offset and the clock of the first line with a clock, or None."""
    at = 0
    for line in data.split(b"\n"):
        clock = clock_of(line)
        if clock is not None:
            return at, clock
        at += len(line) + 1
    return None


def clock_of(line: bytes) -> int | None:
    """Return the time of day in a line of a log, the first HH:MM:SS that begins in its first 60
    bytes, in seconds since midnight. Return None if the line has none.
    """
    found = _CLOCK.search(line, 0, _REACH)
    if found is None:
        return None
    return int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
