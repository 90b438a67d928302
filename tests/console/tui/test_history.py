"""Telemetry that is no longer in memory: read from what is kept, in a thread, for the cursor and
for the curves.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from bs4_console.pods.history import History
from bs4_console.pods.mirror import Mirror
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until


def panel(app: Any, name: str) -> str:
    return "\n".join(text_of(line) for line in app.screen.query_one(name, Panel).lines)


@pytest.fixture
def session(tmp_path: Path) -> fixtures.RecordedSession:
    """The healthy pod, with the last hour of its telemetry kept on this machine: a sample every two
    seconds, GPU 0 at 40 %.
    """
    made = fixtures.healthy()
    made.mirror = Mirror(tmp_path / "m")
    made.mirror.use("home1")
    for number in range(9):
        lines = []
        for i in range(200):
            t = fixtures.NOW - 3600 + number * 400 + i * 2
            devices = [fixtures.gpu(0, 40 + number, 30.0, "code-14b", "engine", 830)]
            host = {
                "cpu": 11.0 + number,
                "cores": 96,
                "mem_used": 1,
                "mem_total": 4,
                "shm_used": 1,
                "shm_total": 4,
                "disks": [],
            }
            lines.append(
                json.dumps(
                    {"t": t, "gpus": {"state": "ok", "devices": devices, "xids": []}, "host": host},
                    separators=(",", ":"),
                )
            )
        made.mirror.keep("telemetry", f"{number + 1}:0", ("\n".join(lines) + "\n").encode())
    return made


async def test_the_cursor_goes_beyond_what_is_in_memory(session: fixtures.RecordedSession) -> None:
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", ":time 02:20"))
        await until(pilot, lambda: "41%" in panel(app, "#gpus"))
        assert "at 02:20:01" in panel(app, "#gpus")
        assert "cpu 12%" in panel(app, "#host")
        await drive(pilot, [session], (":time 03:08", "U"))
        await until(pilot, lambda: "48%" in app.screen.table.rows[0].text)
        await drive(pilot, [session], (":time 01:00",))
        await until(pilot, lambda: "no sample of then is kept" in app.screen.table.rows[0].text)


async def test_the_curves_of_the_machine_reach_back(session: fixtures.RecordedSession) -> None:
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", "c", ":curves cpu"))
        await until(pilot, lambda: not app.time.reading)
        await drive(pilot, [session], (":at 60",))
        await until(pilot, lambda: "CPU % 15 " in panel(app, "#curves"))
        await drive(pilot, [session], (":curves gpu %",))
        assert "GPU % 44 " in panel(app, "#curves")


async def test_a_slow_disk_holds_up_nothing_and_only_the_last_place_counts(
    session: fixtures.RecordedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    go = threading.Event()
    near = History.near

    def slow(self: History, t: float) -> Any:
        asked.append(t)
        go.wait(300)
        return near(self, t)

    monkeypatch.setattr(History, "near", slow)
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        try:
            await drive(pilot, [session], ("enter", ":at 60"))
            await until(pilot, lambda: len(asked) == 1)
            assert "reading what was kept of that moment" in panel(app, "#gpus")
            await pilot.press(*("comma",) * 5)
            await until(pilot, lambda: app.screen.moment == 55)
            assert "reading what was kept of that moment" in panel(app, "#gpus"), (
                "the keys are not held up"
            )
        finally:
            go.set()
        await until(pilot, lambda: "%" in panel(app, "#gpus") and not app.time.reading)
    assert len(asked) == 2, "the places in between are not read"
