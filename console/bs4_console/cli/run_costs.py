"""`runs cost`: what runs have cost on each of their pods, what rented machines have cost, and all
together.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import replace

from bs4_console.cli.output import emit, table
from bs4_console.cli.sessions import pods
from bs4_console.errors import UsageError
from bs4_console.fleet.budgets import BudgetRow, budgets
from bs4_console.fleet.costs import By, Costs, costs, monday_of
from bs4_console.provision.book import Book
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
    parser.add_argument(
        "--by",
        choices=("run", "pod", "provider", "week"),
        default="run",
        help="what to add up by (default run: each run on each of its pods)",
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
    return of_run(run).stays


def of_run(run: str) -> Costs:
    """Return what the run `run` has cost until now, from records on this machine: its time on pods,
    and the time in which no run used the machines that were rented for it. Raises what `paid`
    raises.
    """
    return paid(time.time()).of_runs([run])


def paid(now: float) -> Costs:
    """Return what all runs and rented machines have cost until `now`, a Unix time in seconds, from
    records on this machine. Raises UsageError if the inventory or the journal of rented machines is
    damaged.
    """
    return costs(_stays(now), Book().intents(), pods(None), now)


def _stays(now: float) -> list[Stay]:
    """Return the time of every run on every pod that this machine has read, oldest first."""
    log = RunLog()
    present = {pod.name for pod in pods(None)}
    found = spending.stays(record_fold.mirrored(present), present, log.noted_prices(), now)
    written = {name: run.price for name, run in log.records().items() if run.price is not None}
    return spending.filled(found, written)


def cost(options: argparse.Namespace) -> int:
    """Print what each run has cost on each pod, or each pod, provider or week, and the total in US
    dollars, from records on this machine. No pod is asked. Return 0. Raises UsageError for a run
    that no pod has recorded, and if notify.toml, which may name budgets, is wrong.
    """
    if options.days is not None and not options.days > 0:
        raise UsageError(f"{options.days:g} days are no time.", "Give a number above 0.")
    now = time.time()
    found = paid(now)
    limits = () if options.runs else budgets()
    rows = [budget.row(found, now) for budget in limits]
    verdicts = [budget.judge(found, now) for budget in limits]
    if options.runs:
        unknown = sorted(set(options.runs) - {stay.run for stay in found.stays})
        if unknown:
            raise UsageError(
                f"No pod has recorded a run {unknown[0]}.", "`bs4-console runs list` names them."
            )
        found = found.of_runs(options.runs)
    if options.days is not None:
        found = found.during(now - options.days * _DAY_S, math.inf)
    if options.json:
        _emit(found, options.by, rows)
        return 0
    if options.by == "run":
        _print_stays(found)
    else:
        _print_groups(found, options.by)
    print(f"Total: ${found.runs:.2f}; time that runs shared on one pod counts once.")
    _print_machines(found)
    for verdict in verdicts:
        print(f"{verdict.pod.capitalize()}: {verdict.sentences[0]}.")
    if found.unpriced:
        print(f"Without a known price (`runs note RUN --price USD`): {', '.join(found.unpriced)}.")
    return 0


def _print_stays(found: Costs) -> None:
    rows = []
    for stay in found.stays:
        dollars = "?" if stay.cost is None else f"${stay.cost:.2f}"
        rows.append([stay.run, stay.pod, eta.describe(stay.until_t - stay.began_t), dollars])
    if rows:
        table(rows, ["run", "pod", "time", "cost"])


def _print_groups(found: Costs, by: By) -> None:
    rows = []
    for key, group in found.by(by).items():
        name = key or "unknown"
        if by == "week":
            name += f" (from {monday_of(name)})"
        unknown = bool(group.unpriced)
        whole = _dollars(group.total, unknown)
        rows.append([name, _dollars(group.runs, unknown), _dollars(group.idle, False), whole])
    if rows:
        table(rows, [by, "runs", "no run", "in all"])


def _dollars(amount: float, unknown: bool) -> str:
    """Return an amount for a table. If `unknown`, a part of it is not known."""
    if unknown and not amount:
        return "?"
    return f"${amount:.2f}" + " + ?" * unknown


def _print_machines(found: Costs) -> None:
    """Print what rented machines have cost, and the sum with the runs, if one was rented."""
    if not found.rented:
        return
    print(f"Machines rented here: ${found.rent:.2f}, of which ${found.idle:.2f} no run used.")
    if found.unsure:
        print(f"It is not known whether {found.unsure} of them exist; `provision list` asks.")
    print(f"In all: ${found.total:.2f}.")


def _emit(found: Costs, by: By, rows: Sequence[BudgetRow]) -> None:
    stays = []
    for one in found.used:
        stay = one.stay
        stays.append(
            {
                "run": stay.run,
                "pod": stay.pod,
                "provider": one.provider,
                "seconds": stay.until_t - stay.began_t,
                "cost": stay.cost,
            }
        )
    groups = []
    for key, group in found.by(by).items():
        groups.append(
            {
                "key": key,
                "runs": group.runs,
                "unused": group.idle,
                "all": group.total,
                "unpriced": group.unpriced,
            }
        )
    emit(
        "runs-cost",
        stays=stays,
        total=found.runs,
        unpriced=found.unpriced,
        by=by,
        groups=groups,
        rented={"cost": found.rent, "unused": found.idle, "unsure": found.unsure},
        all=found.total,
        budgets=rows,
    )
