"""Budgets for everything together, a day, a week or a month: the table [budget] of notify.toml.
`check` judges them like pods, so that whoever is told of a pod is told of them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal, TypedDict, get_args

from bs4_console.checks.recipients import read
from bs4_console.checks.verdict import (
    CRITICAL,
    OK,
    UNKNOWN,
    WARNING,
    WORDS,
    Reason,
    Sample,
    Verdict,
    verdict,
)
from bs4_console.errors import ConsoleError, UsageError
from bs4_console.fleet.costs import Costs, midnight, monday

Period = Literal["day", "week", "month"]
_NAMES: dict[Period, str] = {"day": "daily", "week": "weekly", "month": "monthly"}
_SINCE: dict[Period, str] = {"day": "today", "week": "this week", "month": "this month"}
#: The part of a budget from which on `check` warns.
WARNING_AT = 0.8
#: US dollars. A number beyond it is no budget, and may have too many digits for a float.
_MOST = 1e9
#: Seconds for which costs that were read are not read again.
FRESH_S = 60.0
#: Seconds for which a verdict waits for costs that are being read.
READ_S = 30.0


class BudgetRow(TypedDict):
    """A budget as the JSON of `runs cost` has it. Money is in US dollars."""

    period: Period
    limit: float
    spent: float
    status: str
    """The level as a word, such as "WARNING"."""


@dataclass(frozen=True)
class Budget:
    """The most that a person wants to spend in each `period` of local time: `limit` US dollars, for
    all runs and all machines that this console has rented.
    """

    period: Period
    limit: float

    @property
    def name(self) -> str:
        """Return the name of the budget, which no pod can have, such as "daily budget"."""
        return f"{_NAMES[self.period]} budget"

    def began_t(self, now: float) -> float:
        """Return the Unix time in seconds at which the period began in which `now` lies."""
        day = date.fromtimestamp(now)
        if self.period == "week":
            day = monday(day)
        elif self.period == "month":
            day = day.replace(day=1)
        return midnight(day)

    def judge(self, costs: Costs, now: float) -> Verdict:
        """Return the verdict on what was spent since the period began: WARNING from 80 % of the
        budget on, and CRITICAL when it is spent. Its `coverage` names the runs without a price.
        """
        found = costs.during(self.began_t(now), now)
        level = self._level(found.total)
        text = (
            f"${found.total:.2f} of ${self.limit:.2f} was spent {_SINCE[self.period]} "
            f"({found.total / self.limit:.0%})".replace("%", " %")
        )
        if level != OK:
            text += "; `bs4-console runs cost --by pod` says on what"
        coverage = []
        if found.unpriced:
            coverage.append(f"what these runs cost, of which no price is known: {found.unpriced}")
        return verdict(
            self.name,
            [Reason(level, "budget", text)],
            perfdata={
                "spent": f"{found.total:.2f};{self.limit * WARNING_AT:.2f};{self.limit:.2f};0"
            },
            samples=[
                Sample("bs4_budget_spent_dollars", {}, found.total),
                Sample("bs4_budget_dollars", {}, self.limit),
            ],
            coverage=coverage,
        )

    def row(self, costs: Costs, now: float) -> BudgetRow:
        """Return what was spent since the period began as a JSON object."""
        spent = costs.during(self.began_t(now), now).total
        return {
            "period": self.period,
            "limit": self.limit,
            "spent": spent,
            "status": WORDS[self._level(spent)],
        }

    def _level(self, spent: float) -> int:
        if spent >= self.limit:
            return CRITICAL
        return WARNING if spent >= self.limit * WARNING_AT else OK


def budgets(path: Path | None = None) -> tuple[Budget, ...]:
    """Return the budgets of the table [budget] in `path`, by default notify.toml in the console's
    directory of configuration. Return an empty tuple if it has none. Raises UsageError if the file
    can be read by others, cannot be read, or is wrong.
    """
    path, document = read(path)
    entries = document.get("budget", {})
    if unknown := sorted(set(entries) - set(get_args(Period))):
        raise UsageError(
            f"{path}: a budget of a {unknown[0]!r} means nothing.",
            "Write `day`, `week` or `month`, and US dollars.",
        )
    found = []
    for period in get_args(Period):
        limit = entries.get(period)
        if limit is None:
            continue
        if type(limit) not in (int, float) or not 0 < limit < _MOST:
            raise UsageError(f"{path}: the budget of a {period} is no amount.", "Correct it.")
        found.append(Budget(period, float(limit)))
    return tuple(found)


class Purse:
    """Reads what was spent, at most once a minute, for several budgets. `read` is a function that
    returns all costs until a Unix time in seconds. It is called in a thread, one call at a time.
    """

    def __init__(self, read: Callable[[float], Costs]) -> None:
        self._read = read
        self._reading: asyncio.Future[tuple[float, Costs]] | None = None

    async def costs(self) -> Costs:
        """Return what was spent, as it was read within the last minute. Raises what `read` raises,
        and TimeoutError if it has not returned after READ_S (30) seconds. It then goes on, and a
        later call returns what it finds.
        """
        reading = self._reading
        if reading is None or _stale(reading):
            reading = self._reading = self._begin()
        await asyncio.wait({reading}, timeout=READ_S)
        if not reading.done():
            raise TimeoutError(f"the records were not read within {READ_S:g} s")
        return reading.result()[1]

    def _begin(self) -> asyncio.Future[tuple[float, Costs]]:
        """Begin to read in a thread of its own. One of asyncio's would hold up the end of the
        program until the disk answers, and notices, which are sent in such threads.
        """
        told: Future[tuple[float, Costs]] = Future()

        def read() -> None:
            try:
                found = self._read(time.time())
            except BaseException as error:  # noqa: BLE001 (it is raised where it is awaited)
                told.set_exception(error)
            else:
                told.set_result((time.monotonic(), found))

        threading.Thread(target=read, name="budgets", daemon=True).start()
        return asyncio.wrap_future(told)


def _stale(reading: asyncio.Future[tuple[float, Costs]]) -> bool:
    """Return True if a reading has failed, or ended more than FRESH_S seconds ago."""
    if not reading.done():
        return False
    return reading.exception() is not None or time.monotonic() - reading.result()[0] >= FRESH_S


@dataclass(frozen=True)
class WatchedBudget:
    """A budget as one of the things that `check` and `check --watch` judge. `purse` reads what was
    spent.
    """

    budget: Budget
    purse: Purse

    async def judge(self) -> Verdict:
        """Return the verdict on the budget now. It is UNKNOWN, with the reason, if what was spent
        cannot be read, or not in READ_S (30) seconds.
        """
        try:
            costs = await self.purse.costs()
        except (ConsoleError, OSError) as error:
            return not_known(self.budget.name, error)
        return self.budget.judge(costs, time.time())


def not_known(name: str, error: ConsoleError | OSError) -> Verdict:
    """Return the verdict UNKNOWN on the budget `name`, of which `error` says why."""
    why = str(error)
    if isinstance(error, OSError):
        why = f"what was spent is not known: {error}"
    return verdict(name, [Reason(UNKNOWN, "budget", why)])


def watched(read: Callable[[float], Costs]) -> list[WatchedBudget]:
    """Return the budgets of notify.toml, which are judged by what `read` returns (see Purse). The
    list is empty if there are none. Raises UsageError if notify.toml is wrong.
    """
    purse = Purse(read)
    return [WatchedBudget(budget, purse) for budget in budgets()]
