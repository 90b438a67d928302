"""What a newcomer stumbled over, one test for each point; README.md has the table."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.widgets import Input

from bs4_console.checks import verdict
from bs4_console.cli import demo
from bs4_console.cli import sessions as of_commands
from bs4_console.cli.main import main
from bs4_console.launch import redone
from bs4_console.pods.state import PodState, StepView
from bs4_console.tui import app as app_module
from bs4_console.tui import status
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.palette import ConsoleCommands
from bs4_console.tui.screens import stop
from bs4_console.tui.screens.base import ConsoleScreen
from bs4_console.tui.styled_text import text_of, width_of
from bs4_console.tui.views import checkpoints, fleet, incident, journal, plan, playbook
from bs4_console.tui.views import run as run_view
from bs4_console.tui.widgets import curves, log_lines
from bs4_console.tui.widgets.bars import KeyBar, NewsLine
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.widgets.table import GAP, RowTable
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, settle, until
from tests.console.tui.scenes import SCENES, SIZES, opened
from tests.console.tui.test_checkpoint_line import report as checkpoint_report


def page(app: Any) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def text(app: Any, kind: type[Panel]) -> str:
    return "\n".join(text_of(line) for line in app.screen.query_one(kind).lines)


def console(*sessions: fixtures.RecordedSession) -> Any:
    return ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)


def test_the_screen_opens_without_any_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says itself how to add one, and shows a pod that is added elsewhere."""
    opens = []
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path))
    monkeypatch.setattr(of_commands, "is_terminal", lambda: True)
    monkeypatch.setattr(app_module, "run", lambda fleet, _: opens.append(fleet) or 0)
    assert main([]) == 0
    assert [one.pods for one in opens] == [[]]


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.parametrize("size", SIZES)
async def test_what_is_typed_is_on_every_screen_at_every_size(size: tuple[int, int]) -> None:
    """The prompt takes two rows from the screen and pushes none off it."""
    seen = set()
    for scene in SCENES:
        app: Any
        app, sessions = opened(scene.pods)
        async with app.run_test(size=size) as pilot:
            await drive(pilot, sessions, scene.keys)
            if not isinstance(app.screen, ConsoleScreen):
                continue
            seen.add(type(app.screen).__name__)
            await pilot.press("colon")
            await settle(pilot)
            app.screen.prompt.field.insert_text_at_cursor("fleet")
            await settle(pilot)
            field = app.screen.query_one(Input)
            assert field.region.bottom <= size[1], scene.name
            assert ":fleet" in page(app).replace(" ", ""), scene.name
            assert not app.screen.show_vertical_scrollbar, scene.name
            assert app.screen.query_one(KeyBar).region.bottom == size[1], scene.name
    assert "RunScreen" in seen


async def test_a_letter_that_does_nothing_says_so() -> None:
    session = fixtures.healthy()
    app = console(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("q",))
        assert "q does nothing here: :q leaves, esc goes one level up." in text(app, NewsLine)
        await drive(pilot, [session], ("U", "W"))
        assert "W (launch) does nothing here, only on: checkpoints or fleet or pod or run." in text(
            app, NewsLine
        )
        await drive(pilot, [session], ("colon", "c", "h", "tab"))
        assert "No command here begins with 'ch'." in page(app)


async def test_incident_of_a_healthy_run_says_where_one_is() -> None:
    sessions = fixtures.everything()
    app = console(*sessions)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, (":run code-14b", "i"))
        assert "No incident is open here. On h100-a/math-7b: Trainer and orch" in text(
            app, NewsLine
        ).replace("\n   ", " ")


async def test_a_refusal_goes_with_the_next_key_and_an_alert_does_not() -> None:
    session = fixtures.healthy()
    app = console(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("q",))
        assert "q does nothing here" in text(app, NewsLine)
        await pilot.press("down")
        assert app.news is None
        assert not app.screen.query_one(NewsLine).display
        await drive(pilot, [session], ("r",))
        assert app.news is not None, "the key that is refused now is answered"
        app.say("a pod is lost", severity="warning", lasting=True)
        await pilot.press("down")
        assert app.news is not None


async def test_news_stand_in_a_line_of_their_own_and_go_with_the_screen() -> None:
    """A message covers nothing. Only an error is a toast, and neither outlives its place."""
    session = fixtures.healthy()
    app = console(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ())
        app.say("Copied.")
        app.say("Broken.", severity="error")
        await settle(pilot)
        assert len(app._notifications) == 1
        app.say("Copied.")
        await settle(pilot)
        assert text(app, NewsLine) == " · Copied."
        assert app.screen.query_one(NewsLine).region.bottom == 23
        await drive(pilot, [session], ("enter",))
        assert not app.screen.query_one(NewsLine).display
        assert not app._notifications
        assert [said.text for said in app.messages] == ["Copied.", "Broken.", "Copied."]


@pytest.mark.parametrize("keys", [(), ("enter",), ("i",)])
async def test_the_stop_of_a_run_that_hangs_is_in_the_key_bar(keys: tuple[str, ...]) -> None:
    session = fixtures.desync()
    app = console(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], keys)
        assert "K stop run" in text(app, KeyBar)


async def test_the_stop_of_a_healthy_run_gives_way_to_other_keys() -> None:
    session = fixtures.healthy()
    app = console(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("enter",))
        assert "K stop run" not in text(app, KeyBar)


