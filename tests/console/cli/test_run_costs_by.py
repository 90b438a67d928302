"""What runs and rented machines have cost together, by pod, provider and week."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_console.cli import run_costs
from bs4_console.fleet import budgets
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.provision.book import Book
from tests.console.cli.planted import plant, rent
from tests.console.cli.test_run_log import Console

HOUR_S = 3600.0
#: A Wednesday, at noon in local time.
NOW = datetime(2026, 12, 2, 12).timestamp()


@pytest.fixture
def local_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Console:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name.lower()))
    clock = SimpleNamespace(time=lambda: NOW, monotonic=time.monotonic)
    monkeypatch.setattr(run_costs, "time", clock)
    monkeypatch.setattr(budgets, "time", clock)
    return Console(tmp_path, capsys)


def pod(console: Console, name: str) -> Path:
    return console.root / "data" / "pods" / name


def groups(console: Console, by: str, *more: str) -> dict[str | None, tuple[float, float, float]]:
    """Return {key: (runs, no run, all)} in dollars."""
    found = {}
    for group in console.json("runs", "cost", "--by", by, *more)["groups"]:
        money = (group["runs"], group["unused"], group["all"])
        found[group["key"]] = tuple(round(value, 1) for value in money)
    return found  # type: ignore[return-value]


def money(told: dict[str, Any]) -> list[float]:
    rented = told["rented"]
    found = [told["total"], rented["cost"], rented["unused"], told["all"]]
    return [round(value, 2) for value in found]


def test_a_machine_costs_also_while_no_run_is_on_it(console: Console) -> None:
    """It was rented for 24 minutes, of which a run took two."""
    plant(pod(console, "demo-1"), NOW - 2 * HOUR_S, 2 / 60, 3.96)
    rent("demo-1", NOW - 2.2 * HOUR_S, NOW - 1.8 * HOUR_S, 3.96, "prime")
    assert money(console.json("runs", "cost")) == [0.13, 1.58, 1.45, 1.58]
    told = console("runs", "cost")
    assert "Total: $0.13; time that runs shared on one pod counts once." in told
    assert "Machines rented here: $1.58, of which $1.45 no run used.\nIn all: $1.58.\n" in told
    assert money(console.json("runs", "cost", "demo"))[:2] == [0.13, 0], "rented for another run"
    # The last 1.9 hours, of which the machine lived 6 minutes.
    assert money(console.json("runs", "cost", "--days", str(1.9 / 24))) == [0, 0.4, 0.4, 0.4]


def test_a_run_without_a_price_costs_what_its_rented_machine_does(console: Console) -> None:
    plant(pod(console, "one"), NOW - 3 * HOUR_S, 2, None)
    assert console.json("runs", "cost")["unpriced"] == ["demo"]
    rent("one", NOW - 4 * HOUR_S, None, 5.0, "prime")
    told = console.json("runs", "cost")
    assert (money(told), told["unpriced"]) == ([10.01, 20, 9.99, 20], [])


def test_a_run_without_an_end_ends_with_its_machine(console: Console) -> None:
    """The pod of the machine is still in the inventory, and nobody has seen the run's end."""
    plant(pod(console, "one"), NOW - 10 * HOUR_S, 1, 2.0, ended=False)
    Inventory().add(Pod(name="one", host="192.0.2.1", provider="prime"))
    rent("one", NOW - 10.5 * HOUR_S, NOW - 8 * HOUR_S, 2.0, "prime")
    assert money(console.json("runs", "cost")) == [4, 5, 1, 5]


def test_costs_by_provider_and_pod(console: Console) -> None:
    """One provider is known from the journal of rents, one from the inventory, one not at all."""
    began = NOW - 40 * HOUR_S
    plant(pod(console, "rented"), began, 2, 1.0)
    rent("rented", began - HOUR_S, began + 4 * HOUR_S, 1.0, "prime")
    plant(pod(console, "by-hand"), began, 3, 2.0, home="01YYYYYYYYYYYYYYYYYYYYYYYY")
    Inventory().add(Pod(name="by-hand", host="192.0.2.1", provider="lambda"))
    plant(pod(console, "gone"), began, 1, None, home="01ZZZZZZZZZZZZZZZZZZZZZZZZ")
    providers = {"lambda": (6, 0, 6), "prime": (2, 3, 5), None: (0, 0, 0)}
    assert groups(console, "provider") == providers
    assert list(groups(console, "provider")) == list(providers), "the dearest first"
    assert groups(console, "pod") == {"by-hand": (6, 0, 6), "rented": (2, 3, 5), "gone": (0, 0, 0)}
    lines = [line.split() for line in console("runs", "cost", "--by", "provider").splitlines()]
    assert lines[1:4] == [
        ["lambda", "$6.01", "$0.00", "$6.01"],
        ["prime", "$2.00", "$3.00", "$5.00"],
        ["unknown", "?", "$0.00", "?"],
    ]


