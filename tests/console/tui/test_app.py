"""The app as a whole: repainting, faults, keys, colours, first contact."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from textual.color import Color
from textual.screen import Screen
from textual.widgets._toast import Toast

from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.clock import Clock
from bs4_console.tui.screens.fleet import FleetScreen
from bs4_console.tui.screens.host_key import HostKeyScreen
from bs4_console.tui.screens.incident import IncidentScreen
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.widgets.bars import KeyBar, NewsLine
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.widgets.table import RowTable
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, settle, until


def open_app(*sessions: fixtures.RecordedSession, **more: Any) -> ConsoleApp:
    return ConsoleApp(fixtures.fleet(*sessions), **{"clock": fixtures.CLOCK, **more})


async def test_a_screen_where_nothing_happens_paints_nothing() -> None:
    app = open_app(*fixtures.everything())
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        painted: list[Any] = []
        for widget in app.screen.query("*"):
            widget.refresh = lambda *regions, **_: painted.append(regions)  # type: ignore[method-assign,assignment]
        for _ in range(5):
            app._dirty = True
            app.tick()
        assert painted == []


async def test_keys_typed_ahead_do_not_keep_the_pods_from_being_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They open other screens before the first is painted: what was to come after its paint waited
    until somebody went back to it.
    """
    app = open_app(*fixtures.everything())
    started: list[bool] = []
    monkeypatch.setattr(app.fleet, "start", lambda: started.append(True))
    later = Screen._invoke_later

    def of_screens_that_are_painted(screen: Screen[Any], callback: Any, sender: Any) -> None:
        if callback.func is not app.fleet.start:
            later(screen, callback, sender)

    monkeypatch.setattr(Screen, "_invoke_later", of_screens_that_are_painted)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: bool(started))


async def test_only_the_row_that_changed_is_painted() -> None:
    sessions = fixtures.everything()
    app = open_app(*sessions)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        table = app.screen.table  # type: ignore[attr-defined]
        painted: list[Any] = []
        table.refresh = lambda *regions, **_: painted.append(regions)
        fixtures.steps(sessions[0].state, "code-14b", 188, 188, 14.2, last_ago=1)
        sessions[0].state.changed()
        app.tick()
        row = next(i for i, row in enumerate(table.rows) if row.key == ("h100-b", "code-14b"))
        assert [region.y for (region,) in painted] == [row + 1]


async def test_a_hundred_changes_are_one_repaint() -> None:
    sessions = fixtures.everything()
    app = open_app(*sessions)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        drawn = []
        app.screen.draw = lambda: drawn.append(1)  # type: ignore[attr-defined]
        for _ in range(100):
            sessions[0].state.changed()
        assert drawn == []
        app.tick()
        assert drawn == [1]


async def test_a_fault_of_a_worker_is_a_message_and_not_the_end() -> None:
    app = open_app(fixtures.idle())

    async def broken() -> None:
        raise ValueError("unforeseen")

    async with app.run_test() as pilot:
        app.spawn("something", broken())
        await until(pilot, lambda: bool(app.messages))
        assert app.is_running
        assert "something: ValueError: unforeseen" in app.messages[-1].text
        assert re.search(r"test_app\.py:\d+", app.messages[-1].text)
        await drive(pilot, [], ("m",))
        assert "unforeseen" in "\n".join(
            text_of(line) for line in app.screen.query_one("#text", Panel).lines
        )


async def test_a_toast_covers_no_message_above_the_key_bar() -> None:
    session = fixtures.healthy()
    app = open_app(session)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        app.say("It could not be done. " * 9, severity="error")
        app.say("Say how many checkpoints stay. " * 6, severity="warning")
        await settle(pilot)
        news = app.screen.query_one(NewsLine).region
        toasts = [toast.region for toast in app.screen.query(Toast)]
        assert toasts
        assert news.height == 2
        assert all(toast.bottom <= news.y for toast in toasts)


async def test_a_fault_in_a_log_feed_is_a_message() -> None:
    session = fixtures.healthy()
    app = open_app(session)

    async def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("the store is broken")

    session.query = broken  # type: ignore[method-assign]
    async with app.run_test() as pilot:
        await settle(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.messages))
        app.tick()
        assert "ended with a fault, m tells it" in text_of(
            app.screen.query_one("LogPane > Panel", Panel).lines[0]
        )
        assert "the store is broken" in app.messages[-1].text
        assert app.is_running


@pytest.mark.parametrize("keymap", [{"incident": "w"}, {"incident": "ctrl+e,w"}])
async def test_rebound_keys_work_and_are_shown(keymap: dict[str, str]) -> None:
    app = open_app(fixtures.desync(), keymap=keymap)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        bar = text_of(app.screen.query_one(KeyBar).lines[0])
        assert f"{keymap['incident'].split(',')[0]} incident" in bar
        assert f"{keymap['incident'].split(',')[0]} evidence and fix" in text_of(
            app.screen.query_one("#detail", Panel).lines[0]
        )
        await pilot.press("i")
        await settle(pilot)
        assert isinstance(app.screen, FleetScreen)
        await pilot.press("w")
        await settle(pilot)
        assert isinstance(app.screen, IncidentScreen)