def test_the_journal_does_not_repeat_the_name_that_was_typed() -> None:
    pod = fixtures.acting().state
    (fix,) = (action for action in pod.ledger.actions.values() if action.kind == "playbook")
    fix.body = {"confirm_run": "math-7b", "why": "it hangs"}
    said = " ".join(text_of(line) for line in journal.lines(pod, fix, 100))
    assert "asked for: why it hangs" in said
    assert "confirm_run" not in said


def test_a_plan_in_the_journal_has_its_hash_and_its_steps() -> None:
    pod = fixtures.planned().state
    (made,) = pod.ledger.plans.values()
    common = {"action": made.action, "run": made.run}
    fixtures.journal(pod, "action", 1, **common, kind="plan", event="accepted", body={})
    fixtures.journal(pod, "action", 1, **common, event="done", result={"plan_hash": made.plan_hash})
    lines = journal.lines(pod, pod.ledger.actions[made.action], 100)
    said = "\n".join(map(text_of, lines))
    assert f"plan {made.plan_hash[:16]}" in said
    for step in made.plan["steps"]:
        assert " ".join(str(step["title"]).split()) in " ".join(said.split())
    assert all(width_of(line) <= 100 for line in lines)


@pytest.mark.parametrize(
    ("kind", "error", "word"),
    [
        ("plan", "refused", "refused"),
        ("plan", "not-applicable", "refused"),
        ("plan", "step-failed", "failed"),
        ("playbook", "refused", "failed"),
    ],
)
def test_a_plan_that_is_refused_has_not_failed(kind: str, error: str, word: str) -> None:
    pod = fixtures.healthy().state
    common = {"action": "01J" + "0" * 23, "run": ""}
    fixtures.journal(pod, "action", 1, **common, kind=kind, event="accepted", body={})
    fixtures.journal(
        pod, "action", 1, **common, event="failed", detail="No.", result={"error": error}
    )
    rows = {row.key[1]: row for row in journal.pod_rows(pod, fixtures.CLOCK)}
    assert text_of(rows[common["action"]].cells["state"]) == f"✖ {word}"


def test_an_incident_that_is_over_says_so_before_its_title() -> None:
    pod = fixtures.recovered().state
    (found,) = pod.ledger.incidents.values()
    found = dataclasses.replace(found, state="resolved")
    lines = incident.heading(found, pod, fixtures.CLOCK, 100)
    assert text_of(lines[0]).startswith(" ✔  RECOVERED. It was: Trainer and orchestrator wait")
    (fix,) = pod.ledger.actions.values()
    found = dataclasses.replace(found, state="cleared")
    lines = incident.heading(found, pod, fixtures.CLOCK, 100, fix)
    assert text_of(lines[0]).startswith(" ✔  RECOVERED. It was: "), "it went while the fix ran"
    lines = incident.heading(found, pod, fixtures.CLOCK, 100)
    assert text_of(lines[0]).startswith(" ✔  CLEARED BY ITSELF. It was: ")
    found = dataclasses.replace(found, state="open")
    lines = incident.heading(found, pod, fixtures.CLOCK, 100)
    assert "RECOVERED" not in text_of(lines[0])


def at_step(step: int, trainer: str) -> Any:
    """Return a run of this trainer whose newest finished step is `step`."""
    return SimpleNamespace(step=step, view=SimpleNamespace(trainer=trainer))


def test_steps_that_are_done_again_count_as_the_trainer_counts() -> None:
    """January's generation goes on with the step that the checkpoint is named after, because its
    steps begin with 0. The others go on with the next one.
    """
    january, current = at_step(43, "prime-rl-2026-01"), at_step(43, "prime-rl")
    assert list(redone.steps_again(january, 40)) == [40, 41, 42, 43]
    assert list(redone.steps_again(current, 40)) == [41, 42, 43]
    assert list(redone.steps_again(at_step(0, "prime-rl-2026-01"), None)) == [0]
    assert list(redone.steps_again(at_step(2, "verl"), None)) == [1, 2]
    assert list(redone.steps_again(at_step(40, "prime-rl"), 40)) == []
    assert list(redone.steps_again(None, 40)) == []
    assert list(redone.steps_again(at_step(40, "unheard of"), None)) == []


async def test_the_question_before_a_stop_says_which_steps_are_lost() -> None:
    session = fixtures.healthy()
    (run,) = session.state.runs
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    session.checkpoints = {**checkpoint_report(), "resumable": 180}

    def asked() -> str:
        lines = [line for panel in app.screen.query(Panel) for line in panel.lines]
        return " ".join(" ".join(map(text_of, lines)).split())

    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], (":stop",))
        newest = session.state.runs[run].step
        first = redone.steps_again(session.state.runs[run], 180)[0]
        said = f"steps are trained again, {first} to {newest}: checkpoint 180 is kept"
        await until(pilot, lambda: said in asked())
        rows = [strip.text for strip in app.screen._compositor.render_strips()]
        assert any("stop it" in row and "cancel" in row for row in rows)


