"""Find out when each line of a recorded log was written, from the clocks in the lines: HH:MM:SS in
the run's time zone, without a date.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path

from bs4_console.logs.merge import DAY, keyed, rows_of
from bs4_console.logs.text import clean, clock_of
from bs4_console.pods.samples import Telemetry
from bs4_console.pods.state import RunState

#: The trail of a log: (wall seconds, generation, offset) of the first line of each second, oldest
#: first.
Trail = list[tuple[float, int, int]]


def place_at(trail: Trail, t: float) -> str | None:
    """Return the cursor (GENERATION:OFFSET: the number of the log's file and a byte offset in it)
    of the first line of a log that was written at the Unix time `t` (in seconds, rounded down to a
    whole second) or later. `trail` has the time and place of the first line of each second. Return
    None if all lines are older.
    """
    at = bisect_left(trail, (float(math.floor(t)), -1, -1))
    if at < len(trail):
        return f"{trail[at][1]}:{trail[at][2]}"
    return None


def trail_of(
    files: Sequence[tuple[int, Path]], midnight: float | None, span: tuple[float, float]
) -> Trail:
    """Find out when the lines of one log were written. Return a list of (Unix time in seconds,
    generation, byte offset), oldest first: the time and place of the first line of each second.

    `files` are the generation (the number of the file) and the path of each file of the log, in
    order. `midnight` is a Unix time in seconds at which the run's clock showed 00:00:00, or None.
    `span` holds the times of the run's first and last write. The lines of a log without any clock
    are spread evenly over the span, as an estimate.
    """
    made: Trail = []
    lines: list[tuple[int, int]] = []
    last: int | None = None
    shift: float | None = None
    for generation, path in files:
        rows = rows_of(path.read_bytes(), 0, f"{generation}:0")
        lines += [(row[1], row[2]) for row in rows]
        first = next(
            (clock for row in rows if (clock := clock_of(clean(row[3]))) is not None), None
        )
        if first is None or midnight is None:
            continue
        if shift is None:
            # The day is chosen so that the first line is nearest to the run's beginning.
            shift = midnight + round((span[0] - midnight - first) / DAY) * DAY
        for seconds, row in keyed(rows, after=last):
            last = seconds if last is None else max(last, seconds)
            if not made or shift + last > made[-1][0]:
                made.append((shift + last, row[1], row[2]))
    if made or not lines:
        return made
    begin, end = span
    found = []
    for i, line in enumerate(lines):
        found.append((begin + (end - begin) * i / len(lines), *line))
    return found


def midnight_of(run: RunState, files: Mapping[str, Sequence[tuple[int, Path]]]) -> float | None:
    """Return a Unix time in seconds at which the clock in the run's log lines showed 00:00:00, or
    None if it cannot be known. `files` maps the name of each log stream, such as "log/RUN/trainer",
    to the generation and path of its files.

    The time is computed from a training step whose time the agent recorded and whose line is in one
    of the logs. Without such a step, the first clock in any file is taken as the time at which the
    run began.
    """
    for row in (*run.trainer_steps, *run.orchestrator_steps):
        at = row.get("at") or {}
        line = _line_at(files.get(at.get("stream", ""), ()), at.get("cursor", ""))
        if line is not None and (clock := clock_of(clean(line))) is not None:
            return math.floor(float(row.get("log_t") or row["t"])) - float(clock)
    attempt = None
    if run.view.attempts:
        attempt = run.view.attempts[min(run.view.attempts)]
    clocks = (
        clock_of(clean(line))
        for found in files.values()
        for _, path in found
        for line in path.read_bytes()[:65536].split(b"\n")
    )
    first = next((clock for clock in clocks if clock is not None), None)
    if attempt is None or first is None:
        return None
    return math.floor(attempt.started_t) - float(first)


def span_of(run: RunState, latest: Telemetry) -> tuple[float, float]:
    """Return the Unix times in seconds at which a recorded run began and last wrote, as far as the
    recording shows. `latest` is the newest telemetry record, whose time also counts.
    """
    attempts = run.view.attempts.values()
    begin = min((attempt.started_t for attempt in attempts), default=0.0)
    end = max(begin, float(latest.get("t") or 0.0))
    for attempt in attempts:
        end = max(end, attempt.ended_t or begin)
    for row in run.trainer_steps:
        end = max(end, float(row.get("log_t") or row["t"]))
    return begin, end


def _line_at(files: Sequence[tuple[int, Path]], cursor: str) -> bytes | None:
    generation, _, offset = cursor.partition(":")
    for number, path in files:
        if str(number) == generation and offset.isdecimal():
            with path.open("rb") as handle:
                handle.seek(int(offset))
                return handle.readline(4096)
    return None
