"""The Run screen's line about checkpoints: asked of the pod, quiet where there is no answer, loud
where nothing can be resumed.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from bs4_console.errors import RemoteError
from bs4_console.tui import checkpoint_line
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.clock import Clock
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.views import checkpoints as views
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until


def report(
    *, complete: bool = True, full_in: float | None = None, age: float = 95.0
) -> dict[str, Any]:
    one = {
        "step": 180,
        "complete": complete,
        "bytes": 3 * fixtures.GIB,
        "age_s": age,
        "t": fixtures.NOW - 95,
    }
    full = None if full_in is None else time.time() + full_in
    forecast = {
        "lasts": full is None,
        "to_come": None,
        "full_t": full,
        "full_step": 260,
        "room": None,
    }
    return {
        "checkpoints": [one],
        "resumable": 180 if complete else None,
        "forecast": forecast,
        "live": True,
    }


def host(app: Any) -> tuple[str, set[str]]:
    lines = app.screen.query_one("#host", Panel).lines
    return "\n".join(text_of(line) for line in lines), {role for line in lines for _, role in line}


async def test_it_is_asked_and_shown() -> None:
    session = fixtures.healthy()
    session.checkpoints = report()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: "ckpts" in _drawn(app))
        assert "step 180 can be resumed, 2m old" in host(app)[0]
        assert "▲" not in host(app)[0]
        await drive(pilot, [session], (":at 100",))
        assert "ckpts" not in _drawn(app), "what is now is not what was then"


def _drawn(app: Any) -> str:
    app.screen.redraw()
    return host(app)[0]


@pytest.mark.parametrize("found", [report(complete=False, age=1800.0), report(full_in=3600.0)])
async def test_what_needs_somebody_has_a_sign(found: dict[str, Any]) -> None:
    session = fixtures.healthy()
    session.checkpoints = found
    app: Any = ConsoleApp(
        fixtures.fleet(session), clock=Clock(wall=time.time, mono=lambda: fixtures.MONO)
    )
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: "ckpts  ▲ " in _drawn(app))
        assert "warn bold" in host(app)[1]


async def test_a_first_checkpoint_under_way_is_no_alarm() -> None:
    session = fixtures.healthy()
    session.checkpoints = report(complete=False, age=20.0)
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: "the first checkpoint is being written" in _drawn(app))
        assert "▲" not in host(app)[0]


async def test_a_first_checkpoint_of_which_nothing_is_written_is_not_said_to_be_written() -> None:
    session = fixtures.healthy()
    session.checkpoints = report(complete=False, age=120.0)
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: "is not whole, last written 2m ago" in _drawn(app))
        assert "▲" not in host(app)[0]


async def test_what_an_earlier_attempt_left_is_not_said_to_be_written() -> None:
    session = fixtures.healthy()
    (run,) = session.state.runs.values()
    found = report(complete=False, age=20.0)
    assert run.view.attempt is not None
    found["checkpoints"][0]["t"] = run.view.attempt.started_t - 1.0
    session.checkpoints = found
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        said = "ckpts  no checkpoint yet; 1 incomplete of an earlier attempt"
        await until(pilot, lambda: said in _drawn(app))
    state: Any = views.rows(found, session.state, run.name)[0].cells["state"]  # type: ignore[arg-type]
    assert state == [("✖ incomplete", "warn bold")]
    found["checkpoints"][0]["t"] = run.view.attempt.started_t + 1.0
    state = views.rows(found, session.state, run.name)[0].cells["state"]  # type: ignore[arg-type]
    assert state == [("◌ being written", "accent")]


async def test_nothing_can_be_resumed_of_a_run_that_is_not_alive() -> None:
    session = fixtures.healthy()
    (run,) = session.state.runs.values()
    found = report(complete=False, age=20.0) | {"live": False}
    assert run.view.attempt is not None
    found["checkpoints"][0]["t"] = run.view.attempt.started_t - 1.0
    session.checkpoints = found
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        said = "ckpts  ▲ 1 checkpoint, none complete: nothing can be resumed"
        await until(pilot, lambda: said in _drawn(app))


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (50, "step 180 can be resumed, 2m old"),
        (70, "step 180 can be resumed, 2m old; full in 59m (step 260)"),
        (80, "step 180 can be resumed, 2m old; full in 59m (step 260); 3 × 3.0 GiB"),
        (
            130,
            "step 180 can be resumed, 2m old; full in 59m (step 260); 3 × 3.0 GiB   keep-last 3, "
            "milestones every 50",
        ),
    ],
)
def test_a_narrow_line_leaves_parts_out_and_cuts_none(width: int, shown: str) -> None:
    told = ["step 180 can be resumed, 2m old", "full in 59m (step 260)", "3 × 3.0 GiB"]
    line = checkpoint_line._parts(told, "keep-last 3, milestones every 50", width, wrong=True)
    assert text_of(line) == f" ckpts  ▲ {shown}"


async def test_at_80_columns_when_the_disk_is_full_is_not_cut() -> None:
    session = fixtures.healthy()
    session.checkpoints = report(full_in=3600.0)
    app: Any = ConsoleApp(
        fixtures.fleet(session), clock=Clock(wall=time.time, mono=lambda: fixtures.MONO)
    )
    async with app.run_test(size=(80, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: "ckpts  ▲ " in _drawn(app))
        (line,) = (line for line in _drawn(app).splitlines() if "ckpts" in line)
        assert "2m old; full in " in line
        assert "(step 260)" in line


async def test_no_answer_is_no_line_and_no_complaint_and_it_is_not_asked_each_second() -> None:
    session = fixtures.healthy()
    asked = []
    query = session.query

    async def counting(stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        if stream == "checkpoints":
            asked.append(op)
            raise RemoteError("unknown-stream", "no such stream")
        return await query(stream, op, **parameters)

    session.query = counting  # type: ignore[method-assign]
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: asked == ["list"] and not app.screen._checkpoints._asking)
        for _ in range(5):
            assert "ckpts" not in _drawn(app)
        assert asked == ["list"]
        assert not app.messages


async def test_it_is_asked_again_when_the_run_has_ended_and_soon_while_there_is_nothing() -> None:
    """Somebody who stands before a dead run must not read for a minute that there is no
    checkpoint.
    """
    session, now = fixtures.healthy(), [0.0]
    (run,) = session.state.runs
    nothing = report() | {"checkpoints": [], "resumable": None}
    session.checkpoints = nothing
    app: Any = ConsoleApp(
        fixtures.fleet(session),
        clock=Clock(wall=lambda: fixtures.NOW, mono=lambda: fixtures.MONO + now[0]),
    )
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: "no checkpoint yet" in _drawn(app))
        session.checkpoints = report()
        now[0] = 9.0
        assert "no checkpoint yet" in _drawn(app)
        now[0] = 11.0
        await until(pilot, lambda: "step 180 can be resumed" in _drawn(app))

        session.checkpoints = nothing
        now[0] = 30.0
        await drive(pilot, [session], ())
        assert "step 180 can be resumed" in _drawn(app), "it is asked once a minute"
        fixtures.journal(
            session.state,
            "run",
            0,
            event="attempt-ended",
            run=run,
            attempt=1,
            code=1,
            signal=None,
            good=False,
            detail="gone",
        )
        await until(pilot, lambda: "no checkpoint yet" in _drawn(app))


async def test_the_next_checkpoint_is_looked_for_when_it_should_be_there() -> None:
    session, now = fixtures.healthy(), [0.0]
    due = report()
    due["forecast"]["next_t"] = fixtures.NOW + 20.0
    session.checkpoints = due
    app: Any = ConsoleApp(
        fixtures.fleet(session),
        clock=Clock(wall=lambda: fixtures.NOW, mono=lambda: fixtures.MONO + now[0]),
    )
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: "step 180 can be resumed" in _drawn(app))
        session.checkpoints = report() | {"resumable": 200}
        now[0] = 19.0
        assert "step 180 can be resumed" in _drawn(app)
        now[0] = 21.0
        await until(pilot, lambda: "step 200 can be resumed" in _drawn(app))
        session.state.link.state = "lost"
        now[0] = 100.0
        assert "seen 1m ago" in _drawn(app), "what is not asked any more has its age"


async def test_on_the_checkpoints_screen_what_is_due_is_there_in_two_seconds() -> None:
    """Short steps write one every second or two; ten seconds later another one is the newest."""
    session, now = fixtures.healthy(), [0.0]
    due = report()
    due["forecast"]["next_t"] = fixtures.NOW + 1.0
    session.checkpoints = due
    app: Any = ConsoleApp(
        fixtures.fleet(session),
        clock=Clock(wall=lambda: fixtures.NOW, mono=lambda: fixtures.MONO + now[0]),
    )
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("D",))
        await until(pilot, lambda: app.screen._report.report() is not None)
        session.checkpoints = report() | {"resumable": 200}
        now[0] = 1.9
        assert app.screen._report.report()["resumable"] == 180
        now[0] = 2.1
        await until(pilot, lambda: app.screen._report.report()["resumable"] == 200)