@pytest.mark.parametrize(
    ("step", "earlier", "resumable", "said"),
    [
        (43, False, 40, "3 steps are trained again, 41 to 43: checkpoint 40 is kept."),
        (43, False, 42, "Step 43 is trained again: checkpoint 42 is kept."),
        (43, False, None, "43 steps are trained again, 1 to 43: no checkpoint is complete."),
        (43, False, 43, "No finished step is trained again: checkpoint 43 is kept."),
        (12, False, 200, "What was trained since"),
        (47, True, None, "What was trained since"),
        (None, False, 40, "What was trained since"),
    ],
)
def test_what_a_stop_loses_is_said_only_of_the_present_attempt(
    step: int | None, earlier: bool, resumable: int | None, said: str
) -> None:
    run: Any = SimpleNamespace(
        step=step, step_of_earlier=earlier, view=SimpleNamespace(trainer="prime-rl")
    )
    report: Any = {"resumable": resumable}
    assert stop.lost(run, report).startswith(said)
    assert stop.lost(run, None).startswith("What was trained since")


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (43, "4 steps are trained again, 40 to 43: checkpoint 40 is kept, which was saved before"),
        (40, "Step 40 is trained again: checkpoint 40 is kept, which was saved before step 40."),
    ],
)
def test_a_step_that_is_trained_again_from_its_own_checkpoint_is_no_contradiction(
    step: int, said: str
) -> None:
    """January's generation saves a step's checkpoint before it trains the step."""
    run: Any = SimpleNamespace(
        step=step, step_of_earlier=False, view=SimpleNamespace(trainer="prime-rl-2026-01")
    )
    report: Any = {"resumable": 40}
    assert stop.lost(run, report).startswith(said)


async def test_a_malformed_report_of_checkpoints_keeps_nobody_from_a_stop() -> None:
    session = fixtures.healthy()
    app = console(session)
    session.checkpoints = {**checkpoint_report(), "checkpoints": [{"step": 40, "complete": True}]}
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], (":stop",))
        await until(pilot, lambda: app.screen._checkpoints._found is not None)
        await settle(pilot)
        assert isinstance(app.screen, stop.StopScreen)
        assert "stop it" in page(app)


def test_the_step_of_an_earlier_attempt_is_known_as_such() -> None:
    (run,) = fixtures.healthy().state.runs.values()
    assert run.step is not None
    assert not run.step_of_earlier
    newest = run.view.attempt
    assert newest is not None
    number = newest.number + 1
    run.view.attempts[number] = dataclasses.replace(newest, number=number)
    assert run.step_of_earlier


def test_a_run_that_was_started_again_has_no_step_yet_and_no_eta() -> None:
    """The step, its age and the pace are those of the attempt before."""
    pod = fixtures.healthy().state
    run = pod.runs["code-14b"]
    assert "eta 1h12m" in text_of(run_view.header(pod, run, fixtures.CLOCK, 120)[1])
    fixtures.start_run(pod, "code-14b", "prime-rl", 500, 90, attempt=2, resume=180)
    assert (run.word, run.eta_seconds()) == ("starting", None)
    for width in (80, 120):
        numbers = text_of(run_view.header(pod, run, fixtures.CLOCK, width)[1])
        assert "no step yet, begun 1m30s ago" in numbers
        assert not [word for word in ("eta", "step time", "last step") if word in numbers]
    assert "code-14b starting, no step yet" in verdict.judge(pod).line()


def test_a_run_without_a_step_of_the_trainer_has_no_last_step() -> None:
    """The orchestrator steps first."""
    pod = fixtures.healthy().state
    run = pod.runs["code-14b"]
    run.trainer_steps.clear()
    assert run.step_seen is not None
    numbers = text_of(run_view.header(pod, run, fixtures.CLOCK, 120)[1])
    assert "last step" not in numbers
    assert "no step yet" in numbers


def test_the_steps_of_a_fix_come_before_their_explanation() -> None:
    found = fixtures.desync().state
    (one,) = found.ledger.open_incidents()
    text = playbook.load("vllm-silent-death")
    keys = {"plan": "p"}
    lines = [text_of(line) for line in incident.would_do(text, one, keys, 78)]
    assert lines[1].startswith("1. Stop the run as its trainer asks for")
    more = lines.index("IN MORE WORDS")
    assert next(n for n, line in enumerate(lines) if line.startswith(" p ")) < more


def test_how_a_step_ended_is_never_cut() -> None:
    step = StepView(title="Archive the logs of practice " + "x" * 80, state="done", detail="")
    step = dataclasses.replace(step, started_t=10.0, ended_t=13.0)
    (line,) = plan._acted(2, step, 20.0, 78)
    assert text_of(line).endswith("…  done 3s")
    assert width_of(line) <= 78


async def test_after_a_recovery_the_keys_are_those_that_make_sense_then() -> None:
    """There is nothing to plan any more: the log shows how the run goes on."""
    session = fixtures.acting()
    app = console(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("i", "!recovered"))
        await until(pilot, lambda: text(app, KeyBar).startswith(" l logs   ⏎ open"))
        assert "make plan" not in text(app, KeyBar)
        opened_again(session.state)
        await settle(pilot)
        assert text(app, KeyBar).startswith(" ] next incident   l logs")


async def test_after_a_fix_that_failed_a_new_plan_is_offered() -> None:
    session = fixtures.acting()
    app = console(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("i", "!failed_fix"))
        await until(pilot, lambda: "p make plan" in text(app, KeyBar))