@pytest.mark.usefixtures("local_time")
def test_costs_by_week_are_cut_at_monday_in_local_time(console: Console) -> None:
    monday = datetime(2026, 11, 2).timestamp()  # in the week before it, summer time ended
    plant(pod(console, "one"), monday - 2 * HOUR_S, 3, 1.0)
    rent("one", monday - 170 * HOUR_S, monday + 3 * HOUR_S, 1.0, "prime")
    weeks = {"2026-W43": (0, 1, 1), "2026-W44": (2, 167, 169), "2026-W45": (1, 2, 3)}
    assert groups(console, "week") == weeks
    assert list(groups(console, "week")) == sorted(weeks)
    told = console("runs", "cost", "--by", "week")
    assert "2026-W45 (from 2026-11-02)" in told
    assert "In all: $173.00." in told
    assert groups(console, "run") == {None: (0, 170, 170), "demo": (3, 0, 3)}


def test_an_attempt_of_which_nobody_knows_whether_it_made_a_machine(console: Console) -> None:
    rent("one", NOW - 3 * HOUR_S, None, 2.0, "prime")
    lines = Book().path.read_text().splitlines(keepends=True)
    Book().path.write_text(lines[0])
    told = console("runs", "cost")
    assert "Machines rented here: $6.00, of which $6.00 no run used.\n" in told
    assert "It is not known whether 1 of them exist; `provision list` asks.\n" in told


def test_a_budget_that_an_idle_machine_spends(console: Console) -> None:
    rent("one", NOW - 4 * HOUR_S, None, 5.0, "prime")
    assert console("check", code=3).startswith("UNKNOWN - no pod is in the inventory")
    path = console.root / "config" / "notify.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text("[budget]\nday = 24\nweek = 100.0\n")
    path.chmod(0o600)
    assert console("check", code=3).splitlines() == [
        "UNKNOWN - inventory: no pod is in it",
        "WARNING - daily budget: $20.00 of $24.00 was spent today (83 %); "
        "`bs4-console runs cost --by pod` says on what | spent=20.00;19.20;24.00;0",
        "OK - weekly budget: $20.00 of $100.00 was spent this week (20 %) "
        "| spent=20.00;80.00;100.00;0",
    ]
    told = console("check", "--format", "prom", code=3)
    assert 'bs4_budget_spent_dollars{pod="weekly budget"} 20.0\n' in told
    assert "Daily budget: $20.00 of $24.00 was spent today (83 %)" in console("runs", "cost")
    told = console.json("runs", "cost", "--days", "0.01")["budgets"]
    assert [round(row["spent"]) for row in told] == [20, 20], "of the whole day and week"
    assert [row["status"] for row in told] == ["WARNING", "OK"]
    path.chmod(0o644)
    assert "can be read by others" in console("check", code=3), "nobody knows what it says"


def test_a_watcher_tells_of_a_budget_too(console: Console) -> None:
    """One pod is in the inventory, and does not answer."""
    Inventory().add(Pod(name="gone", host="127.0.0.1", port=1, user="root", ssh_config=False))
    rent("one", NOW - 4 * HOUR_S, None, 5.0, "prime")
    path = console.root / "config" / "notify.toml"
    path.write_text("[budget]\nday = 20\n")
    path.chmod(0o600)
    words = ("check", "--watch", "--every", "1", "--cycles", "2", "--timeout", "0.5")
    told = [line.split(" - ")[0].partition(" ")[2] for line in console(*words, code=2).splitlines()]
    assert sorted(told) == ["CRITICAL: daily budget", "UNKNOWN: gone"]


def test_a_record_that_cannot_be_read_ends_no_check(console: Console) -> None:
    Inventory().add(Pod(name="gone", host="127.0.0.1", port=1, user="root", ssh_config=False))
    path = console.root / "config" / "notify.toml"
    path.write_text("[budget]\nday = 20\n")
    path.chmod(0o600)
    Book().path.mkdir(parents=True)  # a file that not even root can read
    said = "UNKNOWN - daily budget: what was spent is not known: [Errno 21]"
    told = console("check", "--timeout", "0.5", code=3)
    assert "UNKNOWN - gone" in told
    assert said in told
    words = ("check", "--watch", "--every", "1", "--cycles", "2", "--timeout", "0.5")
    told = console(*words, code=3)
    assert "UNKNOWN: gone" in told
    assert "UNKNOWN: daily budget" in told
