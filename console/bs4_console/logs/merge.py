"""Merge the lines of several sources by their clocks, which have no date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bs4_console.logs.store import Row
from bs4_console.logs.text import clean, clock_of

DAY = 86400
#: Seconds. A clock that jumps back by more than this has passed midnight.
HALF = DAY // 2

#: A time and a row. The time is the seconds of the clock plus the seconds of the days before.
Keyed = tuple[int, Row]


def rows_of(data: bytes, source: int, cursor: str) -> list[Row]:
    """Divide `data`, the raw bytes of a page of a log, into lines, and return each line as a tuple:
    `source` (the number of the log), the number of the log's file on the pod, the byte offset of
    the line in that file, and the bytes of the line. The page begins at `cursor`
    (GENERATION:OFFSET, the number of the file and the byte). A last line without LF is included.
    """
    generation, _, offset = cursor.partition(":")
    rows, at = [], int(offset)
    for line in data.removesuffix(b"\n").split(b"\n") if data else ():
        rows.append((source, int(generation), at, line))
        at += len(line) + 1
    return rows


def keyed(
    rows: Sequence[Row], *, after: int | None = None, before: int | None = None
) -> list[Keyed]:
    """Return (time, row) for each line (row) of a page of a log, in the same order. The time is in
    seconds; the lines of several logs are merged by it. A line without a clock gets the time of the
    line before it; lines before the first clock get that clock's time.

    A clock shows no date, so the time of a neighbouring line decides on the day: `after` is the
    time of the line just before this page, and `before` that of the line just after it. With
    neither, the times count from the midnight before the page's first line.
    """
    times: list[int] = []
    now: int | None = None
    days = 0
    for row in rows:
        clock = clock_of(clean(row[3]))
        if clock is not None:
            if now is not None and clock + days < now - HALF:
                days += DAY
            if now is None:
                times = [clock] * len(times)
            # With several writers a clock can go back a little. The line still stays with its
            # neighbours.
            now = max(clock + days, now or 0)
        times.append(0 if now is None else now)
    shift = 0
    if now is None:
        times = [after if after is not None else before or 0] * len(times)
    elif before is not None:
        shift = (before - now + HALF) // DAY * DAY
    elif after is not None and times:
        shift = (after - times[0] + HALF) // DAY * DAY
    return [(time + shift, row) for time, row in zip(times, rows, strict=True)]


#: Stands in the place of a filter's key for lines that have passed different filters, or none.
VARIOUS = object()


@dataclass
class Side:
    """The lines of one log (source) that were fetched and wait to be merged with those of other
    logs: `waiting`, each with its time. They are all either before or after the lines on the
    screen. `cursor` is the place where the log's next page begins. `time` is the time (see `keyed`)
    of that line of the log on the screen that is nearest to the waiting lines, or None. `ended` is
    True if the log has no further lines in this direction. `passed` is the key of the filter that
    the waiting lines have passed on the pod, or None if they were fetched without one.
    """

    cursor: str
    time: int | None = None
    waiting: list[Keyed] = field(default_factory=list)
    ended: bool = False
    passed: object = None


def passed_by(sides: Sequence[Side]) -> object:
    """Return by which filter the pod has chosen the waiting lines of `sides` (logs whose lines were
    fetched and wait to be merged into one). The result is the filter's key (`LogFilter.key`), or
    None if all lines were fetched without a filter. Return the constant VARIOUS, which is no
    filter's key, if the lines have passed different filters or if `sides` is empty.
    """
    keys = {side.passed for side in sides}
    return keys.pop() if len(keys) == 1 else VARIOUS


def take_older(sides: Sequence[Side]) -> list[Row]:
    """Merge earlier lines of several logs. `sides` has one entry for each log, with the lines that
    were fetched and wait to be shown before the lines on the screen. Take those lines out of
    `sides` that can be shown now, and return them, oldest first. A line can be shown if no log can
    still bring a newer one, which would belong after it. Return an empty list if a log must first
    fetch its next page.
    """
    if any(not side.ended and not side.waiting for side in sides):
        return []  # the next line's time is not known
    bound = max(
        (side.waiting[0][0] for side in sides if not side.ended and side.waiting), default=None
    )
    taken: list[Keyed] = []
    for side in sides:
        keep = []
        for entry in side.waiting:
            if bound is not None and entry[0] < bound:
                keep.append(entry)
        if len(keep) < len(side.waiting):
            side.time = side.waiting[len(keep)][0]
        taken += side.waiting[len(keep) :]
        side.waiting = keep
    return _in_order(taken)


def _in_order(taken: Sequence[Keyed]) -> list[Row]:
    """Return lines by their time. Lines of the same time stay as they are: by source, in order."""
    return [row for _, row in sorted(taken, key=lambda entry: entry[0])]


def take_newer(sides: Sequence[Side]) -> list[Row]:
    """Remove from the waiting lines of `sides`, one for each log, those that can now be shown after
    the lines on the screen, and return them in the order of time. A line can be shown if no log can
    still bring an older one, which would belong before it. Return an empty list if a log must first
    fetch its next page.
    """
    if any(not side.ended and not side.waiting for side in sides):
        return []  # the next line's time is not known
    bound = min(
        (side.waiting[-1][0] for side in sides if not side.ended and side.waiting), default=None
    )
    taken: list[Keyed] = []
    for side in sides:
        ready = []
        for entry in side.waiting:
            if bound is None or entry[0] <= bound:
                ready.append(entry)
        if ready:
            side.time = ready[-1][0]
        taken += ready
        side.waiting = side.waiting[len(ready) :]
    return _in_order(taken)


def same_day(pages: Sequence[Sequence[Keyed]]) -> list[list[Keyed]]:
    """Return the pages of several logs with times that can be compared. A page has a pair (time in
    seconds, line) for each line. Two pages may count their times from different midnights: a page
    that contains a midnight counts from the one before it. But all pages end at about the same
    moment. So whole days are added to the times of a page until all pages end on the same day.
    """
    days = [max((time for time, _ in page), default=0) // DAY for page in pages]
    found = []
    for page, day in zip(pages, days, strict=True):
        shift = (max(days) - day) * DAY
        found.append([(time + shift, row) for time, row in page])
    return found


def from_a_head(rows: list[Row]) -> list[Row]:
    """Return the lines of a page of a log, without those before the first line that shows a time of
    day. The lines left out belong to a log entry that begins on the page before. If no line shows a
    time, all lines are returned.
    """
    first = 0
    for n, row in enumerate(rows):
        if clock_of(clean(row[3])) is not None:
            first = n
            break
    return rows[first:]