def test_the_confirmation_says_all_that_the_plan_does() -> None:
    body = {"steps": fixtures.PLAN_STEPS, "danger": "move"}
    assert plan.effects(body, at_step(47, "prime-rl")) == (
        "It ends 11 processes, moves 2 entries (35.2 MiB) to the run's trash, and starts the run "
        "again from step 40 (7 steps done again)."
    )
    afresh = {"steps": [{"kind": "relaunch", "parameters": {"resume": None}}], "danger": "move"}
    assert plan.effects(afresh, at_step(9, "prime-rl-2026-01")) == (
        "It starts the run afresh, from no checkpoint (10 steps done again)."
    )
    assert plan.effects({"steps": [], "danger": "none"}, None) == "It changes nothing that trains."


def test_what_a_plan_moves_is_shown_however_its_record_has_it() -> None:
    """Steps that move a whole run name paths alone, others paths with sizes."""
    shown = {"directories": ["/data/run_default"], "entries": [{"path": "/data/a", "bytes": 2048}]}
    body = {"danger": "move", "steps": [{"kind": "move_run", "shown": shown}]}
    assert plan.effects(body, None) == "It moves 2 entries (2.0 KiB) to the run's trash."
    assert plan.moved_entries(shown) == [("/data/run_default", None), ("/data/a", 2048)]


async def test_a_question_that_cannot_be_drawn_closes_and_confirms_nothing() -> None:
    session = fixtures.planned()
    (found,) = session.state.ledger.plans.values()
    found.plan["steps"] = [7]
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("i", "r"))
        await until(pilot, lambda: type(app.screen).__name__ == "IncidentScreen")
        assert any("the question cannot be drawn" in said.text for said in app.messages)
        assert not session.submitted


def stopped_by_hand() -> fixtures.RecordedSession:
    """The healthy run after a stop that alice confirmed."""
    session = fixtures.healthy()
    pod = session.state
    key = "01JD000000000000000000STOP"
    common = {"action": key, "run": "code-14b"}
    fixtures.journal(
        pod, "action", 60, kind="stop", who="alice@laptop", event="accepted", body={}, **common
    )
    fixtures.journal(
        pod,
        "run",
        50,
        event="attempt-ended",
        run="code-14b",
        attempt=1,
        code=1,
        state="stopped",
        detail="the launcher ended with exit code 1",
    )
    fixtures.journal(pod, "action", 49, event="done", detail="nothing of it is left", **common)
    return session


def test_a_stop_by_hand_is_told_as_that_and_stands_below_running_runs() -> None:
    stopped, running = stopped_by_hand().state, fixtures.healthy().state
    run = stopped.runs["code-14b"]
    assert run.word == "stopped"
    assert [phrase for phrase, _ in status.wrong(stopped, run, fixtures.CLOCK)] == [
        "stopped by alice@laptop at 03:11"
    ]
    running.name = "z-last"
    rows = fleet.rows([stopped, running], fixtures.CLOCK)
    assert [row.key[0] for row in rows] == ["z-last", "h100-b"]
    assert rows[1].rank == 0


def test_a_finished_run_has_done_all_its_steps() -> None:
    run = fixtures.finished().state.runs["reverse-text"]
    assert run.step == 20
    assert text_of(fleet.step_line(run)) == "20/20"
    # January's generation counts from 0.
    run.view.trainer, run.view.max_steps = "prime-rl-2026-01", 21
    assert text_of(fleet.step_line(run)) == "21/21"


async def test_the_help_is_dense_searched_and_shown_whole_on_demand() -> None:
    session = fixtures.healthy()
    app = console(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("question_mark",))
        dense = app.screen.text.lines
        assert len(dense) < 66, "a page of 80x24 needs no more than two turns"
        assert page(app).index("✖ critical") < page(app).index("ON THIS SCREEN")
        words = " ".join(app.screen.text.text.split())
        assert "a value above or below that" in words, "a sign's meaning is not cut"
        await drive(pilot, [session], ("/terminate",))
        found = [text_of(line) for line in app.screen.text.lines if ":stop" in text_of(line)]
        assert len(found) == 1
        assert ":launch" not in app.screen.text.text
        await drive(pilot, [session], ("x",))
        assert "asks for the run's name" in " ".join(app.screen.text.text.split())
        await drive(pilot, [session], ("escape",))
        assert ":launch" in app.screen.text.text


async def test_the_palette_knows_other_words() -> None:
    app = console(fixtures.desync())
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        provider = ConsoleCommands(app.screen)
        for typed, title in (
            ("kill", "Stop run"),
            ("resume", "Launch"),
            ("ckpt", "Checkpoints"),
            ("error", "Incident"),
            ("cost", "In a shell: cost"),
        ):
            hits = [hit async for hit in provider.search(typed)]
            assert title in [hit.text for hit in hits], typed
            assert all(len(str(hit.match_display)) < 80 for hit in hits)


@pytest.mark.parametrize(("typed", "name"), [("kill", ":stop"), ("resume", ":launch")])
async def test_the_prompt_knows_the_other_words_of_the_palette(typed: str, name: str) -> None:
    app = console(fixtures.desync())
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        told = app.typed(typed, app.screen)
        assert told.startswith(f"{typed} is called ")
        assert name in told


