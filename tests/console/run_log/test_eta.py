"""Time and money to the milestones."""

from __future__ import annotations

import math

import pytest

from bs4_console.errors import UsageError
from bs4_console.run_log import eta


def test_the_estimates_of_the_training_notes() -> None:
    """220 s a step: 6, 30 and 61 hours from the start."""
    goals = eta.milestones(0, 220.0, max_steps=1000, price=1.99, spent=0.0)
    assert [(g.step, int(g.seconds / 3600)) for g in goals] == [(100, 6), (500, 30), (1000, 61)]
    assert goals[-1].cost == pytest.approx(1.99 * 220_000 / 3600)


def test_what_is_reached_and_what_is_unknown() -> None:
    goals = eta.milestones(120, 10.0, max_steps=300, price=3.6, spent=7.2)
    assert [(g.step, g.seconds) for g in goals] == [(100, 0.0), (300, 1800.0)]
    assert goals[0].cost is None
    assert goals[1].cost == pytest.approx(3.6 * 2.5)
    assert [g.cost for g in eta.milestones(0, 10.0)] == [None] * 3
    assert eta.cost(2.0, 5400.0) == 3.0
    assert eta.cost(None, 1.0) is None


@pytest.mark.parametrize(
    ("pace", "price"),
    [
        (0.0, 1.0),
        (-1.0, 1.0),
        (math.nan, 1.0),
        (math.inf, 1.0),
        (1e308, 1.0),
        (1.0, -2.0),
        (1.0, math.nan),
        (1.0, math.inf),
    ],
)
def test_nonsense_is_refused(pace: float, price: float) -> None:
    with pytest.raises(UsageError):
        eta.milestones(0, pace, price=price)


def test_words() -> None:
    assert [eta.describe(s) for s in (59 * 60, 3600 + 7 * 60, 30 * 3600)] == [
        "59m",
        "1h 07m",
        "1d 06h",
    ]
