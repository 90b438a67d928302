"""The GPUs of all pods: what is wrong stands first, nothing old looks new, every process has an
owner or is said to have none.
"""

from __future__ import annotations

from typing import Any

from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens.pod import PodScreen
from bs4_console.tui.screens.run import RunScreen
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.views import gpu_table
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive


def rows(*sessions: fixtures.RecordedSession, compact: bool = False) -> list[dict[str, str]]:
    made = gpu_table.rows(
        [gpu_table.now(s.state, fixtures.CLOCK) for s in sessions], compact=compact
    )
    return [
        {name: text_of(cell) for name, cell in row.cells.items()} | {"key": "/".join(row.key)}
        for row in made
    ]


def test_complaints_stand_first_and_are_named() -> None:
    shown = rows(fixtures.healthy(), fixtures.stale_gpus())
    assert [row["key"] for row in shown[:4]] == [f"a100-lab/{i}" for i in range(4)]
    assert shown[0]["state"].startswith("STALE 7s")
    assert shown[1]["state"] == "throttled: hw thermal slowdown "
    assert shown[2]["state"] == "Xid 79 ECC 3 "
    assert shown[2]["owner"] == "arc-agi-3b rank  pid 790"
    assert shown[4] == {
        "pod": "h100-b",
        "gpu": "  0",
        "model": "H100 80GB HBM3",
        "util": "━━━━━━━─  91%",
        "mem": "66/80G",
        "power": "609/700W",
        "temp": "65°C",
        "clock": "1980/2619",
        "pcie": "5x16 ↓739M ↑96M",
        "nvlink": "18/18",
        "state": "ok",
        "owner": "code-14b engine  pid 830",
        "key": "h100-b/0",
    }


def test_what_the_driver_asks_for_is_said() -> None:
    session = fixtures.healthy()
    device = session.state.latest["gpus"]["devices"][3]
    device.update(remap="pending", recovery="reset", unaccounted=4 * fixtures.GIB)
    row = next(row for row in rows(session) if row["key"] == "h100-b/3")
    assert row["state"] == "row remap pending driver asks for reset "
    assert "4.0 GiB held by what cannot be seen" in row["owner"]


def test_several_processes_have_a_row_each_with_their_owner() -> None:
    session = fixtures.healthy()
    device = session.state.latest["gpus"]["devices"][0]
    device["procs"] += [
        {"pid": 5, "mem": 2 * fixtures.GIB, "visible": True, "run": None, "component": None},
        {"pid": 6, "mem": None, "visible": True, "run": "gone-1b", "component": "rank"},
    ]
    shown = rows(session)
    assert shown[0]["owner"] == "3 processes"
    assert [row["key"] for row in shown[1:4]] == ["h100-b/0/830", "h100-b/0/5", "h100-b/0/6"]
    assert [row["owner"] for row in shown[1:4]] == [
        "code-14b engine  pid 830",
        "pid 5 of no run",
        "gone-1b rank  pid 6",
    ]
    assert [row["mem"] for row in shown[1:4]] == ["66.4 GiB", "2.0 GiB", "–"]
    assert shown[3]["state"] == "run not known here"


def test_nothing_old_looks_new() -> None:
    made = gpu_table.rows(
        [gpu_table.now(fixtures.unreachable().state, fixtures.CLOCK)], compact=False
    )
    assert all("seen 1m ago" in text_of(row.cells["state"]) for row in made)
    roles = {
        role
        for row in made
        for name, cell in row.cells.items()
        if name != "state"
        for _, role in cell
    }
    assert roles <= {"dim", "rule", "head"}