def test_the_columns_depend_on_the_width_and_on_nothing_else() -> None:
    table = RowTable(fleet.COLUMNS)
    seen: dict[int, set[tuple[str, ...]]] = {}
    for sessions in (fixtures.everything(), [fixtures.healthy()], [fixtures.idle()]):
        table.rows = fleet.rows([session.state for session in sessions], fixtures.CLOCK)
        for width in (79, 119, 199):
            fitted = table._fit(width)
            ids = tuple(column.id for column, _ in fitted)
            seen.setdefault(width, set()).add(ids)
            assert sum(cells for _, cells in fitted) + GAP * (len(fitted) - 1) <= width
    assert {width: len(ids) for width, ids in seen.items()} == {79: 1, 119: 1, 199: 1}
    assert seen[79] == {("state", "pod", "run", "step", "age", "wrong")}


async def test_room_below_the_rows_holds_curves_and_the_newest_actions() -> None:
    sessions = [fixtures.acting(), fixtures.healthy()]
    app = console(*sessions)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, ())
        shown = page(app)
        assert "grad norm 0.1419" in shown
        assert "RECENT  J shows all" in shown
        assert "playbook step-desync  h100-a/math-7b  by alice@laptop  Move 2 step" in shown
        await drive(pilot, sessions, ("down",))
        assert "grad norm 0.1419" not in page(app), "the curves are those of the row"
        assert "grad norm" in page(app)
        await pilot.resize_terminal(120, 18)
        await settle(pilot)
        assert "grad norm" not in page(app), "rows and details go first"
        assert "RECENT" not in page(app)


async def test_a_large_terminal_has_larger_curves_and_more_actions() -> None:
    sessions = [fixtures.acting(), fixtures.healthy()]
    app = console(*sessions)
    async with app.run_test(size=(200, 60)) as pilot:
        await drive(pilot, sessions, ())
        assert len(app.screen.query_one("#trend", Panel).lines) == 20
        assert "playbook step-desync  h100-a/math-7b  by alice@laptop" in page(app)
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: len(app.screen.query_one("#trend", Panel).lines) == 7)


async def test_the_page_of_a_pod_shows_curves_and_what_was_done_where_there_is_room() -> None:
    session = fixtures.acting()
    app = console(session)
    async with app.run_test(size=(200, 60)) as pilot:
        await drive(pilot, [session], ("d",))
        shown = page(app)
        assert "curves  math-7b" in shown
        assert "grad norm 0.1419" in shown
        assert "RECENT  J shows all" in shown
        assert "playbook step-desync  h100-a/math-7b  by alice@laptop" in shown
        scroll: Any = app.screen.main()
        assert scroll.max_scroll_y == 0, "it fills the page and is no longer than that"
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "grad norm" not in page(app))
        assert "RECENT" not in page(app)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"[trainer0]:18:03:09    INFO Saving", "18:03:09    INFO Saving"),
        (
            b"(APIServer pid=36) INFO 11-27 18:03:10 [loggers.py:335] Engine",
            "18:03:10    INFO [log",
        ),
        (b'INFO:     127.0.0.1:4 - "POST /pause HTTP/1.1" 200', "            INFO 127.0.0.1:4 - "),
        (b"Traceback (most recent call last):", "                 Traceback"),
    ],
)
def test_the_merged_log_has_columns(raw: bytes, shown: str) -> None:
    line = log_lines.body(0, raw, log_lines.Marks(), 0, 200, columns=True)
    assert text_of(line).startswith(shown)
    alone = log_lines.body(0, raw, log_lines.Marks(), 0, 200)
    assert text_of(alone) == raw.decode(), "a source alone is shown as it is"


async def test_requests_to_inference_take_one_line_of_the_merged_log() -> None:
    session = fixtures.healthy()
    app = console(session)
    answered = 'INFO:     127.0.0.1:{} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("l",))
        for port in range(40000, 40016):
            session.write("log/code-14b/inference", answered.format(port).encode())
        await until(pilot, lambda: "INFO ×16 POST /v1/chat/completions 200" in page(app))
        assert "15 requests folded" in page(app)
        await drive(pilot, [session], ("z", "z"))
        await until(pilot, lambda: "127.0.0.1:40014 - " in page(app))
        assert "nothing folded" in page(app)
        await drive(pilot, [session], ("z",))
        await until(pilot, lambda: "×16 POST /v1/chat/completions 200" in page(app))


def test_each_source_has_a_hue_that_no_state_has() -> None:
    names = ["orch", "trainer", "infer"]
    roles = [log_lines.source_span(names, number)[0][1] for number in range(3)]
    assert len(set(roles)) == 3
    assert not set(roles) & {"good", "warn", "bad", "accent"}


def test_percent_is_shown_as_it_is_measured() -> None:
    curve = curves.Curve("GPU %", [(1, 4.73), (2, 6.9231)], None)
    assert "GPU % 7 " in text_of(curves.chart(curve, 40, 6, 1, 2)[0])
    loss = curves.Curve("loss", [(1, 4.73), (2, 6.9231)], None)
    assert "loss 6.9231" in text_of(curves.chart(loss, 40, 6, 1, 2)[0])


async def test_the_form_says_at_once_that_the_run_is_running() -> None:
    session = fixtures.healthy()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], (":launch",))
        assert "code-14b is running; it is not started a second time." in page(app)
        assert "from step, or fresh" in page(app)