async def test_first_contact_is_asked_once_per_pod() -> None:
    session = fixtures.first_contact()
    app = open_app(session)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, HostKeyScreen))
        await settle(pilot)
        shown = "\n".join(text_of(line) for line in app.screen.query_one(Panel).lines)
        assert "SHA256:mVPwvezndPv/ARoIadVY98vAC0g+P/5633yTC4d/wXE" in shown
        assert "bs4-console pods test spot-9" in shown
        await pilot.press("R")
        await settle(pilot)
        assert session.retried == 1
        app._dirty = True
        app.tick()
        await settle(pilot)
        assert isinstance(app.screen, FleetScreen)
        await drive(pilot, [], ("enter",))
        assert isinstance(app.screen, HostKeyScreen), "Enter on its row asks again"


async def test_without_colour_no_colour_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = open_app(*fixtures.everything())
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        panel = app.screen.query_one("#detail", Panel)
        assert panel.size.height > 3
        for y in range(panel.size.height):
            segments = list(panel.render_line(y))
            for line_filter in app.get_line_filters():
                segments = line_filter.apply(segments, Color(0, 0, 0))
            for segment in segments:
                if segment.style is not None:
                    assert segment.style.color is None or segment.style.color.is_default
                    assert segment.style.bgcolor is None or segment.style.bgcolor.is_default


async def test_states_differ_without_colour() -> None:
    app = open_app(*fixtures.everything())
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        states = [text_of(row.cells["state"]) for row in app.screen.table.rows]  # type: ignore[attr-defined]
        assert len(set(states)) == len(states)
        assert all(len(state.split(" ", 1)) == 2 for state in states), "a sign and a word each"


async def test_the_first_row_is_what_needs_a_person_first() -> None:
    app = open_app(*fixtures.everything())
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        ranks = [row.rank for row in app.screen.table.rows]  # type: ignore[attr-defined]
        assert ranks == sorted(ranks, reverse=True)


async def test_the_cursor_stays_on_its_run_when_rows_move() -> None:
    calm, bad = fixtures.healthy(), fixtures.desync(incident=False)
    app = open_app(calm, bad)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        table = app.screen.table  # type: ignore[attr-defined]
        table.cursor = ("h100-b", "code-14b")
        calm_before = table.index
        fixtures.journal(
            calm.state,
            "incident",
            1,
            event="opened",
            incident="x",
            failure="vllm-silent-death",
            run="code-14b",
            attempt=1,
            title="Inference is gone",
        )
        calm.state.changed()
        app.tick()
        assert table.cursor == ("h100-b", "code-14b")
        assert (calm_before, table.index) == (1, 0)


async def test_clicking_a_key_in_the_bar_is_pressing_it() -> None:
    app = open_app(fixtures.desync())
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        bar = text_of(app.screen.query_one(KeyBar).lines[0])
        await pilot.click(KeyBar, offset=(bar.index("incident"), 0))
        await settle(pilot)
        assert isinstance(app.screen, IncidentScreen)


async def test_clicking_and_double_clicking_a_row() -> None:
    """The first two rows have a second line, so that the third begins at the fifth line. Its own
    second line belongs to it.
    """
    app = open_app(*fixtures.everything())
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.click("RowTable", offset=(5, 6))
        await settle(pilot)
        assert app.screen.table.index == 2  # type: ignore[attr-defined]
        await pilot.click("RowTable", offset=(5, 5), times=2)
        await settle(pilot)
        assert app.screen.place == "run"  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [(60, 12), (24, 5), (400, 120)])
async def test_every_screen_survives_every_size(size: tuple[int, int]) -> None:
    sessions = fixtures.everything()
    app = open_app(*sessions)
    async with app.run_test(size=size) as pilot:
        for key in ("enter", "i", "escape", "l", "question_mark", "J", "escape", "m"):
            await drive(pilot, sessions, (key,))
        assert app.is_running


async def test_resizing_keeps_the_place() -> None:
    sessions = fixtures.everything()
    app = open_app(*sessions)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, ("down", "down"))
        before = app.screen.table.cursor  # type: ignore[attr-defined]
        await pilot.resize_terminal(70, 12)
        await settle(pilot)
        assert app.screen.table.cursor == before  # type: ignore[attr-defined]


async def test_ages_grow_without_news() -> None:
    now = [0.0]
    clock = Clock(wall=lambda: fixtures.NOW + now[0], mono=lambda: fixtures.MONO + now[0])
    app = open_app(fixtures.healthy(), clock=clock)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        table = app.screen.query_one(RowTable)
        assert text_of(table.rows[0].cells["age"]) == "now"
        now[0] = 200.0
        app.tick()
        assert text_of(table.rows[0].cells["age"]) == "3m old"
        assert "telemetry is 3m20s old" in text_of(table.rows[0].cells["wrong"])


