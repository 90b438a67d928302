"""Merging from the screen: what would be run, one confirmation, how far it is, and how it ended."""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.errors import RemoteError
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.widgets.bars import KeyBar
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until


def shown(app: Any, panel: str) -> str:
    return "\n".join(text_of(line) for line in app.screen.query_one(panel, Panel).lines)


async def test_the_exact_command_is_confirmed_and_its_progress_stands_on_the_run() -> None:
    session = fixtures.mergeable()
    run = next(iter(session.state.runs))
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", ":merge 180"))
        await until(pilot, lambda: type(app.screen).__name__ == "ConfirmScreen")
        assert session.submitted == [("plan", {"merge": {"run": run, "step": 180, "target": ""}})]
        asked = shown(app, "#question").replace("\n", " ")
        assert "python3 -m verl.model_merger merge --backend fsdp" in " ".join(asked.split())
        assert "changes nothing that trains" in asked
        assert "disk: up to 15.3 GiB while it goes on; 336.2 GiB are free there" in " ".join(
            asked.split()
        )
        await drive(pilot, [session], ("y",))
        await until(pilot, lambda: len(session.submitted) == 2)
        assert session.submitted[1] == ("merge", {"run": run, "plan_hash": "ab" * 32})
        await until(pilot, lambda: "3.8 GiB written" in _host(app))
        assert "merge" in _host(app)
        await drive(pilot, [session], (":merge",))
        assert "is under way" in app.messages[-1].text
        assert len(session.submitted) == 2, "it is not begun twice"
        key = next(k for k, a in session.state.ledger.actions.items() if a.kind == "merge")
        detail = "step 180 is merged into /data/merged"
        fixtures.journal(
            session.state, "action", 0, action=key, run=run, event="done", detail=detail
        )
        await until(pilot, lambda: any(detail in said.text for said in app.messages))
        assert "3.8 GiB" not in _host(app)


def _host(app: Any) -> str:
    app.screen.redraw()
    return shown(app, "#host")


async def test_left_alone_nothing_is_merged_and_a_refusal_is_said() -> None:
    session = fixtures.mergeable()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter", ":merge newest"))
        assert "is no step" in app.messages[-1].text
        await drive(pilot, [session], ("X",))
        await until(pilot, lambda: type(app.screen).__name__ == "ConfirmScreen")
        await drive(pilot, [session], ("n",))
        assert [kind for kind, _ in session.submitted] == ["plan"]
        session.refuse = RemoteError(
            "refused",
            "Step 5 of demo is torn (no data.pt) and is not merged; take another one with --step.",
        )
        await drive(pilot, [session], ("X",))
        await until(pilot, lambda: "is torn" in app.messages[-1].text)


@pytest.mark.parametrize(
    ("trainer", "offered"), [("verl", True), ("prime-rl", False), ("of a newer agent", False)]
)
async def test_the_key_is_offered_where_a_step_is_shards(trainer: str, offered: bool) -> None:
    pod = fixtures.connected("h100-d", "root@198.51.100.90:22", rtt=0.009)
    fixtures.start_run(pod, "demo", trainer, 20, 1)
    session = fixtures.RecordedSession(pod)
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 45)) as pilot:
        await drive(pilot, [session], ("enter",))
        assert ("X merge checkpoint" in text_of(app.screen.query_one(KeyBar).lines[0])) == offered


async def test_on_a_small_terminal_the_exact_command_is_scrolled_and_the_answer_stays() -> None:
    """No page behind this question shows what would be run."""
    session = fixtures.mergeable()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("enter", "X"))
        await until(pilot, lambda: type(app.screen).__name__ == "ConfirmScreen")
        await drive(pilot, [session], ())

        def page() -> str:
            return "\n".join(strip.text for strip in app.screen._compositor.render_strips())

        assert "$ python3 -m verl.model_merger merge" in page()
        assert "y run it" in page()
        await pilot.resize_terminal(80, 16)
        await drive(pilot, [session], ())
        assert "PgDn the rest" in page()
        assert "plan abab" not in page()
        await drive(pilot, [session], ("pagedown", "pagedown"))
        assert "plan abab" in page()
        assert "y run it" in page()
        assert len(session.submitted) == 1