async def test_a_line_keeps_its_components_name_when_the_launchers_copy_came_first() -> None:
    session = fixtures.healthy()
    app = console(session)
    line = "03:12:40    INFO Updating policy in-flight to version 188\n"
    async with app.run_test(size=(120, 40)) as pilot:
        session.write("log/code-14b/launcher", b"03:12:39    INFO RL trainer started by rl.toml\n")
        await drive(pilot, [session], ("l",))
        await until(pilot, lambda: "started by rl.toml" in page(app))
        session.write("log/code-14b/launcher", line.encode())
        await until(pilot, lambda: _source_of(app, "in-flight") == "launcher")
        session.write("log/code-14b/orchestrator", line.encode())
        await until(pilot, lambda: _source_of(app, "in-flight") == "orch")


def _source_of(app: Any, words: str) -> str:
    """Paint the log, and return the source of its line with these words, or "" if it has none."""
    app.screen.pulse()
    found = [row for row in page(app).splitlines() if words in row]
    return found[0].split()[0] if found else ""


def opened_again(pod: PodState, run: str = "math-7b", attempt: int = 3) -> None:
    """The same failure in the attempt that the fix has started."""
    fixtures.journal(
        pod,
        "incident",
        1,
        event="opened",
        incident="inc-again",
        failure="step-desync",
        run=run,
        attempt=attempt,
        role="root",
        severity="critical",
        title="Trainer and orchestrator wait for each other at different steps",
        summary="The trainer waits for step 61.",
        playbook="step-desync",
        where="pod",
        evidence=[{"source": "trainer", "file": "/data/t.log", "line": 7, "text": "waits for 61"}],
    )


async def test_after_a_fix_that_failed_the_incident_shows_what_is_open_now() -> None:
    session = fixtures.failed_fix()
    app = console(session)
    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i",))
        assert "EVIDENCE  as it was seen before this fix" in page(app)
        assert "OPEN NOW" not in page(app)
        opened_again(session.state)
        await settle(pilot)
        shown = page(app)
        assert "OPEN NOW ] goes there" in shown
        assert shown.index("NOT RECOVERED") < shown.index("waits for 61") < shown.index("EVIDENCE")
        await drive(pilot, [session], ("right_square_bracket",))
        shown = page(app)
        assert "attempt 3" in shown
        assert "The trainer waits for step 61." in shown
        assert "ACTION step-desync" not in shown, "that fix was for the incident before"
        assert "tried before: step-desync by alice@laptop at 03:11: ✖ NOT RECOVERED" in shown
        assert "asks the agent what exactly it would do now" in shown


def test_a_run_that_does_not_advance_has_no_eta() -> None:
    healthy, hangs = fixtures.healthy().state, fixtures.desync().state
    run, stuck = healthy.runs["code-14b"], hangs.runs["math-7b"]
    assert status.eta(healthy, run, fixtures.CLOCK) == run.eta_seconds() is not None
    assert stuck.eta_seconds() is not None
    stuck.step_seen = fixtures.MONO
    assert not status.late(hangs, stuck, fixtures.CLOCK)
    assert status.eta(hangs, stuck, fixtures.CLOCK) is None, "a critical incident is open"
    healthy.link.state = "lost"
    assert status.eta(healthy, run, fixtures.CLOCK) is None
    (row,) = fleet.pod_rows(healthy, fixtures.CLOCK)
    assert (text_of(row.cells["eta"]), row.values["eta"]) == ("–", None)


def test_a_disk_is_as_full_as_df_says() -> None:
    """What is reserved for root is not room: df counts it as used up."""
    session = fixtures.healthy()
    disk = session.state.latest["host"]["disks"][0]
    disk |= {"used": 90 * fixtures.GIB, "free": 2 * fixtures.GIB, "total": 100 * fixtures.GIB}
    assert "/data 98% FULL, 2.0 GiB free" in text_of(
        run_view.host_line(session.state, fixtures.CLOCK, 120)
    )
    assert text_of(fleet.disk_summary(session.state)) == "98%"
    assert status.full_disks(session.state) == ["/data 98% full"]
    found = verdict.judge(session.state).line()
    assert "/data is 98 % full" in found


def test_the_disk_is_there_at_80_columns_beside_what_cannot_be_seen() -> None:
    pod = fixtures.desync().state
    line = text_of(run_view.host_line(pod, fixtures.CLOCK, 80))
    assert "◌ kernel log" in line
    assert "/data 41% used, 1.2 TiB free" in line
    pod.latest["host"]["disks"][0]["path"] = "/mnt/volume/users/alice/runs/outputs"
    line = text_of(run_view.host_line(pod, fixtures.CLOCK, 80))
    assert "…ce/runs/outputs 41% used, 1.2 TiB free" in line


async def test_a_command_that_is_typed_without_a_filter_shows_all() -> None:
    sessions = fixtures.everything()
    app = console(*sessions)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, (":filter h100", ":filter"))
        assert app.screen.filter_text == ""
        assert not app.screen.prompt.is_open
        assert "Filter: none now; / asks for one." in text(app, NewsLine)
        await drive(pilot, sessions, ("/h100", "slash"))
        assert app.screen.prompt.field.value == "h100", "the key edits the filter"


