"""prime-rl's own STATUS.md. By its convention, whoever watches a run appends one entry with each
observation.
"""

from __future__ import annotations

import os
from pathlib import Path

from bs4_console.run_log.completed_table import STATUSES
from bs4_console.run_log.eta import describe, done_by
from bs4_console.run_log.record import RunRecord
from bs4_console.run_log.text import utc

#: The convention's words for health (prime-rl, skills/training/monitor-run).
HEALTHY, DEGRADED, DOWN = "Healthy", "Degraded", "Down"


def entry(run: RunRecord, now: float) -> str:
    """Return one entry for a status file as Markdown: the heading `## YYYY-MM-DD HH:MM UTC` with
    the time `now` (Unix time in seconds) and six points about the run. Values that are not known
    are written as unknown.
    """
    still = [incident for incident in run.incidents if incident.state == "open"]
    step = left = "unknown"
    if run.step is not None:
        step = f"{run.step} of {run.max_steps}" if run.max_steps else f"{run.step}"
        if run.max_steps and run.pace_s:
            left = describe(max(0, run.max_steps - done_by(run)) * run.pace_s)
    points = {
        "Step": step,
        "Health": _health(run, bool(still)),
        "Progress": (
            f"{'reward unknown' if run.reward is None else f'reward {run.reward:.4f}'}, time "
            f"left {left}"
        ),
        "Stability": (
            f"{len(run.attempts)} attempts, {len(run.incidents)} incidents, {len(still)} open"
        ),
        "Performance": "step time unknown" if run.pace_s is None else f"{run.pace_s:.0f} s a step",
        "Notes": "; ".join(" ".join(incident.title.split()) for incident in still) or "none",
    }
    lines = [f"- **{name}**: {text}" for name, text in points.items()]
    return "\n".join([f"## {utc(now)}", "", *lines, "", ""])


def append(path: Path, text: str) -> None:
    """Add `text`, an entry that `entry` has made, to the end of the status file `path`. What others
    wrote there is left unchanged. The text is written in one piece, so that the lines of two
    writers do not mix. Raises OSError if the file cannot be written.
    """
    before = path.read_bytes() if path.exists() else b""
    if not before or before.endswith(b"\n\n"):
        gap = ""
    elif before.endswith(b"\n"):
        gap = "\n"
    else:
        gap = "\n\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, (gap + text).encode())
    finally:
        os.close(descriptor)


def _health(run: RunRecord, trouble: bool) -> str:
    if run.still:
        health = DEGRADED if trouble or run.step is None else HEALTHY
        return f"{health} (noted as {run.decided.lower()}, {run.still})"
    if run.status == "RUNNING":
        if trouble:
            return DEGRADED
        return HEALTHY
    if run.status in STATUSES:
        return HEALTHY
    return DEGRADED if run.status == "STARTING" else DOWN
