"""Formats numbers as a tired person reads them: short, aligned, and never more precise than they
are.
"""

from __future__ import annotations

import time

#: An age below this many seconds is "now": telemetry comes once a second, and a read takes a round
#: trip.
FRESH_S = 5.0

NONE = "–"


def duration(seconds: float) -> str:
    """Return a duration in seconds as text with at most two units: 8s, 1m12s, 3h05m, 2d04h. A
    negative duration is 0s.
    """
    s = int(max(0.0, seconds))
    if s < 60:
        return f"{s}s"
    if s < 3600:
        return f"{s // 60}m{s % 60:02}s"
    if s < 86400:
        return f"{s // 3600}h{s % 3600 // 60:02}m"
    return f"{s // 86400}d{s % 86400 // 3600:02}h"


def pace(seconds: float | None) -> str:
    """Return the duration of a training step, given in seconds, as text: 0.83s, 14.2s, 3m05s.
    Return "–" for None.
    """
    if seconds is None:
        return NONE
    if seconds < 10:
        return f"{seconds:.2f}s"
    if seconds < 100:
        return f"{seconds:.1f}s"
    return duration(seconds)


def age(seconds: float | None) -> str:
    """Return an age in seconds as text with one unit: 12s, 3m, 2h, 1d. Return "now" below FRESH_S
    (5) seconds and "never" for None.
    """
    if seconds is None:
        return "never"
    if seconds < FRESH_S:
        return "now"
    if seconds < 60:
        return f"{int(seconds)}s"
    if seconds < 3600:
        return f"{int(seconds // 60)}m"
    if seconds < 86400:
        return f"{int(seconds // 3600)}h"
    return f"{int(seconds // 86400)}d"


def old(seconds: float | None) -> str:
    """Return an age in seconds as words for the end of a sentence, for example "3m old". Return
    "now" below FRESH_S (5) seconds and "never seen" for None.
    """
    if seconds is None:
        return "never seen"
    if seconds < FRESH_S:
        return "now"
    return f"{age(seconds)} old"


def of_day(wall: float, seconds: bool = False) -> str:
    """Return the local time of day as text: 03:12, or 03:12:41 if `seconds` is True. `wall` is a
    Unix time in seconds.
    """
    return time.strftime("%H:%M:%S" if seconds else "%H:%M", time.localtime(wall))


def date(wall: float) -> str:
    """Return the local date as text, as in 2026-11-20. `wall` is a Unix time in seconds."""
    return time.strftime("%Y-%m-%d", time.localtime(wall))


def rate(kilobytes: float | None) -> str:
    """Return a rate, given in kilobytes per second, as text of at most three digits with the letter
    of its unit but without "B/s": 96K, 812M, 1.4G. Return "–" for None.
    """
    if kilobytes is None:
        return NONE
    value, unit = float(kilobytes), "K"
    for unit in ("K", "M", "G"):
        if value < 1000 or unit == "G":
            break
        value /= 1000
    if value < 10 and unit != "K":
        return f"{value:.1f}{unit}"
    return f"{value:.0f}{unit}"


def size(count: float | None) -> str:
    """Return a number of bytes as text with its unit: 512 B, 9.8 KiB, 62.1 GiB. Return "–" for
    None.
    """
    if count is None:
        return NONE
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            if unit == "B" or value >= 100:
                return f"{value:.0f} {unit}"
            return f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def gib(count: float | None) -> str:
    """Return a number of bytes as text in whole GiB without the unit, for columns: 62. Return "–"
    for None.
    """
    return whole(None if count is None else count / (1 << 30))


def percent(part: float | None, whole: float | None) -> float | None:
    """Return `part` as a percentage of `whole`. Return None if either of them is None or `whole`
    is 0.
    """
    if part is None or not whole:
        return None
    return 100.0 * part / whole


def whole(value: float | None) -> str:
    """Return a number as text without decimals: 97. Return "–" for None."""
    if value is None:
        return NONE
    return f"{value:.0f}"


def whole_percent(value: float | None) -> str:
    """Return a percentage as text without decimals: 97%. Return "–" for None."""
    return NONE if value is None else f"{value:.0f}%"


def number(value: float | None) -> str:
    """Return a training metric as text, short enough for a column: 0.4120, 12.31, 3.0e-06. Return
    "–" for None.
    """
    if value is None:
        return NONE
    magnitude = abs(value)
    if magnitude == 0 or 0.001 <= magnitude < 10:
        return f"{value:.4f}"
    if magnitude < 0.001 or magnitude >= 100_000:
        return f"{value:.1e}"
    if magnitude < 1000:
        return f"{value:.2f}"
    return f"{value:.0f}"


def clip(text: str, width: int) -> str:
    """Return `text` cut to `width` characters, the last of which is an ellipsis if something was
    cut off. Each character of the text must take one cell of the terminal.
    """
    if len(text) <= width:
        return text
    return text[: max(0, width - 1)] + "…"


def path_end(path: str, width: int) -> str:
    """Return a path in at most `width` characters, without its beginning if it is longer: the paths
    of one run begin alike.
    """
    return path if len(path) <= width else f"…{path[len(path) - width + 1 :]}"


def count(n: int, noun: str) -> str:
    """Return the number `n` followed by `noun`, a word in the singular, put into the plural unless
    `n` is 1: 1 process, 3 processes.
    """
    if n == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{n:,} {noun[:-1]}ies"
    return f"{n:,} {noun}{'es' if noun.endswith(('s', 'x', 'ch')) else 's'}"
