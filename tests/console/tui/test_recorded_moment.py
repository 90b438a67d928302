"""The recorded incident is opened and moved through with the time cursor: curves, GPUs, host and
log show each moment of it.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from bs4_console.fleet.watched import Fleet
from bs4_console.logs.text import clean, clock_of
from bs4_console.pods.recorded import RecordedSession
from bs4_console.tui import formatting
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.clock import Clock
from bs4_console.tui.screens.incident import IncidentScreen
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.widgets.panel import Panel
from bs4_practice import recording
from tests.console.tui.driving import drive, until

#: Keys in the opened run, and the step that is under the cursor after each.
WAY = ((":at 12", 12), ("comma", 11), (":earlier 6", 5), ("full_stop", 6), (":later 99", 32))


def panel(app: Any, name: str) -> str:
    return "\n".join(text_of(line) for line in app.screen.query_one(name, Panel).lines)


async def test_every_moment_of_the_incident_is_one_moment() -> None:
    session: Any = RecordedSession(
        recording.NAME, recording.directory(), "This system has no practice pods."
    )
    now = time.time()
    app: Any = ConsoleApp(Fleet([session]), read_only=True, clock=Clock(wall=lambda: now))
    async with app.run_test(size=(140, 44)) as pilot:
        await until(pilot, lambda: session.state.link.state == "recorded")
        run = session.state.runs["practice"]
        now = run.trainer_steps[-1]["log_t"]  # on another day the day is told too
        await drive(pilot, [], ("enter",))
        (incident,) = session.state.ledger.open_incidents()
        for key, step in WAY:
            await drive(pilot, [], (key,))
            row = next(row for row in run.trainer_steps if row["step"] == step)
            reward = next(row["reward"] for row in run.orchestrator_steps if row["step"] == step)
            at = time.strftime("%H:%M:%S", time.gmtime(row["log_t"]))
            assert app.screen.moment == step
            assert f"step {step} at {at}" in panel(app, "#alarm")
            before = formatting.duration(incident.opened_t - app.time.of(session.state))
            assert f"{before} later: {incident.title}" in panel(app, "#alarm"), (
                "what will be is said, and how far away it is"
            )
            assert "✖" not in panel(app, "#alarm"), "nothing is wrong yet"
            assert f"reward {reward:.4f}" in panel(app, "#curves")
            t = app.time.of(session.state)
            assert int(t) == row["log_t"], (
                "several steps of one second lie one behind the other in it"
            )
            sample = min(session.state.telemetry, key=lambda record: abs(record["t"] - t))
            assert f"at {time.strftime('%H:%M:%S', time.gmtime(sample['t']))}" in panel(
                app, "#gpus"
            )
            view = app.screen.pane.view
            moment = float(row["log_t"])
            await until(
                pilot,
                lambda moment=moment: (
                    app.screen.pane._moment == moment and app.screen.pane._feed.loaded
                ),
            )
            await until(pilot, lambda: view.spot is not None and not view.following)  # noqa: B023
            assert f"Step {step} | Time" in view.visible_text()
            assert (
                abs((clock_of(clean(view.store.line(view.spot)[1])) or 0.0) - row["log_t"] % 86400)
                <= 2.0
            )
        await drive(pilot, [], ("c",))
        assert "steps 0 … 32" in panel(app, "#curves")
        await drive(pilot, [], ("escape", "escape"))
        assert app.screen.moment is None
        assert not app.screen.curves_large
        await until(pilot, lambda: app.screen.pane.view.following)
        await drive(pilot, [], ("i",))
        assert isinstance(app.screen, IncidentScreen)
        # From its page to its beginning, and one step back to before it: all of the screen follows.
        await drive(pilot, [], ("t",))
        assert app.screen.place == "run"
        assert app.time.of(session.state) == pytest.approx(incident.opened_t)
        assert f"✖  {incident.title}  then for 0s" in panel(app, "#alarm")
        pane = app.screen.pane
        await until(
            pilot,
            lambda: pane._moment is not None and pane._feed.loaded and not pane.view.following,
        )
        assert f"Step {WAY[-1][1]} | Time" in pane.view.visible_text(), (
            "the last that was written before"
        )
        held = pane._moment
        await drive(pilot, [], ("comma",))
        assert app.screen.moment == WAY[-1][1]
        assert "✖" not in panel(app, "#alarm")
        assert f"later: {incident.title}" in panel(app, "#alarm")
        await until(
            pilot,
            lambda: (
                pane._moment < held
                and pane._feed.loaded
                and f"Step {WAY[-1][1]} | Time" in pane.view.visible_text()
            ),
        )


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_the_moment_before_it_went_wrong_is_readable_at_every_size(
    size: tuple[int, int],
) -> None:
    session: Any = RecordedSession(
        recording.NAME, recording.directory(), "This system has no practice pods."
    )
    app: Any = ConsoleApp(Fleet([session]), read_only=True)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: session.state.link.state == "recorded")
        await drive(pilot, [], ("enter", ":at 32", "c"))
        assert "step 32 at " in panel(app, "#alarm")
        assert (
            len(app.screen.query_one("#curves", Panel).lines)
            + len(app.screen.query_one("#alarm", Panel).lines)
            + 4
            == size[1]
        )


async def test_in_a_recording_now_is_its_end() -> None:
    session: Any = RecordedSession(
        recording.NAME, recording.directory(), "This system has no practice pods."
    )
    app: Any = ConsoleApp(Fleet([session]), read_only=True)
    async with app.run_test(size=(140, 44)) as pilot:
        await until(pilot, lambda: session.state.link.state == "recorded")
        await drive(pilot, [], ("enter", ":time -10s"))
        end = session.state.latest["t"]
        assert app.time.of(session.state) == end - 10
        await drive(pilot, [], (f":time {time.strftime('%H:%M:%S', time.gmtime(end - 20))}", "U"))
        assert app.time.of(session.state) == int(end - 20), (
            "a time of day is that of the recording's last day"
        )
        assert "practice" in app.screen.table.rows[0].text
        assert time.strftime("%H:%M:%S", time.gmtime(end - 20)) in panel(app, "#note")
