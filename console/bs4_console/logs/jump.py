"""`go`: to a line, a share of the log, a time of day, a moment, or so much earlier or later."""

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

#: Lines around the current one among which each source's place is looked for.
NEAR_LINES = 5000

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": DAY}
_SHIFT = re.compile(r"([+-])((?:\d+(?:\.\d+)?[smhd])+)")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
EXAMPLES = "12345 (line), 50%, 21:14 or 21:14:05, -5m, +1h30m, 2026-11-20 21:14"


@dataclass(frozen=True)
class Target:
    """One of: `line` (from 1; negative from the end), `share` (0 to 1), `seconds` from here,
    `clock` (seconds since midnight), `moment` (wall seconds).
    """

    line: int | None = None
    share: float | None = None
    seconds: int | None = None
    clock: int | None = None
    moment: float | None = None


def parse(text: str) -> Target:
    """What a person typed. UsageError with examples for anything else."""
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
    """The cursor in each stream. `here`: where each is now; `clock`: of the line one is on.
    UsageError where that cannot be.
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
        return {
            stream: str((await pages.ask(stream, "seek-time", t=target.moment))["cursor"])
            for stream in here
        }
    seconds = target.seconds
    if seconds is None:
        if clock is None or target.clock is None:
            raise UsageError(
                "The lines here have no clock.", "Go to a line or a share of the log instead."
            )
        seconds = shortest(target.clock, clock)
        if at_end and seconds > 0:
            seconds -= DAY
    places: dict[str, str] = {}
    for stream, cursor in here.items():
        found = (await pages.ask(stream, "seek-clock", cursor=cursor, seconds=seconds))["cursor"]
        places[stream] = cursor if found is None else str(found)
        if found is None and len(here) == 1:
            raise UsageError(
                "The lines here have no clock.", "Go to a line or a share of the log instead."
            )
    return places


async def _line(target: Target, pages: LogPages, stream: str) -> str:
    line = target.line
    if target.share is not None:
        lines = int((await pages.ask(stream, "where"))["lines"])
        line = int(lines * target.share) + 1
    if line is None or line >= 0:
        return str((await pages.ask(stream, "seek-line", line=max(0, (line or 1) - 1)))["cursor"])
    return str((await pages.ask(stream, "seek-line", line=line))["cursor"])


def near(store: LogStore, number: int | None, streams: Sequence[str]) -> dict[str, str]:
    """Each stream's cursor near a line: that of its last line before it, else of its first one
    behind it, else its end.
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
