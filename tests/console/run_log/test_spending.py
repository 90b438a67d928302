"""What runs have cost over their pods."""

from __future__ import annotations

import pytest

from bs4_console.run_log.spending import Stay, since, total


def stay(run: str, pod: str, began: float, until: float, price: float | None = 2.0) -> Stay:
    return Stay(run=run, pod=pod, began_t=began * 3600, until_t=until * 3600, price=price)


def test_a_run_that_moved_costs_what_both_pods_cost() -> None:
    moved = [stay("a", "one", 0, 3), stay("a", "two", 4, 5, 10.0)]
    assert [each.cost for each in moved] == [6.0, 10.0]
    assert total(moved) == 16.0


@pytest.mark.parametrize(
    ("second", "hours"),
    [((1, 2), 4.0), ((2, 6), 6.0), ((4, 5), 5.0), ((8, 9), 5.0), ((0, 4), 4.0)],
)
def test_time_that_two_runs_share_on_a_pod_counts_once(
    second: tuple[float, float], hours: float
) -> None:
    both = [stay("b", "one", *second), stay("a", "one", 0, 4)]
    assert total(both) == hours * 2
    apart = [stay("b", "two", *second), stay("a", "one", 0, 4)]
    assert total(apart) == (4 + second[1] - second[0]) * 2


def test_a_stay_without_a_price_hides_no_other() -> None:
    found = [stay("a", "one", 0, 4, None), stay("b", "one", 1, 2)]
    assert found[0].cost is None
    assert total(found) == 2.0


def test_only_what_is_after_a_time() -> None:
    found = [stay("a", "one", 0, 4), stay("b", "one", 0, 2), stay("c", "two", 3, 4)]
    left = since(found, 3 * 3600)
    assert [(each.run, each.cost) for each in left] == [("a", 2.0), ("c", 2.0)]
