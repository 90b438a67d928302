"""Other attempts and other runs over the curves: which line is which by letter and dashes, cut
where they were overtaken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bs4_console.pods.state import ActionView
from bs4_console.run_log.comparison import Row
from bs4_console.run_log.config_texts import ConfigTexts, digest_of
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.styled_text import text_of, width_of
from bs4_console.tui.views import compared
from bs4_console.tui.widgets import braille, curve_data, curves
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive


def row(attempt: int, step: int, **values: Any) -> dict[str, Any]:
    return {"attempt": attempt, "step": step, "t": float(step), **values}


#: Attempt 1 came to step 6, attempt 2 began again at 4 and is at 5.
ROWS = [*(row(1, step, x=float(step)) for step in range(7)), row(2, 4, x=40.0), row(2, 5, x="nan")]


def test_what_counts_ends_where_a_later_attempt_began_again() -> None:
    found = curve_data.points(ROWS, "x")
    assert [step for step, _ in found] == [0, 1, 2, 3, 4, 5], (
        "step 6 of the first attempt counts no more"
    )
    assert found[4] == (4, 40.0)
    assert curve_data.overtaken(ROWS, "x", 1) == [(3, 3.0), (4, 4.0), (5, 5.0), (6, 6.0)], (
        "from where they part"
    )
    assert curve_data.overtaken(ROWS, "x", 2) == []


def test_an_attempt_that_only_went_on_overtook_nothing() -> None:
    rows = [row(1, 0, x=1.0), row(1, 1, x=1.0), row(2, 2, x=1.0)]
    assert [step for step, _ in curve_data.points(rows, "x")] == [0, 1, 2]
    assert curve_data.overtaken(rows, "x", 1) == []


def test_the_attempts_of_a_run() -> None:
    run = fixtures.desync().state.runs["math-7b"]
    assert curve_data.overtaken_attempts(run) == [1]
    assert curve_data.overtaken_attempts(fixtures.healthy().state.runs["code-14b"]) == []


def test_each_line_has_its_letter_and_its_dashes() -> None:
    level = [(step, 1.0) for step in range(100)]
    others = [
        braille.Overlay(letter, i, [(s, float(i + 2)) for s, _ in level])
        for i, letter in enumerate("BCDE")
    ]
    drawn = braille.plot(level, 50, 12, 0, 99, others=others)
    texts = [text_of(line) for line in drawn]
    rows = {letter: next(text for text in texts if letter in text) for letter in "BCDE"}
    assert all(text.endswith(letter) for letter, text in rows.items()), (
        "the letter stands at the end of its line"
    )
    patterns = {text[:20] for text in rows.values()} | {texts[-1][:20]}
    assert len(patterns) == 5, "no two lines are dashed alike, so none needs a colour"
    assert len({braille.sample(i) for i in range(-1, 4)}) == 5


def test_the_run_itself_lies_on_top_and_has_its_letter_too() -> None:
    line = [(step, float(step)) for step in range(40)]
    alone, covered = (
        "\n".join(text_of(y) for y in braille.plot(line, 20, 6, 0, 39, others=others))
        for others in ([], [braille.Overlay("B", 0, line)])
    )
    assert "A" not in alone
    assert covered.count("A") == 1
    differing = [(a, b) for a, b in zip(alone, covered, strict=True) if a != b]
    assert [b for _, b in differing] == ["A"]


def test_all_lines_share_one_scale_and_the_title_gives_their_values() -> None:
    mine, theirs = [(0, 1.0), (1, 2.0)], [(0, 1.0), (1, 9.0), (2, float("nan"))]
    shown = curves.chart(
        curves.Curve("reward", mine, others=[braille.Overlay("B", 0, theirs)]), 60, 9, 0, 2, at=1
    )
    assert "reward 2.0000  B 9.0000" in text_of(shown[0])
    assert text_of(shown[1]).startswith("  9.0000")
    assert all(width_of(line) == 60 for line in shown)


def panel(app: Any, name: str) -> str:
    return "\n".join(text_of(line) for line in app.screen.query_one(name, Panel).lines)


def test_a_compared_value_is_rounded_as_the_runs_own() -> None:
    mine, theirs = [(n, 38.4) for n in range(3)], [(n, 41.27) for n in range(3)]
    others = [braille.Overlay("B", 0, theirs)]
    drawn = curves.chart(curves.Curve("MFU %", mine, others=others), 60, 9, 0, 2)
    assert text_of(drawn[0]).split() == ["MFU", "%", "38", "B", "41"]
    small = curves.chart(curves.Curve("MFU %", [(0, 38.4), (1, 41.27)]), 20, 4, 0, 1)
    assert text_of(small[0]).split() == ["MFU", "%", "41"]
    assert text_of(small[-1]).split() == ["38", "…", "41"]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_overtaken_attempt_at_every_size(size: tuple[int, int]) -> None:
    session = fixtures.desync()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=size) as pilot:
        await drive(pilot, [session], ("enter",))
        before = panel(app, "#curves")
        await drive(pilot, [session], ("V", "enter"))
        assert "compared  A " in panel(app, "#alarm")
        assert "attempt 1" in panel(app, "#alarm")
        assert panel(app, "#curves") != before
        await drive(pilot, [session], ("c",))
        assert "steps 0 … 47" in panel(app, "#curves")
        assert any(
            line.rstrip().endswith("B") or "B " in line
            for line in panel(app, "#curves").splitlines()[1:]
        )
        await drive(pilot, [session], ("c", "V", "enter"))
        assert "compared" not in panel(app, "#alarm")
        assert panel(app, "#curves") == before


async def test_runs_of_any_pod() -> None:
    sessions = fixtures.everything()
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)
    async with app.run_test(size=(160, 45)) as pilot:
        await drive(
            pilot,
            sessions,
            (":run code-14b", ":compare math-7b", ":compare h200-eu/reason-32b", "c"),
        )
        assert app.screen.compared == ("h100-a/math-7b", "h200-eu/reason-32b")
        legend = panel(app, "#alarm")
        assert "math-7b on h100-a" in legend
        assert "reason-32b on h200-eu" in legend
        assert "steps 0 … 731" in panel(app, "#curves")
        await drive(pilot, sessions, (":compare math-7b",))
        assert app.screen.compared == ("h200-eu/reason-32b",)
        await drive(pilot, sessions, (":compare none",))
        assert app.screen.compared == ()
        await drive(pilot, sessions, ("V",))
        assert app.screen.prompt.is_open, "nothing of the run itself to compare: a run is asked for"
        assert app.screen.prompt.field.value == "compare h100-a/math-7b"


def launched(session: Any, run: str, config: str) -> None:
    """The run's newest attempt was launched from a plan with this config, which is kept here."""
    digest = digest_of(config)
    assert ConfigTexts(session.state.name).keep(digest, config)
    state = session.state
    state.ledger.actions[run] = ActionView(
        key=run,
        kind="launch",
        who="jo",
        run=run,
        state="done",
        accepted_t=0.0,
        updated_t=0.0,
        body={"plan": {"config": {"values": digest}}},
        result={"attempt": max(state.runs[run].view.attempts)},
    )


