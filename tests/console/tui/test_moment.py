"""One time cursor over curves, GPUs, host and logs."""

from __future__ import annotations

from typing import Any

from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.widgets.moment_commands import step_times
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


async def test_the_prompt_for_a_time_says_what_can_be_typed() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        app.screen.do_time("")
        await until(pilot, lambda: "the number of a step" in panel(app, "#offers"))


async def test_back_to_now() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        for way in ("t", "escape"):
            await drive(pilot, [session], (":run code-14b", ":at 180", "~log", way))
            assert app.screen.moment is None
            await until(
                pilot, lambda: app.screen.pane.view.following and app.screen.pane._moment is None
            )
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
        assert "'noon' is no moment; write 187 (a step), 14:32" in app.messages[-1].text
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


def shown(app: Any) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def test_a_time_between_steps_and_back_by_words() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", ":time 03:11:00", "~log"))
        assert app.screen.moment == 180
        assert "03:11:00, after step 180, 1m41s ago" in panel(app, "#alarm")
        assert "◷ 03:11:00" in shown(app).splitlines()[0]
        await drive(pilot, [session], ("comma",))
        assert "step 180 at 03:10:55" in panel(app, "#alarm"), (
            "back from between two steps is the one before"
        )
        await drive(pilot, [session], (":time 03:11:00", "full_stop"))
        assert app.screen.moment == 181
        await drive(pilot, [session], ("at", "-", "1", "0", "m", "enter"))
        assert app.time.at == app.screen.time_of_step(181) - 600
        await drive(pilot, [session], (":time now",))
        assert app.time.at is None
        assert "◷" not in shown(app).splitlines()[0]


async def test_before_the_first_step_there_is_no_value() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", ":time 02:00"))
        assert app.screen.moment == 0
        assert "reward –" in panel(app, "#curves")
        await drive(pilot, [session], ("full_stop",))
        assert app.screen.moment == 1


async def test_nonsense_is_one_sentence_and_moves_nothing() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", ":at 180", ":time 99:99"))
        assert app.messages[-1].text.startswith("'99:99' is no moment; write ")
        assert app.messages[-1].more == ""
        assert app.screen.moment == 180


async def test_the_incident_of_then() -> None:
    """Before it began nothing is wrong and the screen says what will be; then it is there; its own
    page leads to its beginning.
    """
    session = fixtures.desync()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", ":time -9m"))
        before = panel(app, "#alarm")
        assert "✖" not in before
        assert "later: Trainer and orchestrator wait" in before
        await drive(pilot, [session], (":time -2m", ":time 03:12"))
        assert (
            "✖  Trainer and orchestrator wait for each other at different steps  then for 3m27s"
            in panel(app, "#alarm")
        )
        await drive(pilot, [session], ("escape", "i", "t"))
        assert app.screen.place == "run"
        assert app.time.of(session.state) == fixtures.NOW - 248
        assert "then for 0s" in panel(app, "#alarm")
        assert len(app.screen_stack) == 2, (
            "the incident's page is closed, the run is not opened twice"
        )


async def test_the_gpus_and_the_pod_of_then() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(160, 45)) as pilot:
        await drive(pilot, [session], ("enter", ":at 180", "U"))
        assert "12%" in app.screen.table.rows[0].text
        assert "03:10:55" in panel(app, "#note")
        await drive(pilot, [session], ("comma",))
        assert "no sample of then is kept" in app.screen.table.rows[0].text
        await drive(pilot, [session], ("escape",))
        assert app.time.at is None
        assert "12%" not in app.screen.table.rows[0].text
        app.open_pod(session.state)
        await drive(pilot, [session], (":at 180",))
        assert "There is no step 180 here" in app.messages[-1].text
        await drive(pilot, [session], (":time 03:10:55",))
        assert "at 03:10:55" in panel(app, "#facts")
        assert "15%" in panel(app, "#facts")
        await drive(pilot, [session], ("t",))
        assert "97%" in panel(app, "#facts")


async def test_a_line_of_the_log_sets_the_cursor_for_everything() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", "l", ":source trainer", ":go 171", "~there"))
        line = app.screen.pane._store.line(app.screen.pane.view.current)[1]
        assert b"Step 170 " in line
        await drive(pilot, [session], ("t",))
        await until(pilot, lambda: app.time.at is not None)
        assert app.screen.place == "log"
        await drive(pilot, [session], ("escape",))
        assert app.screen.moment == 170
        assert "step 170" in panel(app, "#alarm") or "after step 170" in panel(app, "#alarm")
        await drive(pilot, [session], ("l",))
        await until(
            pilot, lambda: app.screen.pane._moment is not None and app.screen.pane._feed.loaded
        )
        assert "Step 170 " in app.screen.pane.view.visible_text()


def test_steps_of_one_second_lie_behind_each_other() -> None:
    state = fixtures.healthy().state.runs["code-14b"]
    state.trainer_steps.clear()
    times = [100.0, 100.0, 100.0, 101.0, 101.25, 101.25, 101.5]
    state.trainer_steps.extend(
        {"attempt": 1, "step": step, "t": 999.0, "log_t": t} for step, t in enumerate(times)
    )
    found = step_times(state)
    assert list(found) == list(range(7))
    assert list(found.values()) == sorted(set(found.values()))
    assert [int(t) for t in found.values()] == [int(t) for t in times], "none leaves its second"


async def test_a_better_measured_clock_does_not_move_the_cursor_off_its_step() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", ":at 180"))
        session.state.link.clock_offset = 0.02
        app.screen.redraw()
        assert "step 180 at" in panel(app, "#alarm")
        await drive(pilot, [session], ("comma",))
        assert app.screen.moment == 179
