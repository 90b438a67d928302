"""What runs have cost over their pods."""

from __future__ import annotations

import pytest

from bs4_console.pods.state import PodState
from bs4_console.run_log.record_fold import continued, fold
from bs4_console.run_log.spending import Stay, stays, total
from tests.console.tui import fixtures


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


def pod(name: str, began_ago: float, first: int, last: int, last_ago: float) -> PodState:
    """Return a pod on which demo began `began_ago` seconds before NOW, and still goes on."""
    state = PodState(name=name)
    fixtures.start_run(state, "demo", "prime-rl", 9000, began_ago, resume=first - 1 or None)
    fixtures.steps(state, "demo", first, last, 10.0, last_ago=last_ago)
    return state


def test_a_run_that_was_moved_by_hand_ends_on_its_old_pod_where_it_goes_on() -> None:
    """The old pod is still in the inventory, and nobody has seen the run's end there."""
    old, new = pod("old", 1000, 1, 40, 500), pod("new", 300, 41, 50, 5)
    found = stays([new, old], {"old", "new"}, {"demo": 3.6}, fixtures.NOW)
    spent = [(one.pod, round(one.until_t - one.began_t)) for one in found]
    assert spent == [("old", 700), ("new", 300)]
    # It trained on there after it had begun elsewhere: that time was used.
    old = pod("old", 1000, 1, 40, 100)
    found = stays([new, old], {"old", "new"}, {"demo": 3.6}, fixtures.NOW)
    assert [round(one.until_t - one.began_t) for one in found] == [900, 300]
    alone = stays([old], {"old"}, {"demo": 3.6}, fixtures.NOW)
    assert [round(one.until_t - one.began_t) for one in alone] == [1000]


def test_a_pod_whose_clock_is_ahead_is_paid_at_least_until_the_newest_step() -> None:
    ahead = pod("one", -3600, 1, 40, -3600 - 500)
    (found,) = stays([ahead], {"one"}, {"demo": 3.6}, fixtures.NOW)
    assert found.cost == pytest.approx(0.5)


def test_two_pods_with_one_run_are_one_history_in_order() -> None:
    old, new = pod("old", 1000, 1, 40, 500), pod("new", 300, 36, 50, 5)
    records = [fold(new, new.runs["demo"]), fold(old, old.runs["demo"])]
    whole = continued(records)
    assert [one.pod for one in whole.attempts] == ["old", "new"]
    assert [one.title.rpartition(", ")[2] for one in whole.attempts] == ["on old", "on new"]
    assert (whole.pod, whole.source, whole.step) == ("new", "new", 50)
    assert (whole.started_t, whole.start) == (records[1].started_t, records[1].start)
    assert [step for step, _ in whole.rewards] == list(range(1, 51)), "each step once"
    assert dict(whole.rewards)[40] == dict(records[0].rewards)[40], "the later one counts"
    assert continued(records[:1]) == records[0]


def test_a_machine_that_was_replaced_under_its_pods_name_is_paid_until_its_newest_step() -> None:
    old, new = pod("one", 1000, 1, 40, 500), pod("one", 300, 1, 20, 5)
    old.former = True
    new.runs["demo"].view.name = "other"
    found = stays([old, new], {"one"}, {"demo": 3.6, "other": 3.6}, fixtures.NOW)
    spent = [(one.run, round(one.until_t - one.began_t)) for one in found]
    assert spent == [("demo", 500), ("other", 300)]
