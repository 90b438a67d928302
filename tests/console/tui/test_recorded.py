"""The recorded incident of `demo --recorded`, from the fleet to its plan and its log, on the
screens of live pods.
"""

from __future__ import annotations

from bs4_console.fleet.watched import Fleet
from bs4_console.pods.recorded import RecordedSession
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens.incident import IncidentScreen
from bs4_console.tui.screens.log import LogScreen
from bs4_console.tui.screens.run import RunScreen
from bs4_practice import recording
from tests.console.tui.driving import settle, until


def seen(app: ConsoleApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def test_from_the_fleet_to_the_evidence_and_never_an_action() -> None:
    session = RecordedSession(
        recording.NAME, recording.directory(), "This system has no practice pods."
    )
    app = ConsoleApp(Fleet([session]), read_only=True)
    async with app.run_test(size=(140, 44)) as pilot:
        await until(pilot, lambda: session.state.link.state == "recorded")
        await settle(pilot)
        assert "✖ critical" in seen(app)
        assert "recorded 20" in seen(app)
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(app.screen, RunScreen)
        text = seen(app)
        assert "not live. This system has no practice pods." in text
        assert "reconnect" not in text.splitlines()[3]
        assert "SUCCESS Step" in text
        assert "41/80G" in text
        await pilot.press("i")
        await settle(pilot)
        assert isinstance(app.screen, IncidentScreen)
        text = seen(app)
        assert "PLAN vllm-silent-death" in text
        assert "read-only" in text
        actions = len(session.state.ledger.actions)
        await pilot.press("r", "p", "R")
        await settle(pilot)
        assert len(session.state.ledger.actions) == actions
        await pilot.press("escape", "l")
        await settle(pilot)
        assert isinstance(app.screen, LogScreen)
        assert "following" in seen(app)
