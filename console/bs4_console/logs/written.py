"""Find out when a line of a log was written. The agent is queried for times, because a line's own
clock has no date and the pod's time zone is not known.
"""

from __future__ import annotations

from bs4_console.logs.pages import LogPages, split

#: Seconds. Time zones differ by multiples of this, so within it a line's own clock is exact.
_ZONES_S = 900
#: The number of halvings: enough to find a second in some months.
_HALVINGS = 24


async def written_at(
    pages: LogPages, stream: str, cursor: str, clock: int | None, begin: float, end: float
) -> float:
    """Ask the pod when the line at `cursor` of the log `stream` was written, and return that time
    as Unix time in seconds by the pod's clock. `stream` is a name such as "log/RUN/trainer".
    `begin` and `end` are Unix times in seconds between which the answer must lie. `clock` is the
    time of day in that line, in seconds since midnight; with it the answer is exact to the second.
    None means that the line has no clock. Raises RemoteError if the agent refuses the query, and
    EndlessAnswer if it does not come to an end.
    """
    target = split(cursor)
    for _ in range(_HALVINGS):
        if end - begin <= 1.0:
            break
        middle = (begin + end) / 2
        if split(await pages.place(stream, "seek-time", t=middle)) > target:
            end = middle
        else:
            begin = middle
    if clock is None:
        return begin
    return begin + ((clock - begin + _ZONES_S / 2) % _ZONES_S) - _ZONES_S / 2
