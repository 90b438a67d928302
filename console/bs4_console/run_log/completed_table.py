"""The table of completed runs in a TRAINING_RUNS document."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bs4_console.run_log.eta import describe
from bs4_console.run_log.record import RunRecord

#: The status words of a run that ended well.
STATUSES = ("COMPLETED", "FINISHED")
_HEADS = ("run id", "run")
_ROW = re.compile(r"\s*\|(.+)\|\s*")
_RULE = re.compile(r"[\s|:-]+")


def filled(text: str, runs: Sequence[RunRecord]) -> str:
    """Return `text`, a part of the run log's Markdown document, in which the table of completed
    runs has a row for every run of `runs`. A row is added for each run that has none. Everything
    else stays unchanged. If the text has no such table, it is returned unchanged.
    """
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines[:-1]):
        head = _cells(line)
        if head is None or head[0].lower() not in _HEADS or not _RULE.fullmatch(lines[number + 1]):
            continue
        end = number + 2
        there = set()
        while end < len(lines) and (cells := _cells(lines[end])) is not None:
            there.add(cells[0].strip("`"))
            end += 1
        fresh = []
        for run in runs:
            if run.name not in there:
                fresh.append(_row(run, head))
        if fresh and not lines[end - 1].endswith("\n"):
            lines[end - 1] += "\n"
        return "".join([*lines[:end], *fresh, *lines[end:]])
    return text


def _cells(line: str) -> list[str] | None:
    """Return the cells of a table's row, or None if the line is none."""
    row = _ROW.fullmatch(line.rstrip("\r\n"))
    if row is None:
        return None
    return [cell.strip() for cell in row[1].split("|")]


def _row(run: RunRecord, head: Sequence[str]) -> str:
    """Return the row of a run, with what is known for each column."""
    duration = run.duration
    if not duration and run.started_t is not None and run.ended_t is not None:
        duration = describe(run.ended_t - run.started_t)
    reward = ""
    if run.reward is not None:
        reward = f"{run.reward:.4f}"
    known = {
        "run id": run.name,
        "run": run.name,
        "model": run.model,
        "start": run.start,
        "end": run.end,
        "duration": duration,
        "baseline": run.baseline,
        "final": run.final_score,
        "final reward": reward,
        "improvement": run.improvement,
        "notes": run.status_note,
    }
    cells = []
    for name in head:
        cells.append(" ".join(known.get(name.lower(), "").replace("|", "/").split()))
    return f"| {' | '.join(cells)} |\n"
