"""Curves: scales, means, windows and healthy ranges, on paper and on the Run screen."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bs4_console.failures import health
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.styled_text import text_of, width_of
from bs4_console.tui.widgets import curves
from bs4_console.tui.widgets.curve_view import CurveView, smoothed
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive


def _points(values: list[float]) -> list[tuple[int, float]]:
    return list(enumerate(values))


def _height_at(lines: list[Any], x: int) -> int:
    return next(y for y, line in enumerate(lines) if text_of(line)[x] != " ")


def test_a_log_scale_makes_a_straight_line_of_growth() -> None:
    growth = _points([10.0**i for i in range(5)])
    linear, log = (curves.plot(growth, 40, 9, 0, 4, log=how) for how in (False, True))
    assert _height_at(log, 20) == 4
    assert _height_at(linear, 20) == 8


def test_what_a_log_scale_cannot_show_is_counted() -> None:
    shown = curves.chart(
        curves.Curve("reward", _points([0.0, -1.0, 1.0, 10.0])),
        40,
        6,
        0,
        3,
        view=CurveView(log=True),
    )
    assert "2 ≤0" in text_of(shown[0])
    nothing = curves.chart(
        curves.Curve("reward", _points([0.0])), 40, 6, 0, 0, view=CurveView(log=True)
    )
    assert "nothing above 0" in text_of(nothing[1])
    assert len(nothing) == 6


def test_a_mean_is_not_pulled_to_zero_and_outlives_a_nan() -> None:
    made = smoothed(_points([2.0, 2.0, math.nan, 2.0]), 0.9)
    assert [value for _, value in made[:2]] == pytest.approx([2.0, 2.0])
    assert math.isnan(made[2][1])
    assert made[3][1] == pytest.approx(2.0)


def test_a_mean_is_the_line_and_the_steps_are_dots_behind_it() -> None:
    values = [1.0 if i % 9 == 4 else 0.1 for i in range(60)]
    shown = curves.chart(
        curves.Curve("reward", _points(values)), 30, 8, 0, 59, view=CurveView(weight=0.9)
    )
    roles = {role for line in shown[1:-1] for text, role in line if text.strip()}
    assert roles == {"accent", "dim"}
    assert {
        role
        for line in curves.plot(_points(values), 30, 8, 0, 59)
        for text, role in line
        if text.strip()
    } == {"accent"}


def test_a_large_curve_is_labelled_and_barred_where_it_is_healthy() -> None:
    shown = curves.chart(
        curves.Curve("entropy", _points([0.0, 0.1, 0.4]), (0.05, 0.15)), 60, 12, 0, 2
    )
    texts = [text_of(line) for line in shown]
    assert texts[1].startswith("  0.4000 ")
    assert texts[-2].startswith("  0.0000 ")
    assert [y for y, text in enumerate(texts[1:-1]) if text[9] == "┃"] == [6, 7, 8]
    assert "0.4000 above usual" in texts[0]
    assert "usual 0.05 … 0.15" in texts[-1]
    assert all(width_of(line) == 60 for line in shown)


@pytest.mark.parametrize(
    ("width", "value", "mark"),
    [
        (19, 0.01, " low"),
        (19, 0.1, ""),
        (19, 0.3, " high"),
        (28, 0.01, " below usual"),
        (28, 0.3, " above usual"),
        (60, 0.01, " below usual"),
    ],
)
def test_a_curve_says_without_an_arrow_when_it_is_out_of_range(
    width: int, value: float, mark: str
) -> None:
    curve = curves.Curve("entropy", _points([0.1, value]), (0.05, 0.15))
    title = text_of(curves.chart(curve, width, 4, 0, 1)[0])
    assert title.rstrip() == f"entropy {value:.4f}{mark}"


@pytest.mark.parametrize("width", [76, 78, 79, 80])
def test_four_curves_at_80_columns_have_room_for_the_word(width: int) -> None:
    entropy = curves.Curve("entropy", _points([0.1, 0.3667]), (0.05, 0.15))
    view = curves.CurveView()
    titles = text_of(curves.grid([entropy] * 4, width, 4, 4, (0, 1), None, view)[0])
    shown = "0.3667" if width >= 79 else "0.367"
    assert titles.split() == ["entropy", shown, "high"] * 4


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (9.0e-04, "entropy 9e-04 low"),
        (-0.4646, "entropy -0.465 low"),
        (123.456, "entropy 123.5 high"),
        (12345.0, "entropy 12345 high"),
        (0.04, "entropy 0.0400 low"),
    ],
)
def test_a_long_value_makes_room_for_the_word_of_a_narrow_curve(value: float, shown: str) -> None:
    """At 76 to 78 columns each of four curves has 18 cells."""
    curve = curves.Curve("entropy", _points([0.1, value]), (0.05, 0.15))
    titles = text_of(curves.grid([curve] * 4, 76, 4, 4, (0, 1), None, curves.CurveView())[0])
    assert titles.split() == shown.split() * 4


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.0, 0.0, 0.0], ["0"]),
        ([4.5612, 49.28, 94.0], ["94.00", "49.28", "4.56"]),
        ([0.0, 4294.0], ["4294", "2147", "0"]),
        ([0.0003, 0.0034], ["0.00340", "0.00185", "0.00030"]),
        ([3.0e-07, 6.0e-07], ["6.0e-07", "4.5e-07", "3.0e-07"]),
    ],
)
def test_labels_of_one_axis_have_the_same_decimals(values: list[float], labels: list[str]) -> None:
    shown = curves.chart(curves.Curve("tokens/s", _points(values)), 60, 11, 0, 2)
    found = [text_of(line)[:9].strip() for line in shown[1:-1]]
    assert [text for text in found if text] == labels


def test_the_ranges_come_from_the_file() -> None:
    assert set(health.bands()) >= {"entropy", "mismatch_kl", "grad_norm"}
    run = fixtures.healthy().state.runs["code-14b"]
    entropy = next(c for c in curves.curves(run, health.bands()) if c.title == "entropy")
    assert entropy.band == tuple(health.ranges()["entropy"]["healthy"])


def test_a_window_holds_the_cursor_and_follows_the_newest_step() -> None:
    view = CurveView().zoomed(0, 99, None, 0.5)
    assert view.window(0, 99) == (50, 99)
    assert view.window(0, 120) == (71, 120), "it follows the run"
    begin, end = view.window(0, 99, 10)
    assert begin <= 10 <= end
    assert end - begin == 49
    back = view.panned(0, 99, None, -0.25)
    assert back.window(0, 120) == back.window(0, 99), "panned back it stays where it is"
    assert back.panned(0, 99, None, 0.25).end is None
    assert back.zoomed(0, 99, None, 2.0) == CurveView()


def test_no_window_leaves_the_run() -> None:
    view = CurveView(steps=10)
    for _ in range(60):
        view = view.panned(5, 99, None, -0.25)
    assert view.window(5, 99) == (5, 14)


def test_gpus_stand_on_the_axis_of_steps() -> None:
    pod = fixtures.healthy().state
    util, power = curves.machine_curves(pod.runs["code-14b"], pod.telemetry)[:2]
    assert [step for step, _ in util.points] == [180, 188], (
        "the newest sample is of the step under way"
    )
    assert util.points[0][1] == pytest.approx(15.5)
    assert power.title == "GPU W"


async def test_large_and_back_and_everything_holds() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("enter", "c", "L", "E", "plus"))
        shown = [text_of(line) for line in app.screen.query_one("#curves", Panel).lines]
        assert "log, mean 0.6, steps 94 … 187" in shown[0]
        assert any(
            text.startswith("GPU % ") or "  GPU % " in text or "entropy" in text for text in shown
        )
        assert len(shown) + 2 <= 24
        await drive(pilot, [session], (":curves gpu w",))
        assert app.screen.curves_only == "GPU W"
        assert "GPU W" in text_of(app.screen.query_one("#curves", Panel).lines[1])
        await drive(pilot, [session], (":at 60", "~log"))
        assert "steps 14 … 107" in text_of(app.screen.query_one("#curves", Panel).lines[0])
        await drive(pilot, [session], ("escape", "escape"))
        assert app.screen.place == "run"
        assert app.screen.pane.display
        assert app.screen.curve_view.log, "how one looks at them stays"


async def test_nonsense_is_said() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("enter", ":curves nothing", ":smooth 3"))
        assert not app.screen.curves_large
        assert app.screen.curve_view == CurveView()
        assert "There is no curve 'nothing'" in app.messages[-2].text
        assert "'3' is no weight" in app.messages[-1].text
