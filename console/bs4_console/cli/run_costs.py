"""`runs cost`: what runs have cost on each of their pods, and all together."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from bs4_console.cli.output import emit, table
from bs4_console.cli.sessions import pods
from bs4_console.errors import UsageError
from bs4_console.run_log import eta, record_fold, spending
from bs4_console.run_log.document import RunLog
from bs4_console.run_log.spending import Stay

_DAY_S = 86400.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `runs cost` to its parser."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help="only these (default: all)")
    parser.add_argument(
        "--days", type=float, metavar="N", help="only what the last N days have cost, such as 7"
    )


def spent(run: str, price: float | None) -> float | None:
    """Return what a run has cost so far on all its pods, in US dollars, from the records on this
    machine. If `price` is not None, it is taken as the price of every pod, in US dollars an hour,
    instead of the recorded ones. Return None if no pod has recorded the run, or if the price of one
    of its pods is not known.
    """
    found = stays_of(run)
    if price is not None:
        found = [replace(stay, price=price) for stay in found]
    if not found or any(stay.cost is None for stay in found):
        return None
    return spending.total(found)


def stays_of(run: str) -> list[Stay]:
    """Return the stays of the run `run`, oldest first, from the records on this machine. A stay is
    the time that the run was on one pod, with the pod's price.
    """
    return [stay for stay in _stays(time.time()) if stay.run == run]


def _stays(now: float) -> list[Stay]:
    """Return the time of every run on every pod that this machine has read, oldest first."""
    log = RunLog()
    present = {pod.name for pod in pods(None)}
    found = spending.stays(record_fold.mirrored(present), present, log.noted_prices(), now)
    written = {name: run.price for name, run in log.records().items() if run.price is not None}
    return spending.filled(found, written)


def cost(options: argparse.Namespace) -> int:
    """Print what each run has cost on each pod, and the total in US dollars, from records on this
    machine. No pod is asked. Return 0. Raises UsageError for a run that no pod has recorded.
    """
    if options.days is not None and not options.days > 0:
        raise UsageError(f"{options.days:g} days are no time.", "Give a number above 0.")
    now = time.time()
    found = _stays(now)
    if options.runs:
        unknown = sorted(set(options.runs) - {stay.run for stay in found})
        if unknown:
            raise UsageError(
                f"No pod has recorded a run {unknown[0]}.", "`bs4-console runs list` names them."
            )
        found = [stay for stay in found if stay.run in options.runs]
    if options.days is not None:
        found = spending.since(found, now - options.days * _DAY_S)
    unpriced = sorted({stay.run for stay in found if stay.price is None})
    total = spending.total(found)
    if options.json:
        stays = [
            {"run": s.run, "pod": s.pod, "seconds": s.until_t - s.began_t, "cost": s.cost}
            for s in found
        ]
        emit("runs-cost", stays=stays, total=total, unpriced=unpriced)
        return 0
    rows = []
    for stay in found:
        dollars = "?" if stay.cost is None else f"${stay.cost:.2f}"
        rows.append([stay.run, stay.pod, eta.describe(stay.until_t - stay.began_t), dollars])
    if rows:
        table(rows, ["run", "pod", "time", "cost"])
    print(f"Total: ${total:.2f}; time that runs shared on one pod counts once.")
    if unpriced:
        print(f"Without a known price (`runs note RUN --price USD`): {', '.join(unpriced)}.")
    return 0
