"""What a person types for the time cursor: a step, a time of day, so much earlier or later, a date
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
    """`at`: wall seconds; `step`: of the run at hand. Neither is now."""

    at: float | None = None
    step: int | None = None


def parse(text: str, here: float, end: float) -> Moment:
    """`here`: where the cursor is, in wall seconds; `end`: the newest that is known, which nothing
    can lie behind.

    A time of day is that of this machine, as the screen shows it, and the last one that has passed
    by `end`. UsageError, one sentence, for what is no moment or lies ahead.
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
    """When this machine's clock showed so many seconds after midnight the last time. mktime knows
    of daylight saving.
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
