"""Parse what a person types for the time cursor: a step, a time of day, a time difference, a date
with a time, or now.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from bs4_console.errors import UsageError
from bs4_console.logs.jump import parse as place

EXAMPLES = "187 (a step), 14:32, 14:32:05, -15m, 2026-11-20 14:32 or now"
_NOW = ("now", "end", "live")


@dataclass(frozen=True)
class Moment:
    """The moment that a person has typed. Either `at` is set (Unix time in seconds) or `step` (the
    number of a training step of the run that is shown). If both are None, the person means the
    present.
    """

    at: float | None = None
    step: int | None = None


def parse(text: str, here: float, end: float) -> Moment:
    """Return the moment for which the person's `text` stands: a time, a distance from the time
    cursor, a training step, or now. The time cursor is the moment that the screen shows; `here` is
    its time, and `end` is the newest time for which anything is known, both as Unix time in
    seconds.

    A time of day is in this machine's time zone, as on the screen, and means the last such time
    before `end`. A distance that leads beyond `end` means now. Raises UsageError with one sentence
    if the text is not a moment, or if it is a date that is after `end`.
    """
    text = text.strip()
    if text.lower() in _NOW:
        return Moment()
    if re.fullmatch(r"\d{1,9}", text):
        return Moment(step=int(text))
    try:
        target = place(text)
    except UsageError:
        target = None
    if target is not None and target.seconds is not None:
        found = here + target.seconds
        if found >= end:
            return Moment()
        return Moment(at=found)
    if target is not None and target.clock is not None:
        return Moment(at=_last(target.clock, end))
    if target is not None and target.moment is not None:
        if target.moment > end:
            raise UsageError(f"{text} lies ahead of what is known; write {EXAMPLES}.", "")
        return Moment(at=target.moment)
    raise UsageError(f"{text!r} is no moment; write {EXAMPLES}.", "")


def _last(clock: int, end: float) -> float:
    """Return the last wall time up to `end` at which this machine's clock showed `clock` seconds
    after midnight. mktime handles daylight saving.
    """
    day = time.localtime(end)
    for back in (0, 1):
        found = time.mktime(
            (
                day.tm_year,
                day.tm_mon,
                day.tm_mday - back,
                clock // 3600,
                clock // 60 % 60,
                clock % 60,
                0,
                0,
                -1,
            )
        )
        if found <= end:
            return found
    return found
