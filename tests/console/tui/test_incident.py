"""From the incident to the verdict: plan, confirmation as strong as the danger, and the action as
it goes.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from bs4_console.errors import RemoteError, Unreachable
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens.confirm import ConfirmScreen
from bs4_console.tui.screens.incident import IncidentScreen
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.views import plan as plans
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, settle, until, write


def page(app: ConsoleApp) -> str:
    """What the middle of the screen says."""
    return "\n".join(text_of(line) for panel in app.screen.query(Panel) for line in panel.lines)


def open_app(session: fixtures.RecordedSession, **more: Any) -> ConsoleApp:
    return ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK, **more)


async def test_the_whole_way_from_evidence_to_a_running_fix() -> None:
    session = fixtures.desync()

    def agent(key: str, kind: str, body: dict[str, Any]) -> None:
        if kind == "plan":
            assert body == {
                "playbook": "step-desync",
                "run": "math-7b",
                "incident": fixtures.DESYNC,
            }
            fixtures.plan_record(session.state, action=key, ago=0)
        else:
            fixtures._accepted(session.state, 0)

    session.on_submit = agent
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i",))
        assert "EVIDENCE" in page(app)
        assert "asks the agent" in page(app)
        await drive(pilot, [session], ("p",))
        await until(pilot, lambda: "PLAN step-desync" in page(app))
        for part in (
            "kill -TERM 1400",
            "pid 1409 inference",
            "17.6 MiB",
            "/data/math-7b/run_default/checkpoints/step_60",
            "--ckpt.resume-step 40",
        ):
            assert part in page(app)
        assert fixtures.PLAN_HASH in page(app)
        assert "expires in 15m00s" in page(app)
        await drive(pilot, [session], ("r",))
        assert isinstance(app.screen, ConfirmScreen)
        await pilot.press(*"math-7b", "enter")
        await until(pilot, lambda: len(session.submitted) == 2)
        assert session.submitted[1] == (
            "playbook",
            {
                "playbook": "step-desync",
                "run": "math-7b",
                "plan_hash": fixtures.PLAN_HASH,
                "confirm_run": "math-7b",
            },
        )
        await settle(pilot)
        assert "ACTION step-desync" in page(app)


async def test_the_wrong_name_does_nothing() -> None:
    session = fixtures.planned()
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i", "r"))
        await pilot.press(*"math-7", "enter")
        await pilot.pause()
        assert isinstance(app.screen, ConfirmScreen)
        assert "nothing was done" in page(app)
        await pilot.press("escape")
        await settle(pilot)
        assert session.submitted == []


@pytest.mark.parametrize(("key", "sent"), [("y", 1), ("n", 0), ("escape", 0)])
async def test_one_key_is_enough_for_a_restart(key: str, sent: int) -> None:
    session = fixtures.planned()
    plan = next(iter(session.state.ledger.plans.values()))
    plan.plan = {**plan.plan, "danger": "restart"}
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i", "r"))
        await pilot.press(key)
        await settle(pilot)
        assert [kind for kind, _ in session.submitted] == ["playbook"] * sent
        if sent:
            assert "confirm_run" not in session.submitted[0][1]


@pytest.mark.parametrize(
    ("danger", "typed_name", "typed"),
    [
        ("none", False, False),
        ("restart", False, False),
        ("restart", True, True),
        ("kill", False, True),
        ("move", False, True),
        ("new word", False, True),
    ],
)
def test_what_must_be_typed(danger: str, typed_name: bool, typed: bool) -> None:
    assert plans.must_type({"danger": danger, "typed_name": typed_name}) is typed


async def test_y_in_a_typed_confirmation_is_a_letter() -> None:
    session = fixtures.planned()
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i", "r"))
        await pilot.press("y")
        await pilot.pause()
        assert isinstance(app.screen, ConfirmScreen)
        app.screen.set_focus(None)
        await pilot.press("y")
        await settle(pilot)
        assert isinstance(app.screen, ConfirmScreen), (
            "y confirmed although the field had lost the focus"
        )
        assert session.submitted == []


async def test_an_expired_plan_is_not_run() -> None:
    session = fixtures.desync()
    fixtures.plan_record(session.state, ago=901)
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i", "r"))
        assert isinstance(app.screen, IncidentScreen)
        assert "EXPIRED" in page(app)
        assert "expired" in app.messages[-1].text


def test_a_plan_of_another_boot_is_dead_and_of_a_silent_pod_unknown() -> None:
    session = fixtures.planned()
    plan = next(iter(session.state.ledger.plans.values()))
    assert plans.expiry(plan, session.state, fixtures.CLOCK) == pytest.approx(806, abs=1)
    rebooted = copy.copy(plan)
    rebooted.boot = "another"
    assert plans.expiry(rebooted, session.state, fixtures.CLOCK) == 0
    session.state.telemetry.clear()
    assert plans.expiry(plan, session.state, fixtures.CLOCK) is None


@pytest.mark.parametrize("where", ["app", "pod"])
async def test_read_only_shows_the_plan_and_runs_nothing(where: str) -> None:
    session = fixtures.planned()
    session.state.read_only = where == "pod"
    app = open_app(session, read_only=where == "app")
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i", "r"))
        assert isinstance(app.screen, IncidentScreen)
        assert "read-only: this console cannot run it" in page(app)
        assert "read-only" in app.messages[-1].text
        assert session.submitted == []


async def test_a_refusal_is_shown_in_the_agents_words() -> None:
    session = fixtures.desync()

    def agent(key: str, kind: str, body: dict[str, Any]) -> None:
        fixtures.journal(
            session.state,
            "plan",
            0,
            action=key,
            playbook="step-desync",
            run="math-7b",
            plan_hash="",
            refused="No step of math-7b is complete.",
        )

    session.on_submit = agent
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i", "p"))
        await until(pilot, lambda: "NO PLAN" in page(app))
        assert "No step of math-7b is complete." in page(app)
        await drive(pilot, [session], ("r",))
        assert "There is no plan yet" in app.messages[-1].text


@pytest.mark.parametrize(
    "error",
    [
        RemoteError("busy", "math-7b is busy: stop by bob since 03:10:00. Wait for it to end."),
        Unreachable("It is gone.", "Wait."),
    ],
)
async def test_an_error_of_the_agent_is_a_message_and_the_screen_goes_on(error: Exception) -> None:
    session = fixtures.desync()
    session.refuse = error
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i", "p"))
        await until(pilot, lambda: bool(app.messages))
        assert app.messages[-1].severity == "error"
        assert str(getattr(error, "message", "")) in app.messages[-1].text
        assert "asks the agent" in page(app)


async def test_a_plan_that_was_answered_with_another_one_is_replaced_by_it() -> None:
    session = fixtures.desync()

    def agent(key: str, kind: str, body: dict[str, Any]) -> None:
        if kind == "plan":
            fixtures.plan_record(session.state, action=key, ago=0)
            return
        plans_now = session.state.ledger.plans
        shown = plans_now[fixtures.PLAN_HASH]
        plans_now["e" * 64] = dataclasses.replace(
            shown, action="by the agent", plan_hash="e" * 64, t=shown.t + 1.0
        )
        session.state.changed()
        raise RemoteError("plan-changed", "Look at the new plan eeeeeeeeeeeeeeee.")

    session.on_submit = agent
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i", "p"))
        await until(pilot, lambda: fixtures.PLAN_HASH in page(app))
        await drive(pilot, [session], ("r",))
        await pilot.press(*"math-7b", "enter")
        await until(pilot, lambda: "e" * 64 in page(app))
        assert fixtures.PLAN_HASH not in page(app)
        assert "Look at the new plan" in app.messages[-1].text


async def test_a_plan_that_the_agent_prepared_by_itself_is_there_at_once() -> None:
    session = fixtures.planned()
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("enter",))
        assert "see the plan" in page(app)
        await drive(pilot, [session], ("i",))
        assert "PLAN step-desync" in page(app)


@pytest.mark.parametrize(
    ("scene", "says"),
    [
        (
            "acting",
            [
                "✔ 1. Stop math-7b",
                "▶ 3. Move 2 step directories",
                "○ 4. Start math-7b",
                "it goes on without this console",
            ],
        ),
        (
            "recovered",
            ["✔ RECOVERED", "2 steps since the restart, now at step 42", "resolved, verified"],
        ),
        (
            "failed_fix",
            ["✖ 3. Move", "NOT RECOVERED (failed)", "on another filesystem", "makes a new plan"],
        ),
    ],
)
async def test_the_action_as_it_goes(scene: str, says: list[str]) -> None:
    session = fixtures.acting()
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i", f"!{scene}"))
        for text in says:
            assert text in page(app)


async def test_the_verdict_is_seen_without_scrolling() -> None:
    session = fixtures.failed_fix()
    for step in session.state.ledger.actions[fixtures.ACTION].steps:
        step.detail += " ended pid 4812 and what descends from it;" * 4
    app = open_app(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("i",))
        panel = app.screen.text
        bottom = app.screen.main().region.bottom
        (row,) = [y for y, line in enumerate(panel.lines) if "NOT RECOVERED" in text_of(line)]
        (key,) = [y for y, line in enumerate(panel.lines) if "makes a new plan" in text_of(line)]
        assert panel.region.y + row < bottom
        assert panel.region.y + key < bottom


async def test_a_plan_newer_than_a_failed_fix_comes_first() -> None:
    session = fixtures.failed_fix()
    fixtures.plan_record(session.state, action="later", ago=0)
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i",))
        assert "PLAN step-desync" in page(app)
        assert "NOT RECOVERED" not in page(app)


async def test_why_another_playbook_repairs_it_is_said() -> None:
    session = fixtures.desync()
    (incident,) = session.state.ledger.open_incidents("math-7b")
    assert incident.playbook == "step-desync"
    app = open_app(session)
    async with app.run_test(size=(80, 50)) as pilot:
        await drive(pilot, [session], ("i",))
        assert "and not step-desync" not in page(app)
        incident.playbook = "start-afresh"
        app.screen.redraw()
        said = " ".join(page(app).split())
        assert (
            "THE FIX start-afresh and not step-desync, because: No checkpoint is complete on every "
            "side, so there is nothing to resume from" in said
        )


async def test_an_incident_without_a_playbook_says_so() -> None:
    session = fixtures.stale_gpus()
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i", "p"))
        assert "No playbook mends this by itself" in page(app)
        assert session.submitted == []


async def test_a_playbook_can_be_planned_without_an_incident() -> None:
    session = fixtures.healthy()
    app = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("enter", ":plan step-desync"))
        await until(pilot, lambda: bool(session.submitted))
        assert session.submitted == [
            ("plan", {"playbook": "step-desync", "run": "code-14b", "incident": ""})
        ]


async def test_the_evidence_opens_the_log_at_its_line() -> None:
    session = fixtures.desync()
    app: Any = open_app(session)
    async with app.run_test(size=(120, 30)) as pilot:
        await drive(pilot, [session], ("i", "enter"))
        view = app.screen.pane.view
        assert app.screen.pane.source == "orchestrator"
        assert view.store.line(view.spot)[1].endswith(b"Waiting for checkpoint 42")
        assert "Waiting for checkpoint 42" in view.visible_text()
        await drive(pilot, [session], ("G",))
        assert view.following
        assert app.screen.pane._at is None


async def test_commands_are_shown_whole_on_a_narrow_screen() -> None:
    session = fixtures.planned()
    app = open_app(session)
    async with app.run_test(size=(60, 50)) as pilot:
        await drive(pilot, [session], ("i",))
        shown = page(app).replace("\n", "").replace(" ", "")
        for step in fixtures.PLAN_STEPS:
            for command in step["command"].split("; "):
                assert command.replace(" ", "") in shown


async def test_writing_into_the_prompt_is_not_a_command() -> None:
    session = fixtures.planned()
    app: Any = open_app(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i", "colon"))
        await write(pilot, "r")
        await pilot.press("r")
        await pilot.pause()
        assert app.screen.prompt.field.value == "rr"
        assert isinstance(app.screen, IncidentScreen)
