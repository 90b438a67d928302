"""One time cursor over curves, GPUs, host and logs."""

from __future__ import annotations

from typing import Any

from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.ink import text_of
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until


def panel(app: Any, name: str) -> str:
    return "\n".join(text_of(line) for line in app.screen.query_one(name, Panel).lines)


async def test_everything_shows_the_same_moment() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        run = session.state.runs["code-14b"]
        now = panel(app, "#curves")
        await drive(pilot, [session], (":at 180", "~log"))
        reward = next(row["reward"] for row in run.orchestrator_steps if row["step"] == 180)
        assert f"reward {reward:.4f}" in panel(app, "#curves")
        assert f"reward {reward:.4f}" not in now
        assert "step 180 at 03:10:55" in panel(app, "#alarm")
        assert "12%" in panel(app, "#gpus")
        assert "at 03:10:55" in panel(app, "#gpus")
        view = app.screen.pane.view
        line = view.store.line(view.spot)[1]
        assert line.startswith(b"03:10:55")
        assert not view.following
        assert "Step 180" in view.visible_text()


async def test_a_moment_without_a_sample_says_so() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", ":at 20"))
        assert "no sample of that moment is kept here" in panel(app, "#gpus")


async def test_back_to_now() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        for way in ("t", "escape"):
            await drive(pilot, [session], (":run code-14b", ":at 180", "~log", way))
            assert app.screen.moment is None
            await until(pilot, lambda: app.screen.pane.view.following and app.screen.pane._moment is None)
            assert "97%" in panel(app, "#gpus")


async def test_the_ends_hold_and_nonsense_is_said() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", ":later 50"))
        assert app.screen.moment == 187
        await drive(pilot, [session], (":earlier 1000",))
        assert app.screen.moment == 1
        await drive(pilot, [session], (":at 9999",))
        assert app.screen.moment == 187
        await drive(pilot, [session], (":at noon",))
        assert "'noon' is no step" in app.messages[-1].text
        assert app.screen.moment == 187


async def test_a_run_without_steps_has_no_moments() -> None:
    session = fixtures.healthy()
    session.state.runs["code-14b"].trainer_steps.clear()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", "t"))
        assert app.screen.moment is None
        assert "No step is done yet" in app.messages[-1].text


async def test_the_question_shows_its_time_running_out() -> None:
    """A dialog is kept up to date, and so is the screen behind it."""
    from bs4_console.tui.clock import Clock

    passed = [0.0]
    clock = Clock(wall=lambda: fixtures.NOW + passed[0], mono=lambda: fixtures.MONO + passed[0])
    session = fixtures.planned()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=clock)
    async with app.run_test(size=(120, 45)) as pilot:
        await drive(pilot, [session], ("i", "r"))
        assert "expires in 13m26s" in panel(app, "#question")
        passed[0] = 60.0
        app.tick()
        assert "expires in 12m26s" in panel(app, "#question")
        behind = app.screen_stack[-2].query_one("#page", Panel)
        assert "expires in 12m26s" in "\n".join(text_of(line) for line in behind.lines)