async def test_a_command_that_is_refused_is_replaced_by_the_next_one() -> None:
    session = fixtures.healthy()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], (":rum x",))
        assert "There is no command 'rum'" in page(app)
        await pilot.press(*"gpus", "enter")
        await until(pilot, lambda: type(app.screen).__name__ == "GpusScreen")


async def test_a_plan_is_offered_only_where_there_is_a_playbook() -> None:
    session = fixtures.desync()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("enter",))
        assert "p make plan" in text(app, KeyBar)
        (found,) = session.state.ledger.open_incidents()
        found.playbook = None
        await settle(pilot)
        assert "make plan" not in text(app, KeyBar)


async def test_enter_on_a_checkpoint_says_what_can_be_done_with_it() -> None:
    session = fixtures.saved()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("D",))
        await until(pilot, lambda: bool(app.screen.table.rows))
        step = app.screen.table.selected.key[1]
        await drive(pilot, [session], ("enter",))
        assert f"Step {step} is shown below with its parts; :restore {step}" in text(app, NewsLine)
        await drive(pilot, [session], ("end", "enter"))
        assert "is only in the store: :restore" in text(app, NewsLine)


async def test_the_copy_of_a_checkpoint_is_offered_only_where_there_is_one() -> None:
    session = fixtures.saved()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("D",))
        await until(pilot, lambda: bool(app.screen.table.rows))
        await drive(pilot, [session], ("down", "down", "enter"))
        assert app.screen.table.selected.key[1] == "170"
        assert "Step 170 is shown below with its parts." in text(app, NewsLine)


def test_a_newest_checkpoint_without_a_file_is_being_written() -> None:
    found: Any = {"resumable": 20, "live": True}
    begun: Any = {"step": 25, "complete": False, "age_s": None}
    assert checkpoints._state(begun, found, True)[0] == "◌ being written"
    assert checkpoints._state(begun, found, False)[0] == "✖ incomplete"


async def test_what_may_follow_a_command_is_said_where_it_is_typed() -> None:
    session = fixtures.saved()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("D", "F"))
        hint = text_of(app.screen.query_one("#offers", Panel).lines[0])
        assert hint.startswith(" [N [M]|off]  Order the pod to free older checkpoints.")


async def test_a_message_has_its_sign_once() -> None:
    session = fixtures.desync()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.say("✖ critical h100-a/math-7b: gone", severity="error")
        await drive(pilot, [session], ("m",))
        assert page(app).count("✖ critical h100-a") == 1
        assert "✖ ✖" not in page(app)


async def test_a_key_that_comes_before_the_plan_says_that_it_is_being_made() -> None:
    session = fixtures.desync()
    session.on_submit = lambda *_, **__: None
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("i", "r"))
        assert "There is no plan yet; p makes one." in text(app, NewsLine)
        await drive(pilot, [session], ("p", "r"))
        assert "was still making the plan; press r again." in text(app, NewsLine)


async def test_the_cursor_goes_to_the_run_that_practice_has_broken() -> None:
    session = fixtures.desync(incident=False)
    other = fixtures.healthy()
    app = console(session, other)

    async def inject(stage: Any) -> None:
        opened_again(session.state)

    async def prepare(stage: Any) -> None:
        return

    scenario: Any = SimpleNamespace(
        name="step-desync", failure="step-desync", prepare=prepare, inject=inject
    )
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.screen.table.cursor = ("h100-b", "code-14b")
        await demo._broken(app, scenario, SimpleNamespace(pod=session.state))  # type: ignore[arg-type]
        assert app.screen.table.cursor == ("h100-a", "math-7b")


async def test_until_it_is_moved_the_cursor_is_on_what_needs_a_person_most() -> None:
    """The first pod to answer may be a healthy one, and keys act on the row under the cursor."""
    first, session = fixtures.desync(incident=False), fixtures.healthy()
    app = console(first, session)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert app.screen.table.cursor == ("h100-a", "math-7b")
        opened_again(session.state, "code-14b", 1)
        session.state.changed()
        await settle(pilot)
        assert app.screen.table.cursor == ("h100-b", "code-14b")
        assert app.screen.subject().run.name == "code-14b"


@pytest.mark.parametrize("keys", [("down", "up"), ("enter", "escape")])
async def test_a_cursor_that_was_moved_or_acted_on_stays_with_its_row(
    keys: tuple[str, ...],
) -> None:
    session, other = fixtures.desync(incident=False), fixtures.healthy()
    app = console(session, other)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session, other], keys)
        assert app.screen.table.cursor == ("h100-a", "math-7b")
        opened_again(other.state, "code-14b", 1)
        other.state.changed()
        await settle(pilot)
        assert app.screen.table.rows[0].key == ("h100-b", "code-14b")
        assert app.screen.table.cursor == ("h100-a", "math-7b")


async def test_a_message_about_a_row_goes_when_the_cursor_leaves_it() -> None:
    sessions = fixtures.everything()
    app = console(*sessions)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.say("No incident is open here.", severity="warning")
        app.say("Broken.", severity="error")
        await drive(pilot, [], ("u",))
        assert not app.screen.query_one(NewsLine).display
        assert app._notifications, "an error stays until it was read or the screen changes"