def test_several_hundred_pods_are_drawn_within_a_blink() -> None:
    """CPU time of one redraw of 300 runs, of which 30 are visible; measured 40 ms."""
    import time

    from bs4_console.tui.views import fleet as view

    pods = []
    for i in range(300):
        pod = fixtures.connected(f"pod-{i:03}", "root@192.0.2.1:22")
        fixtures.start_run(pod, "math", "prime-rl", 500, 3_000)
        fixtures.steps(pod, "math", 1, 30, 14.2, last_ago=6)
        fixtures.telemetry(pod, devices=[fixtures.gpu(0, 90, 60, "math", "engine", 12)], runs=[])
        pods.append(pod)
    begin = time.process_time()
    rows = view.rows(pods, fixtures.CLOCK)
    assert time.process_time() - begin < 0.5
    assert len(rows) == 300


def test_opening_the_screen_imports_nothing_that_it_does_not_need() -> None:
    """Measured against a minimal Textual app: +35 ms. Each of these would add 20 to 200 ms to every
    start.
    """
    heavy = [
        "asyncssh",
        "yaml",
        "jsonschema",
        "tomlkit",
        "tomllib",
        "psutil",
        "bs4_console.cli",
        "bs4_console.tui.screens.incident",
    ]
    code = f"import sys, bs4_console.tui.app; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


EVIL = "\x1b]52;c;cm0=\x07\x1b[2J\r\n\x9b31m\u202e"


async def test_a_hostile_pod_reaches_no_terminal() -> None:
    """Every word that a pod can choose carries control characters; no screen draws one."""
    session = fixtures.desync()
    pod = session.state
    for incident in pod.ledger.incidents.values():
        incident.title = incident.summary = incident.failure = f"a{EVIL}b"
        incident.evidence = [{"source": EVIL, "file": EVIL, "text": EVIL, "line": 3}]
        incident.coverage = [EVIL]
        incident.playbook = f"../../{EVIL}"
    for device in pod.latest["gpus"]["devices"]:
        device["procs"] = [{"pid": EVIL, "run": EVIL, "component": EVIL}]
    pod.hello["agent"] = EVIL
    app = open_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        for key in ("enter", "i", "s", "m"):
            await drive(pilot, [session], (key,))
            for widget in app.screen.query(Panel):
                for y in range(widget.size.height):
                    text = widget.render_line(y).text
                    assert not [
                        c for c in text if ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F or c == "\u202e"
                    ]
        assert not [said for said in app.messages if said.severity == "error"]


@pytest.mark.parametrize(
    "odd",
    [
        {"gpus": 5},
        {"gpus": {"state": "ok", "devices": [{"index": "x", "util": "many", "mem_used": []}]}},
        {"host": {"disks": [{"used": "a", "total": "b"}]}},
        {"gpus": {"state": "ok", "devices": [None]}},
    ],
)
async def test_a_pod_that_sends_nonsense_does_not_end_the_console(odd: dict[str, Any]) -> None:
    broken, healthy = fixtures.desync(), fixtures.healthy()
    broken.state.latest.update(odd)
    app = open_app(broken, healthy)
    async with app.run_test(size=(160, 40)) as pilot:
        await settle(pilot)
        table = app.screen.table  # type: ignore[attr-defined]
        assert {row.key[0] for row in table.rows} == {"h100-a", "h100-b"}
        await drive(pilot, [], (":pod h100-a", "enter", "escape"))
        assert app.is_running


async def test_ordinary_scenes_draw_without_a_fault() -> None:
    """The guard against odd records must not hide faults of our own."""
    for scene in (
        "everything",
        "planned",
        "acting",
        "recovered",
        "failed_fix",
        "two_incidents",
        "first_contact",
        "nothing",
    ):
        made = getattr(fixtures, scene)()
        sessions = made if isinstance(made, list) else [made]
        app = open_app(*sessions)
        async with app.run_test(size=(100, 30)) as pilot:
            await drive(pilot, sessions, ("enter", "escape"))
            assert not [said for said in app.messages if said.severity == "error"]
            rows = getattr(app.screen, "table", None) and app.screen.table.rows  # type: ignore[attr-defined]
            assert not [row for row in rows or [] if "unreadable" in row.text]


@pytest.mark.parametrize(
    ("key", "says"), [("question_mark", "ON THIS SCREEN"), ("l", "following"), ("U", "MEMORY")]
)
async def test_a_screen_that_opens_is_painted_with_what_it_shows_and_not_empty_before(
    key: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted: list[tuple[str, str]] = []
    display = ConsoleApp._display

    def seen(self: ConsoleApp, screen: Any, update: Any) -> None:
        if update is not None:
            painted.append((type(screen).__name__, update.render_segments(self.console)))
        display(self, screen, update)

    monkeypatch.setattr(ConsoleApp, "_display", seen)
    session = fixtures.healthy()
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        assert "code-14b" in painted[0][1], "the first paint of all"
        await settle(pilot)
        await pilot.press(key)
        await settle(pilot)
        name = type(app.screen).__name__
        assert name != "FleetScreen"
        first = next(text for screen, text in painted if screen == name)
        assert says in first
