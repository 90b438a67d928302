"""The Checkpoints screen: what it shows, and that orders begin there and are confirmed first."""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.checkpoints import listing
from bs4_console.errors import RemoteError
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.views import checkpoints as view
from bs4_console.tui.views.fleet import Row
from bs4_console.tui.widgets.bars import NewsLine
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.widgets.table import RowTable
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, settle, until


def console(session: fixtures.RecordedSession) -> Any:
    return ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)


def page(app: Any) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def test_rows_say_what_is_whole_where_it_lies_and_what_is_missing() -> None:
    session = fixtures.saved()
    assert session.checkpoints is not None
    rows = view.rows(session.checkpoints, session.state, "code-14b")
    shown = [
        (text_of(row.cells["step"]), text_of(row.cells["state"]), text_of(row.cells["store"]))
        for row in rows
    ]
    assert shown == [
        ("185", "▸ resumes here", "… 67% on its way"),
        ("180", "✔ complete", "✔ verified, newest"),
        ("170", "✖ incomplete", "–"),
        ("160", "✔ complete", "✔ verified"),
        ("100", "only in store", "✔ verified"),
    ]
    assert text_of(rows[2].cells["missing"]) == "orchestrator: no such directory"
    assert text_of(rows[2].cells["parts"]) == "trainer"


async def test_what_the_disk_has_room_for_is_whole_at_80_columns() -> None:
    session = fixtures.saved()
    app = console(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("D",))
        (line,) = [row for row in page(app).splitlines() if row.startswith(" now ")]
        assert line.rstrip().endswith("; room for all to come")


def test_the_parts_are_whole_where_there_is_room() -> None:
    parts = "trainer orchestrator broadcast weights"
    table = RowTable(view.COLUMNS)
    table.rows = [Row(key=("pod", "40"), rank=0, cells={"parts": [(parts, "")]}, values={})]
    cells = {
        width: column[1]
        for width in (119, 199)
        for column in table._fit(width)
        if column[0].id == "parts"
    }
    assert cells == {119: len(parts), 199: len(parts)}


def test_one_other_step_is_singular() -> None:
    session = fixtures.saved()
    assert session.checkpoints is not None
    loose = session.checkpoints | {"loose": {"steps": 1, "bytes": 2**30}}
    assert listing.remarks(loose)[0] == "besides: weights and broadcasts of 1 other step, 1.0 GiB"


def test_the_room_on_the_disk_has_a_noun_and_stands_in_a_line_of_its_own() -> None:
    session = fixtures.saved()
    assert session.checkpoints is not None
    forecast = {**session.checkpoints["forecast"], "room": 1098308}
    found = {**session.checkpoints, "forecast": forecast}
    assert "room for 1,098,308 more checkpoints" in listing.remarks(found)


async def test_a_restore_without_a_known_place_names_no_step_of_its_own() -> None:
    session = fixtures.saved()
    session.state.ledger.syncs.clear()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("D", ":restore"))
        said = app.screen.query_one(NewsLine).text
        assert ":restore b2://BUCKET/PREFIX" in said
        assert "180" not in said


def test_a_newest_set_that_is_young_is_being_written_and_no_ruin() -> None:
    session = fixtures.saved()
    assert session.checkpoints is not None
    found = {**session.checkpoints, "resumable": 180}
    found["checkpoints"] = [
        *found["checkpoints"][:-1],
        {**found["checkpoints"][-1], "complete": False},
    ]
    assert text_of(view.rows(found, session.state, "code-14b")[0].cells["state"]) == (
        "◌ being written"
    )
    found["live"] = False
    assert text_of(view.rows(found, session.state, "code-14b")[0].cells["state"]) == (
        "✖ incomplete"
    )


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_screen_at_every_size(size: tuple[int, int]) -> None:
    session = fixtures.saved()
    app = console(session)
    async with app.run_test(size=size) as pilot:
        await drive(pilot, [session], (":checkpoints",))
        await until(pilot, lambda: "resumes here" in page(app))
        await settle(pilot)
        shown = page(app)
        assert "step 185 can be resumed" in shown
        assert "none: nothing is freed" in shown
        assert "67% on its way" in shown
        assert "/data/code-14b/checkpoints/step_185/trainer" in shown
        await drive(pilot, [session], ("down", "down"))
        assert "orchestrator: no such directory" in page(app).split("step 170")[1]


async def test_an_order_to_keep_says_what_goes_and_takes_the_name() -> None:
    session = fixtures.saved()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("D", ":keep 1"))
        assert "2 or more: :keep 3" in app.screen.query_one(NewsLine).text
        await drive(pilot, [session], (":keep 2", "~question"))
        assert "Freed for good now, and older ones from now on: steps 160, 170" in page(app)
        await drive(pilot, [session], ("x", "enter"))
        assert not session.submitted, "another name was typed"
        await drive(pilot, [session], ("backspace", *"code", "minus", *"14b", "enter"))
        await until(pilot, lambda: bool(session.submitted))
        assert session.submitted == [
            ("keep", {"run": "code-14b", "last": 2, "milestones": 0, "synced": False})
        ]
        await until(pilot, lambda: "keep-last 2" in page(app))


async def test_a_sync_is_confirmed_and_a_wrong_place_is_said() -> None:
    session = fixtures.saved()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("D", ":sync nowhere"))
        await until(pilot, lambda: any("nowhere" in said.text for said in app.messages))
        await drive(pilot, [session], (":sync b2://others/runs", "~question"))
        assert "This replaces the order to copy to b2://rl-checkpoints/runs." in page(app)
        await drive(pilot, [session], ("n",))
        assert not session.submitted
        await drive(pilot, [session], (":sync off", "~question", "y"))
        await until(pilot, lambda: bool(session.submitted))
        assert session.submitted == [("sync", {"run": "code-14b", "off": True})]
        assert session.brought == 0, "an order that is taken back needs no library"


async def test_a_restore_is_planned_by_the_pod_and_confirmed_by_its_hash() -> None:
    session = fixtures.saved()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("D", ":restore 180", "~question"))
        assert "Fetch step 180 from b2://rl-checkpoints/runs" in page(app)
        assert session.brought == 1, "the pod reads the store to make its plan"
        kind, body = session.submitted[0]
        assert (kind, body["restore"]["from"]) == ("plan", "b2://rl-checkpoints/runs")
        assert body["restore"]["step"] == 180
        await drive(pilot, [session], ("y",))
        await until(pilot, lambda: len(session.submitted) > 1)
        assert session.submitted[1] == ("restore", {"run": "code-14b", "plan_hash": "cd" * 32})


async def test_a_pod_that_does_not_answer_is_told_as_that() -> None:
    session = fixtures.saved()

    async def refusing(stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        raise RemoteError("unknown-stream", "There is no such stream.")

    session.query = refusing  # type: ignore[method-assign]
    app = console(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("D",))
        await until(pilot, lambda: "There is no such stream." in page(app))
        assert not app.screen.table.rows


async def test_ages_go_on_while_the_pod_is_not_asked() -> None:
    session = fixtures.saved()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("D",))
        await until(pilot, lambda: "resumes here" in page(app))
        report = app.screen._report
        first = report.report()["checkpoints"][-1]["age_s"]
        report._found_at -= 50
        assert report.report()["checkpoints"][-1]["age_s"] == first + 50
        assert app.screen.query_one("#note", Panel).text
