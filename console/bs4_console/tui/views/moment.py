"""The line that shows the position of the time cursor and the keys that move it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line, spread, width_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bs4_console.tui.clock import Clock

#: From this age in seconds on, the day is shown too.
_ANOTHER_DAY_S = 20 * 3600


def moment_line(
    at: float,
    clock: Clock,
    keys: Mapping[str, str],
    width: int,
    *,
    step: int | None = None,
    exact: bool = False,
) -> Line:
    """Return the line that shows the past moment of the time cursor and the keys that move the
    cursor, for a screen of `width` cells. `at` is that moment as a Unix time in seconds by this
    machine's clock. `step` is the newest step that had ended at that moment, or None; with `exact`
    it ended at that very moment. `keys` maps command ids to keys.
    """
    time = formatting.of_day(at, seconds=True)
    if abs(clock.wall() - at) > _ANOTHER_DAY_S:
        time = f"{formatting.date(at)} {time}"
    where = time
    if step is not None:
        where = f"step {step} at {time}" if exact else f"{time}, after step {step}"
    left: Line = [
        (" ◷ ", "caution"),
        (f" {where}, {formatting.duration(clock.wall() - at)} ago", "bold"),
    ]
    back: Line = [(keys["moment"], "key @moment"), (" back to now ", "@moment")]
    right: Line = [
        (keys["earlier"], "key @earlier"),
        (" ", ""),
        (keys["later"], "key @later"),
        (" move  ", "dim"),
        (keys["time"], "key @time"),
        (" time  ", "@time"),
        *back,
    ]
    return spread(left, right if width_of(left) + width_of(right) < width else back, width)
