"""The command `runs eta`: time and cost to several steps."""

from __future__ import annotations

import argparse
import re

from bs4_console.cli import run_costs, run_records
from bs4_console.cli.output import complain, emit, table
from bs4_console.errors import UsageError
from bs4_console.run_log import eta
from bs4_console.run_log.record import RunRecord


def show(options: argparse.Namespace) -> int:
    """Print in what time, and at what cost, a run will reach the training steps 100, 500 and 1000
    and its last one, and return 0. Of a run that has ended, print what it has cost alone, unless
    --pace or --max-steps asks what going on would take. Raises UsageError if the duration of a step
    is neither recorded nor given with --pace.
    """
    record = run_records.record_of(options.record)
    pace = record.pace_s if options.pace is None else options.pace
    price = record.price if options.price is None else options.price
    asked = options.pace is not None or options.max_steps is not None
    over = record.final and not record.still_on and not asked
    if pace is None and not over:
        raise UsageError(
            f"No step time of {record.name} is recorded.", "Give seconds a step with --pace."
        )
    done = eta.done_by(record)
    so_far = run_costs.spent(record.name, options.price)
    if record.source == "log":
        so_far = eta.cost(price, lasted(record, pace))
    goals = []
    if pace is not None and not over:
        goals = eta.milestones(
            done, pace, max_steps=options.max_steps or record.max_steps, price=price, spent=so_far
        )
    if options.json:
        emit(
            "run-eta",
            run=record.name,
            ended=over,
            done=done,
            pace_s=pace,
            price=price,
            cost_so_far=so_far,
            milestones=goals,
        )
        return 0
    if over:
        print(_ended(record, so_far))
        return 0
    spent = "cost so far unknown"
    if price is None:
        spent += " (give --price)"
    if so_far is not None:
        spent = f"${so_far:.2f} so far"
    print(f"{record.name}: {done} steps done, {pace:.0f} s a step, {spent}")
    rows = []
    for g in goals:
        rows.append(
            [
                str(g.step),
                eta.describe(g.seconds) if g.seconds else "reached",
                "-" if g.cost is None else f"${g.cost:.2f}",
            ]
        )
    table(rows, ["step", "in", "cost until then"])
    return 0


def lasted(record: RunRecord, pace: float | None) -> float | None:
    """Return the seconds for which an imported run had its pod, or None if they are not known.
    `pace` is the duration of a step in seconds, or None.
    """
    if pace is None and record.ended_t is None:
        return None
    return _elapsed(record, eta.done_by(record) * (pace or 0.0))


def _ended(record: RunRecord, cost: float | None) -> str:
    """Return a sentence about a run that has ended, with what it has cost in US dollars."""
    text = f"{record.name} has ended"
    if record.status:
        text += f" ({record.status.lower()})"
    if record.step is not None:
        text += f" with {eta.done_by(record)} steps done"
    if cost is None:
        return f"{text}; what it has cost is not known."
    return f"{text}; it has cost ${cost:.2f}."


def _elapsed(record: RunRecord, trained_s: float) -> float | None:
    """Return the seconds for which an imported run had its pod, or None if they are not known, and
    say why on standard error. A document of months ago still says RUNNING, so a run without an end
    had it for `trained_s`, the seconds that its steps took. So had one whose end has no digit, as
    "ongoing".
    """
    if not re.search(r"\d", record.end):
        return trained_s
    for name, written, t in (
        ("start", record.start, record.started_t),
        ("end", record.end, record.ended_t),
    ):
        if t is None:
            complain(
                f"The cost of {record.name} is unknown: its {name} ({written or 'not written'}) "
                "is no time with a known zone, or the end is before the start."
            )
            return None
    return record.lasted_s
