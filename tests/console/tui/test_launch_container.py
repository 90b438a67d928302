"""The container of a launch on the screen: a field of the form, and the one that the run was in
when it is started again.
"""

from __future__ import annotations

import pytest

from bs4_console.launch import guide
from bs4_console.launch.guide import LaunchRequest, Looked
from bs4_console.pods.session import PodSession
from bs4_console.preflight.examine import Preflight
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens.launch import LaunchScreen
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until
from tests.console.tui.test_launch import of, planned, shown


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[LaunchRequest]:
    """What the look before the start was asked about."""
    asked: list[LaunchRequest] = []

    async def look(live: PodSession, what: LaunchRequest) -> Looked:
        asked.append(what)
        return Looked(Preflight(()))

    monkeypatch.setattr(guide, "prepare", look)
    monkeypatch.setattr(guide, "price_of", lambda pod: None)
    return asked


async def test_the_container_that_is_named_is_looked_into_and_started_in(
    looked: list[LaunchRequest],
) -> None:
    session = fixtures.desync()
    planned(session)
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], (":launch configs/new.toml fresh-1",))
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        assert "in container" in shown(app)
        screen.query_one("#container").value = " trainer "  # type: ignore[attr-defined]
        assert screen.query_one("#answer").region.bottom < 24, (
            "the form still fits the smallest terminal"
        )
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: screen.plan is not None)
        assert [what.container for what in looked] == ["trainer"]
        assert of(session, "plan")[0]["launch"]["container"] == "trainer"


async def test_a_run_that_is_started_again_goes_back_into_its_container(
    looked: list[LaunchRequest],
) -> None:
    session = fixtures.desync()
    planned(session)
    (run,) = session.state.runs.values()
    assert run.view.attempt is not None
    before = run.view.attempt
    journalled = {
        "attempt": before.number,
        "started_t": before.started_t,
        "overrides": [],
        "container": "trainer",
    }
    fixtures.journal(session.state, "run", 0, run=run.name, event="attempt-started", **journalled)
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], ("enter", "W"))
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        assert screen.asked().container == "trainer"
        assert screen.asked().run == run.name
