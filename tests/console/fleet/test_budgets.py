"""Budgets for all that was spent: what notify.toml may say, and when a person is told."""

from __future__ import annotations

import threading
import time
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from bs4_console.checks.delivery import Notifier
from bs4_console.checks.recipients import Channel
from bs4_console.checks.transitions import Notice
from bs4_console.checks.verdict import CRITICAL, OK, UNKNOWN, WARNING
from bs4_console.checks.watch import watch
from bs4_console.errors import UsageError
from bs4_console.fleet import budgets as module
from bs4_console.fleet.budgets import Budget, Purse, WatchedBudget, budgets
from bs4_console.fleet.costs import Costs, costs
from bs4_console.run_log.spending import Stay
from bs4_console.secret import Secret
from tests.console.checks.receiver import receiving

HOUR_S = 3600.0
#: A Wednesday, at noon in local time.
NOW = datetime(2026, 12, 2, 12).timestamp()


def spent(dollars: float, ago_h: float = 0.0, price: float | None = 1.0) -> Costs:
    """Return costs of one run that ended `ago_h` hours before NOW."""
    until = NOW - ago_h * HOUR_S
    began = until - dollars * HOUR_S
    stay = Stay(run="demo", pod="one", began_t=began, until_t=until, price=price)
    return costs([stay], [], [], NOW)


def written(root: Path, text: str) -> Path:
    path = root / "notify.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_budgets_stand_beside_the_channels(tmp_path: Path) -> None:
    channel = '[[notify]]\nkind = "ntfy"\nurl_env = "NOT_SET"\n'
    path = written(tmp_path, f"[budget]\nweek = 300\nday = 49.5\n{channel}")
    assert budgets(path) == (Budget("day", 49.5), Budget("week", 300.0))
    assert budgets(written(tmp_path, channel)) == ()
    assert budgets(tmp_path / "none.toml") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("budget = 5", r"something else than .* a \[budget\]"),
        ("[budget]\nyear = 5", "a budget of a 'year' means nothing"),
        ('[budget]\nday = "5"', "of a day is no amount"),
        ("[budget]\nday = true", "of a day is no amount"),
        ("[budget]\nweek = 0", "of a week is no amount"),
        ("[budget]\nmonth = nan", "of a month is no amount"),
        ("[budget]\nmonth = 1" + "0" * 400, "of a month is no amount"),
    ],
)
def test_what_is_no_budget_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        budgets(written(tmp_path, text))


@pytest.mark.parametrize(
    ("dollars", "level"), [(7.99, OK), (8.0, WARNING), (9.99, WARNING), (10.0, CRITICAL)]
)
def test_it_warns_at_80_percent_and_is_critical_when_spent(dollars: float, level: int) -> None:
    assert Budget("day", 10.0).judge(spent(dollars), NOW).level == level


@pytest.mark.parametrize(
    ("period", "ago_h", "dollars", "text"),
    [
        ("day", 11, 3, "$1.00 of $10.00 was spent today (10 %)"),
        ("week", 2.5 * 24 - 1, 3, "$1.00 of $10.00 was spent this week (10 %)"),
        ("month", 1.5 * 24 - 2, 3, "$2.00 of $10.00 was spent this month (20 %)"),
    ],
)
def test_each_period_begins_at_a_midnight(
    period: module.Period, ago_h: float, dollars: float, text: str
) -> None:
    told = Budget(period, 10.0).judge(spent(dollars, ago_h), NOW)
    assert list(told.sentences) == [text]


def test_what_has_no_price_is_said() -> None:
    told = Budget("day", 10.0).judge(spent(5, price=None), NOW)
    assert (told.level, len(told.coverage)) == (OK, 1)
    assert "demo" in told.coverage[0]


async def test_a_watcher_tells_each_level_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRESH_S", 0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: NOW, monotonic=time.monotonic))
    looks = [5.0, 8.0, 8.5, 9.0, 11.0, 11.5, 12.0, 0.5]
    left = list(looks)
    shown: list[Notice] = []
    with receiving() as at:
        channel = Channel("webhook", "hook", Secret(at.url("/hook")))
        subject = WatchedBudget(Budget("day", 10.0), Purse(lambda _: spent(left.pop(0))))
        await watch([subject], Notifier([channel], pytest.fail), shown.append, 0.001, len(looks))
    assert [notice.title for notice in shown] == [
        "WARNING: daily budget",
        "CRITICAL: daily budget",
        "RECOVERED: daily budget",
    ]
    assert [got.json["status"] for got in at.got] == ["WARNING", "CRITICAL", "OK"]
    assert "`bs4-console runs cost --by pod` says on what" in at.got[0].json["text"]


async def test_several_budgets_read_once() -> None:
    reads = []

    def read(now: float) -> Costs:
        reads.append(now)
        return spent(1.0)

    purse = Purse(read)
    for period in ("day", "week", "month"):
        await WatchedBudget(Budget(period, 10.0), purse).judge()
    assert len(reads) == 1


async def test_what_cannot_be_read_is_unknown() -> None:
    def read(_: float) -> Costs:
        raise UsageError("provision.ndjson line 3 is no JSON.", "Remove that line.")

    told = await WatchedBudget(Budget("day", 10.0), Purse(read)).judge()
    assert (told.pod, told.level) == ("daily budget", UNKNOWN)
    assert "line 3 is no JSON" in told.sentences[0]


@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError])
async def test_an_unreadable_file_is_unknown_and_read_again(error: type[OSError]) -> None:
    failures = [error(2, "It is so", "1.data")]

    def read(_: float) -> Costs:
        if failures:
            raise failures.pop()
        return spent(0.0)

    subject = WatchedBudget(Budget("day", 10.0), Purse(read))
    told = await subject.judge()
    assert (told.pod, told.level) == ("daily budget", UNKNOWN)
    assert told.sentences[0] == "what was spent is not known: [Errno 2] It is so: '1.data'"
    assert (await subject.judge()).level == OK


async def test_a_disk_that_does_not_answer_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = threading.Event()
    reads = []

    def read(now: float) -> Costs:
        reads.append(now)
        answers.wait()
        return spent(0.0)

    purse = Purse(read)
    monkeypatch.setattr(module, "READ_S", 0.01)
    for _ in range(3):
        told = await WatchedBudget(Budget("day", 10.0), purse).judge()
        assert (told.level, list(told.sentences)) == (
            UNKNOWN,
            ["what was spent is not known: the records were not read within 0.01 s"],
        )
    monkeypatch.setattr(module, "READ_S", 60.0)
    answers.set()
    assert (await WatchedBudget(Budget("day", 10.0), purse).judge()).level == OK
    assert len(reads) == 1
