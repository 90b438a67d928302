"""The command `go`: jump to a line, to a percentage of the log, to a time of day, to a date with a
time, or by a time difference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bs4_console.errors import UsageError
from bs4_console.logs.merge import DAY
from bs4_console.logs.pages import LogPages
from bs4_console.logs.search import shortest
from bs4_console.logs.store import LogStore

#: The number of lines around the current one in which each source's place is searched.
NEAR_LINES = 5000

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": DAY}
_SHIFT = re.compile(r"([+-])((?:\d+(?:\.\d+)?[smhd])+)")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
EXAMPLES = "12345 (line), 50%, 21:14 or 21:14:05, -5m, +1h30m, 2026-11-20 21:14"


@dataclass(frozen=True)
class Target:
    """The place in a log to which a person wants to go. Exactly one field is not None: `line` (a
    line number from 1; a negative one counts from the end), `share` of the log (0 to 1), `seconds`
    from the current line's time (negative: earlier), `clock` (a time of day in seconds since
    midnight) or `moment` (Unix time in seconds).
    """

    line: int | None = None
    share: float | None = None
    seconds: int | None = None
    clock: int | None = None
    moment: float | None = None


def parse(text: str) -> Target:
    """Return the place that a person typed, such as a line, a percentage or a time. Raises
    UsageError, with examples, if the text is not a place.
    """
    text = text.strip()
    if re.fullmatch(r"-?\d[\d,_]*", text):
        return Target(line=int(re.sub(r"[,_]", "", text)))
    if text.endswith("%") and re.fullmatch(r"\d+(\.\d+)?", text[:-1]):
        return Target(share=min(float(text[:-1]), 100.0) / 100)
    if found := _SHIFT.fullmatch(text):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(found[2]))
        return Target(seconds=int(seconds) * (-1 if found[1] == "-" else 1))
    if found := _CLOCK.fullmatch(text):
        return Target(clock=int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3] or 0))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no place in a log.", f"Write one of: {EXAMPLES}.") from None
    return Target(moment=moment.timestamp())


async def resolve(
    target: Target, pages: LogPages, here: Mapping[str, str], clock: int | None, *, at_end: bool
) -> dict[str, str]:
    """Find the place `target` in each log and return {stream: cursor}. A stream is the name of a
    log, such as "log/RUN/trainer", and a cursor is GENERATION:OFFSET (the number of one of the
    log's files, and the byte in it). `pages` reads the logs from the pod.

    `here` maps each stream to the cursor of the line at which the person is. `clock` is that line's
    time of day in seconds since midnight, or None. With `at_end`, the person is at the end of the
    log, and a time of day later than `clock` means that of the day before. Raises UsageError if the
    target cannot be found, for example because lines have no clock, or for a line number with
    several streams. Raises RemoteError if the agent refuses the query, and EndlessAnswer if it does
    not come to an end.
    """
    if target.line is not None or target.share is not None:
        if len(here) > 1:
            raise UsageError(
                "Several sources have no common line number.",
                "Go to a time, or open one source first.",
            )
        ((stream, _),) = here.items()
        return {stream: await _line(target, pages, stream)}
    if target.moment is not None:
        return {stream: await pages.place(stream, "seek-time", t=target.moment) for stream in here}
    no_clock = UsageError(
        "The lines here have no clock.", "Go to a line or a share of the log instead."
    )
    seconds = target.seconds
    if seconds is None:
        if clock is None or target.clock is None:
            raise no_clock
        seconds = shortest(target.clock, clock)
        if at_end and seconds > 0:
            seconds -= DAY
    places: dict[str, str] = {}
    for stream, cursor in here.items():
        found = (await pages.ask(stream, "seek-clock", cursor=cursor, seconds=seconds))["cursor"]
        if found is None and len(here) == 1:
            raise no_clock
        places[stream] = cursor if found is None else str(found)
    return places


async def _line(target: Target, pages: LogPages, stream: str) -> str:
    """Return the cursor of a line or of a share of the log in one stream."""
    line = target.line or 1
    if target.share is not None:
        lines = int((await pages.ask(stream, "where"))["lines"])
        line = int(lines * target.share) + 1
    # The agent counts from 0, and from the end if the number is negative.
    return await pages.place(stream, "seek-line", line=line - 1 if line > 0 else line)


def near(store: LogStore, number: int | None, streams: Sequence[str]) -> dict[str, str]:
    """Return {stream: cursor} with a place near the line with this number in `store`, for each of
    `streams` (names such as "log/RUN/trainer"). It is the place of the stream's last line up to
    that line or, if there is none, of its first line after it. The cursor is "end" if the stream
    has no line within NEAR_LINES (5,000) lines to either side, or if `number` is None.
    """
    found: dict[int, str] = {}
    if number is not None:
        back = range(number, max(store.first, number - NEAR_LINES) - 1, -1)
        forth = range(number + 1, min(store.end, number + NEAR_LINES))
        for other in (*back, *forth):
            if len(found) == len(streams):
                break
            if (place := store.place(other)) is not None:
                found.setdefault(place[0], f"{place[1]}:{place[2]}")
    rows = {}
    for source, stream in enumerate(streams):
        rows[stream] = found.get(source, "end")
    return rows