def test_unknown_is_no_zero_and_no_gpu_says_why() -> None:
    session = fixtures.idle()
    session.state.latest["gpus"]["devices"][0].update(
        util=None, mem_used=None, power=None, temp=None, sm_clock=None, procs=[]
    )
    first = rows(session)[0]
    assert first["util"].endswith("–")
    assert (first["mem"], first["power"], first["temp"], first["clock"]) == (
        "–/80G",
        "–/700W",
        "–°C",
        "–/2619",
    )
    session.state.latest["gpus"] = {"state": "absent", "detail": "", "devices": []}
    assert rows(session)[0]["owner"] == "absent: no NVIDIA driver"
    assert rows(session, compact=True)[0]["state"] == "absent: no NVIDIA driver"


def test_compact_is_one_row_a_pod_and_hides_no_complaint() -> None:
    shown = rows(*fixtures.everything(), compact=True)
    assert len(shown) == 7
    assert shown[0]["key"] == "a100-lab/"
    assert shown[0]["util"] == "▇××▁"
    assert shown[0]["state"] == "1: throttled: hw thermal slowdown 2: Xid 79 ECC 3 "
    busy = next(row for row in shown if row["pod"] == "h100-b")
    assert busy["owner"] == "code-14b engine, code-14b rank"
    assert busy["power"] == "5.1kW"


def test_the_sum_counts_only_what_is_of_now() -> None:
    sessions = fixtures.everything()
    line = text_of(gpu_table.summary([gpu_table.now(s.state, fixtures.CLOCK) for s in sessions]))
    assert line.startswith(" gpus 30 on 5 pods   18 held by runs   busy 33%")


async def test_from_a_gpu_to_its_run_or_its_pod() -> None:
    sessions = fixtures.everything()
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, ("U", "/code-14b rank", "enter"))
        assert isinstance(app.screen, RunScreen)
        assert app.screen.run_name == "code-14b"
        await drive(pilot, sessions, ("escape", "escape", "/free", "home", "enter"))
        assert isinstance(app.screen, PodScreen)
        assert app.screen.pod.name == "a100-lab"


async def test_a_filter_counts_what_it_shows_and_a_copy_is_all_of_it() -> None:
    sessions = fixtures.everything()
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, ("U", "/Xid"))
        assert "1 of 39 rows" in text_of(app.screen.query_one("#note", Panel).lines[1])
        await drive(pilot, sessions, ("y",))
        assert "Copied 1 row." in app.messages[-1].text
        assert "Xid 79" in app._clipboard


def test_links_and_their_complaints() -> None:
    session = fixtures.healthy()
    devices = session.state.latest["gpus"]["devices"]
    good = {"gen": 5, "gen_max": 5, "width": 16, "width_max": 16, "tx": 96_400, "rx": 812_000}
    devices[0].update(pcie=good, nvlink={"active": 18, "links": 18, "errors": 0})
    devices[1].update(
        pcie={**good, "width": 8, "gen": 1}, nvlink={"active": 17, "links": 18, "errors": 2104}
    )
    devices[2].update(
        pcie=dict.fromkeys(good) | {"width": 16}, nvlink={"active": 0, "links": 12, "errors": None}
    )
    devices[3].update(pcie=None, nvlink=None)
    shown = {row["key"]: row for row in rows(session)}
    assert shown["h100-b/0"]["pcie"] == "5x16 ↓812M ↑96M"
    assert (shown["h100-b/0"]["nvlink"], shown["h100-b/0"]["state"]) == ("18/18", "ok")
    assert shown["h100-b/1"]["state"] == "PCIe x8 of x16 NVLink 17 of 18 ", (
        "a lowered generation is no complaint: an idle GPU does that"
    )
    assert shown["h100-b/1"]["nvlink"] == "17/18 2,104 err"
    assert (shown["h100-b/2"]["pcie"], shown["h100-b/2"]["nvlink"]) == ("–x16 ↓– ↑–", "0/12")
    assert shown["h100-b/2"]["state"] == "ok", (
        "cards without a bridge have no link up, and are as they were built"
    )
    assert (shown["h100-b/3"]["pcie"], shown["h100-b/3"]["nvlink"]) == ("–", "–")
    assert next(iter(shown)) == "h100-b/0"