async def test_the_settings_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BS4_DATA_DIR", str(tmp_path))
    sessions = fixtures.everything()
    by_name = {session.state.name: session for session in sessions}
    launched(by_name["h100-b"], "code-14b", "max_steps = 500\n[trainer.optim]\nlr = 3e-6\n")
    launched(by_name["h100-a"], "math-7b", "max_steps = 500\n[trainer.optim]\nlr = 5e-6\n")
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)
    async with app.run_test(size=(160, 45)) as pilot:
        await drive(pilot, sessions, (":run code-14b", ":compare math-7b"))
        assert "trainer.optim.lr  A 3e-06 B 5e-06" in panel(app, "#alarm")
        assert "max_steps" not in panel(app, "#alarm")
        await drive(pilot, sessions, (":compare math-7b", ":compare h200-eu/reason-32b"))
        said = panel(app, "#alarm")
        assert "trainer.optim.lr" not in said
        assert "of h200-eu/reason-32b has no launch plan that names its config" in said
        await drive(pilot, sessions, (":compare none",))
        assert "settings" not in panel(app, "#alarm")


def test_a_command_line_without_arguments_is_a_dash() -> None:
    arguments = Row("settings", "arguments", ("--max-steps 12", ""), True)
    shown = text_of(compared.line("B", [arguments], 80)).rstrip()
    assert shown == " settings   arguments  A --max-steps 12 B -"


async def test_a_letter_takes_the_place_of_the_attempt_that_is_offered() -> None:
    session = fixtures.desync()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("enter", "V"))
        assert app.screen.prompt.field.value == "compare 1"
        assert panel(app, "#offers").startswith(" [RUN|ATTEMPT|none]")
        await pilot.press("m")
        assert app.screen.prompt.field.value == "compare m"


async def test_what_cannot_be_compared_is_said() -> None:
    sessions = fixtures.everything()
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, (":run code-14b",))
        for typed, said in (
            ("nothing", "no run 'nothing'"),
            ("code-14b", "this run itself"),
            ("7", "Attempt 7 was not overtaken"),
        ):
            await drive(pilot, sessions, (f":compare {typed}",))
            assert said in app.messages[-1].text
        assert app.screen.compared == ()


async def test_a_run_that_is_removed_leaves_its_line() -> None:
    sessions = fixtures.everything()
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, (":run code-14b", ":compare math-7b"))
        del sessions[1].state.runs["math-7b"]
        app.screen.redraw()
        assert "compared" not in panel(app, "#alarm")


def test_compared_curves_have_a_hue_each_in_plot_title_and_legend() -> None:
    mine = [(step, 1.0) for step in range(40)]
    others = [
        braille.Overlay(letter, n, [(s, 2.0 + n) for s, _ in mine]) for n, letter in enumerate("BC")
    ]
    drawn = curves.chart(curves.Curve("reward", mine, others=others), 60, 12, 0, 39)
    dashes = {role for line in drawn[1:-1] for text, role in line if text.strip("⠀ .0123456789")}
    assert {"accent", "hue1", "hue2", "hue1 bold", "hue2 bold"} <= dashes
    assert {role for text, role in drawn[0] if text.strip() in ("B", "C")} == {"hue1", "hue2"}


async def test_the_run_itself_is_not_among_the_offers() -> None:
    sessions = fixtures.everything()
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, (":run code-14b",))
        offered = app.complete("compare ")
        assert "compare math-7b" in offered or "math-7b" in offered
        assert not [text for text in offered if text.endswith("code-14b")]
        assert [text for text in app.complete("run ") if text.endswith("code-14b")]


async def test_where_no_attempt_was_overtaken_the_key_offers_another_run() -> None:
    """Enter alone always does something, also with one run, with which nothing can be compared."""
    sessions = [fixtures.healthy(), fixtures.desync()]
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, (":run code-14b", "V"))
        assert app.screen.prompt.field.value == "compare h100-a/math-7b"
    alone = fixtures.healthy()
    app = ConsoleApp(fixtures.fleet(alone), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [alone], ("enter", "V"))
        assert not app.screen.prompt.is_open
        assert "nothing to compare with" in app.messages[-1].text
