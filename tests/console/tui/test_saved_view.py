"""A console that is opened again stands where it was left."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from bs4_console import ui_state
from bs4_console.tui import app as apps
from bs4_console.tui.clock import Clock
from bs4_console.tui.screens.fleet import FleetScreen
from bs4_console.tui.screens.log import LogScreen
from bs4_console.tui.screens.run import RunScreen
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until
from tests.console.tui.test_terminal import Terminal, terminal  # noqa: F401 (a fixture)


@pytest.fixture(autouse=True)
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BS4_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path / "config"))


def again(*sessions: fixtures.RecordedSession) -> Any:
    app: Any = apps.configured(fixtures.fleet(*sessions))
    app.clock = fixtures.CLOCK
    return app


@pytest.mark.parametrize(
    ("keys", "screen"), [((), FleetScreen), (("enter",), RunScreen), (("l",), LogScreen)]
)
async def test_row_screen_filter_and_theme_come_back(keys: tuple[str, ...], screen: type) -> None:
    sessions = fixtures.everything()
    app = again(*sessions)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, (":theme bs4-light", "/h100", "down", "down", *keys, ":q"))
    row = app.settings.pod, app.settings.run
    assert row[1]
    assert ui_state.save(app.settings) == ""

    sessions = fixtures.everything()
    app = again(*sessions)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, ())
        await pilot.pause()
        assert isinstance(app.screen, screen)
        assert app.theme == "bs4-light"
        fleet = app.screen_stack[0]
        assert fleet.filter_text == "h100"
        assert fleet.table.cursor == row


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        (
            ("i",),
            {"pod": "h100-a", "run": "math-7b", "place": "incident", "incident": fixtures.DESYNC},
        ),
        (
            ("l", ":source trainer"),
            {"pod": "h100-a", "run": "math-7b", "place": "log", "source": "trainer"},
        ),
        ((":run code-14b",), {"pod": "h100-b", "run": "code-14b", "place": "run", "source": ""}),
        (("U",), {"place": "gpus"}),
        (("J",), {"place": "journal"}),
        (("enter", "question_mark"), {"pod": "h100-a", "run": "math-7b", "place": "run"}),
    ],
    ids=["incident", "log", "other-run", "gpus", "journal", "help-over-run"],
)
async def test_it_is_kept_while_one_works_and_comes_back(
    keys: tuple[str, ...], place: dict[str, str]
) -> None:
    """Nothing is called at the end: as after kill -9."""
    sessions = fixtures.everything()
    app, now = again(*sessions), [0.0]
    app.clock = Clock(wall=lambda: fixtures.NOW + now[0], mono=lambda: fixtures.MONO + now[0])

    def kept() -> dict[str, Any]:
        now[0] += 0.5
        app.tick()
        try:
            return dict(json.loads(ui_state.path().read_text()))
        except FileNotFoundError:
            return {}

    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, keys)
        await until(pilot, lambda: place.items() <= kept().items())
        written = ui_state.path().stat().st_mtime_ns
        for _ in range(5):
            kept()
            await until(pilot, lambda: not app.kept.busy)
        assert ui_state.path().stat().st_mtime_ns == written, (
            "what did not change is not written again"
        )
    sessions = fixtures.everything()
    app = again(*sessions)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, ())
        assert app.screen.place == place["place"]
        if place.get("pod"):
            subject = app.screen.subject()
            assert (subject.pod.name, subject.run.name) == (place["pod"], place["run"])
        assert getattr(app.screen, "incident_id", "") == place.get("incident", "")


async def test_a_disk_that_takes_nothing_is_told_once() -> None:
    app, now = again(fixtures.healthy()), [0.0]
    app.clock = Clock(wall=lambda: fixtures.NOW + now[0], mono=lambda: fixtures.MONO + now[0])
    app.kept._save = lambda mine, before: "it cannot be written"

    def told() -> int:
        now[0] += 1.0
        app.tick()
        return sum("cannot be written" in said.text for said in app.messages)

    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [], ())
        await until(pilot, lambda: told() == 1)
        for _ in range(5):
            await until(pilot, lambda: not app.kept.busy)
            assert told() == 1


def test_after_kill_9_it_opens_where_it_was(terminal: Terminal, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "program.py").write_text(
        "import os, pathlib, sys\nfrom bs4_console.tui import app\nfrom tests.console.tui import "
        "fixtures\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "sys.exit(app.run(fixtures.fleet(*fixtures.everything())))\n"
    )
    root = Path(__file__).resolve().parents[3]
    command = (
        f"cd {root} && {sys.executable} {tmp_path / 'program.py'}; echo left with $?; stty sane"
    )
    terminal.type(command)
    terminal.press("Enter")
    terminal.until(lambda text: "h100-a" in text and "WHAT'S WRONG" in text)
    terminal.type("i")
    terminal.until(lambda text: "EVIDENCE" in text)
    file = tmp_path / "state" / "screen.json"
    terminal.until(lambda text: file.exists() and '"place": "incident"' in file.read_text())
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    terminal.until(lambda text: "left with 137" in text)
    terminal._tmux("send-keys", "-R", "-t", "t")
    terminal.type(command)
    terminal.press("Enter")
    terminal.until(lambda text: "EVIDENCE" in text)
    terminal.type(":q\r")


async def test_who_has_begun_already_is_not_carried_off() -> None:
    session = fixtures.healthy()
    runs, session.state.runs = session.state.runs, {}
    ui_state.save(ui_state.Settings(pod="h100-b", run="code-14b", place="run"))
    app = again(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [], ("m", "escape"))
        session.state.runs = runs
        session.state.changed()
        app.tick()
        await drive(pilot, [], ())
        assert isinstance(app.screen, FleetScreen)


async def test_a_pod_that_comes_too_late_is_not_waited_for() -> None:
    now = [0.0]
    session = fixtures.healthy()
    runs, session.state.runs = session.state.runs, {}
    ui_state.save(ui_state.Settings(pod="h100-b", run="code-14b", place="run"))
    app = again(session)
    app.clock = Clock(wall=lambda: fixtures.NOW + now[0], mono=lambda: fixtures.MONO + now[0])
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [], ())
        now[0] = 60.0
        session.state.runs = runs
        app.tick()
        await drive(pilot, [], ())
        assert isinstance(app.screen, FleetScreen)


async def test_a_damaged_file_is_told_and_the_screen_opens() -> None:
    ui_state.path().parent.mkdir(parents=True)
    ui_state.path().write_text("{")
    app = again(fixtures.idle())
    async with app.run_test() as pilot:
        await drive(pilot, [], ())
        assert "is damaged" in app.messages[0].text


async def test_pins_bring_back_row_run_log_and_incident() -> None:
    sessions = [fixtures.desync()]
    app = again(*sessions)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, ("P", "enter", "P", ":logs trainer", "P", ":fleet", "i", "P"))
        assert [pin.get("place") for pin in app.settings.pins] == [
            "fleet",
            "run",
            "log",
            "incident",
        ]
        await drive(pilot, sessions, ("3",))
        assert (app.screen.place, app.screen.pane.source) == ("log", "trainer")
        await drive(pilot, sessions, ("4",))
        assert (app.screen.place, app.screen.incident_id) == ("incident", fixtures.DESYNC)
        await drive(pilot, sessions, ("2",))
        assert (app.screen.place, app.screen.run_name) == ("run", "math-7b")
        await drive(pilot, sessions, ("P",))
        assert app.settings.pins[1] == {}
        await drive(pilot, sessions, ("2",))
        assert "Nothing is pinned as 2" in app.messages[-1].text
        await drive(pilot, sessions, (":jump ", "enter"))
        assert "1 h100-a/math-7b fleet" in app.messages[-1].text
    ui_state.save(app.settings)
    app = again(*sessions)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, ("4",))
        assert app.screen.place == "incident"


async def test_a_pin_to_what_is_gone_is_said() -> None:
    app = again(fixtures.idle())
    app.settings.pins = [{"pod": "away", "run": "x", "place": "run"}, {"odd": "y"}]
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [], ("1", "2"))
        assert all("is not there any more" in said.text for said in app.messages)
        assert len(app.messages) == 2
        assert app.is_running


async def test_over_a_link_of_its_own_news_wait_for_the_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")
    now = [0.0]
    session = fixtures.healthy()
    app = again(session)
    app.clock = Clock(wall=lambda: fixtures.NOW + now[0], mono=lambda: fixtures.MONO + now[0])
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ())
        drawn: list[int] = []
        monkeypatch.setattr(app.screen, "draw", lambda: drawn.append(1))
        for _ in range(3):
            session.state.changed()
            app.tick()
        assert drawn == []
        now[0] = 1.0
        app.tick()
        assert drawn == [1]


@pytest.mark.parametrize(
    ("forced", "link", "answer"),
    [("", "", False), ("", "x", True), ("0", "x", False), ("1", "", True)],
)
def test_remote_mode_can_be_forced(
    monkeypatch: pytest.MonkeyPatch, forced: str, link: str, answer: bool
) -> None:
    from bs4_console.tui.remote import remote

    for name, value in (("BS4_REMOTE", forced), ("SSH_CONNECTION", link), ("SSH_TTY", "")):
        monkeypatch.delenv(name, raising=False)
        if value:
            monkeypatch.setenv(name, value)
    assert remote() is answer
