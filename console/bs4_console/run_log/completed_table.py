"""The table of completed runs in a TRAINING_RUNS document."""

from __future__ import annotations

from collections.abc import Sequence

from bs4_console.run_log.eta import describe
from bs4_console.run_log.record import RunRecord
from bs4_console.run_log.tables import row, run_named, run_tables
from bs4_console.run_log.text import Chunk, lines
from bs4_console.run_log.written_values import written_number

#: The status words of a run that ended well.
STATUSES = ("COMPLETED", "FINISHED")


def filled(parts: Sequence[Chunk], runs: Sequence[RunRecord]) -> list[str]:
    """Return the texts of `parts`, the chunks of the run log's Markdown document, in which the
    table of completed runs has a row for every run of `runs`. Such a table stands below a heading
    that says "completed" or "finished". If there are several, the first one gets the rows of the
    runs that none of them has. Everything else stays unchanged, and all of it if there is none.
    """
    texts = [chunk.text for chunk in parts]
    found = [one for one in run_tables(parts) if one.status in STATUSES]
    if not found:
        return texts
    there: set[str] = set()
    for one in found:
        there.update(run_named(cells[0]) for cells in one.table.rows)
    fresh = [_row(run, found[0].table.columns) for run in runs if run.name not in there]
    if not fresh:
        return texts
    end = found[0].table.end
    body = [line.text for line in lines(texts[found[0].chunk])]
    if not body[end - 1].endswith("\n"):
        body[end - 1] += "\n"
    texts[found[0].chunk] = "".join([*body[:end], *fresh, *body[end:]])
    return texts


def _row(run: RunRecord, columns: Sequence[str]) -> str:
    """Return the row of a run, with what is known for each column."""
    duration = run.duration
    if not duration and run.lasted_s is not None:
        duration = describe(run.lasted_s)
    reward = ""
    if run.reward is not None:
        reward = written_number(run.reward)
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
    return row([" ".join(known.get(name, "").split()) for name in columns])