def test_a_plan_begins_with_all_that_it_does() -> None:
    pod = fixtures.planned().state
    found = next(iter(pod.ledger.plans.values()))
    lines = plan.plan_lines(found, pod, fixtures.CLOCK, 80, [("r runs it", "")])
    said = " ".join(text_of(line) for line in lines[:4])
    assert "It ends 11 processes, moves" in said
    assert "starts the run again from step 40" in said


async def test_a_complaint_goes_when_the_name_is_typed_again() -> None:
    session = fixtures.planned()
    app = console(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("i", "r", "x", "enter"))
        assert "That is not math-7b" in page(app)
        await drive(pilot, [session], ("y",))
        assert "That is not" not in page(app)


async def test_a_command_with_a_typing_error_names_what_is_close() -> None:
    app = console(fixtures.healthy())
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [], ("::checkponts",))
        assert "There is no command 'checkponts'; close to it: :checkpoints" in page(app)


async def test_kill_is_answered_with_the_stop_that_works_there() -> None:
    session = fixtures.healthy()
    app = console(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("enter", ":rollouts", ":kill"))
        assert "kill is called :stop here." in page(app)
        await drive(pilot, [session], ("escape", ":stop"))
        assert isinstance(app.screen, stop.StopScreen)
        await drive(pilot, [session], ("escape", ":messages", ":kill"))
        assert "kill is called :stop here; that works on checkpoints, fleet, gpus" in page(app)


def test_the_paths_of_a_checkpoint_keep_their_ends() -> None:
    part = {"name": "trainer", "complete": True, "bytes": 1, "path": "/a/very/long/way/step_8/t"}
    one: Any = {"step": 8, "parts": [part], "missing": {}}
    assert text_of(checkpoints.detail(one, 45)[1]).endswith("…way/step_8/t")
    assert text_of(checkpoints.detail(one, 90)[1]).endswith(" /a/very/long/way/step_8/t")


async def test_the_shell_of_a_practice_pod_needs_no_inventory() -> None:
    app = console(fixtures.desync())
    app.practice_shells = {"h100-a": ["ssh", "-o", "HostKeyAlias=h100-a", "root@127.0.0.1"]}
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [], ("$",))
        assert "ssh -o HostKeyAlias=h100-a root@127.0.0.1" in app.messages[-1].text


def test_a_run_with_a_dead_process_has_no_eta() -> None:
    healthy = fixtures.healthy().state
    run = healthy.runs["code-14b"]
    assert status.eta(healthy, run, fixtures.CLOCK) is not None
    run.components = [
        {**one, "state": "dead" if one["component"] == "orchestrator" else one["state"]}
        for one in run.components
    ]
    assert status.eta(healthy, run, fixtures.CLOCK) is None


def test_the_paths_of_a_plan_are_told_without_what_they_have_in_common() -> None:
    folder = "/data/outputs/a-long-name/run_default"
    step = {"shown": {"directories": [{"path": f"{folder}/step_{n}", "bytes": 5} for n in (1, 2)]}}
    told = [text_of(line).split() for line in plan._touched(step, 60)]
    assert told == [
        ["out", "of", f"{folder}/"],
        ["moves", "5", "B", "step_1"],
        ["5", "B", "step_2"],
        ["10", "B", "in", "all"],
    ]
    assert plan.common_folder([f"{folder}/step_1"]) == plan.common_folder(["/a", "/b"]) == ""


def test_a_chart_has_an_axis_of_steps_and_says_where_a_usual_range_lies() -> None:
    values = [(step, 0.5 + step / 100) for step in range(1, 41)]
    shown = curves.chart(curves.Curve("entropy", values, (0.05, 0.15)), 80, 22, 1, 40)
    assert text_of(shown[-1]).split() == ["1", "┃", "usual", "0.05", "…", "0.15", "↓", "40"]
    labels = [text_of(line)[:8].strip() for line in shown[1:-1]]
    assert len([label for label in labels if label]) >= 5
    reached = curves.chart(curves.Curve("entropy", values, (0.05, 0.6)), 80, 22, 1, 40)
    assert "↓" not in text_of(reached[-1])


async def test_what_is_wrong_takes_a_second_line_while_rows_are_empty() -> None:
    app = console(*fixtures.everything())
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [], ())
        table = app.screen.query_one(RowTable)
        told = [strip.text.rstrip() for strip in map(table.render_line, range(table.size.height))]
        title = "  └ Trainer and orchestrator wait for each other at different steps"
        below = next(y for y, line in enumerate(told) if line.startswith(title))
        assert told[below - 1].split()[1:4] == ["critical", "h100-a", "math-7b"]
        second = table.rows[1].key
        await pilot.click(table, offset=(5, below + 1))
        assert table.cursor == second, "a click finds the row below"
        await pilot.click(table, offset=(5, below))
        assert table.cursor == table.rows[0].key, "a click on the second line finds its row"
        await pilot.resize_terminal(80, 19)
        await settle(pilot)
        lines = list(map(table.render_line, range(table.size.height)))
        assert not any("└" in strip.text for strip in lines[len(table.rows) :])


async def test_the_keys_of_a_log_fit_at_80_columns() -> None:
    app, sessions = opened("planned")
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, sessions, ("l",))
        bar = text(app, KeyBar)
        for word in ("space pause", "/ filter", "f find", "i incident", ": command", "esc back"):
            assert word in bar
