"""What an order lets go, as a decision over what was seen; several of these lost data in scripts
that people really used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bs4_agent.checkpoints.retention_policy import Decision, OwnCleaning, decide
from bs4_common.checkpoints.best import Quality
from bs4_common.checkpoints.orders import Order, order_fields
from bs4_common.checkpoints.sets import Part, StepSet
from bs4_common.errors import BadRequest

ALONE = OwnCleaning(None)


def one(step: int, *, complete: bool = True, t: float | None = None) -> StepSet:
    part = Part(
        "trainer",
        Path(f"/out/checkpoints/step_{step}/trainer"),
        10,
        float(step) if t is None else t,
        "" if complete else "torn",
    )
    return StepSet(
        step,
        complete,
        {"trainer": part},
        {} if complete else {"trainer": "torn"},
        [part.path.parent],
    )


def go(
    steps: list[StepSet],
    order: Order,
    own: OwnCleaning = ALONE,
    doubt: tuple[int, ...] = (),
    busy: tuple[int, ...] = (),
    **more: Any,
) -> Decision:
    return decide(
        steps,
        order,
        own,
        lambda s: "torn" if s.step in doubt else "",
        lambda s: "held by upload" if s.step in busy else "",
        **more,
    )


def freed(decision: Decision) -> list[int]:
    return [s.step for s in decision.free]


def test_what_is_older_than_the_newest_n() -> None:
    decision = go([one(s) for s in (5, 10, 15, 20, 100)], Order(2, 2))
    assert freed(decision) == [5, 10, 15]
    assert decision.kept == [100, 20]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_fewer_than_are_to_be_kept_lose_nothing(count: int) -> None:
    """A loop that never ran for fewer than KEEP marked every one for deletion, the one that the
    pointer named among them.
    """
    assert freed(go([one(5 * s) for s in range(1, count + 1)], Order(3, 3))) == []


def test_a_half_written_newest_one_costs_no_whole_one() -> None:
    """With keep 1 a directory that had just been made let the last complete checkpoint be
    deleted.
    """
    steps = [one(5), one(10), one(15, complete=False), one(20, complete=False)]
    assert freed(go(steps, Order(2, 2))) == []
    assert freed(go([one(1), *steps], Order(2, 2))) == [1]


def test_one_that_does_not_verify_does_not_count_and_is_not_taken() -> None:
    steps = [one(s) for s in (5, 10, 15, 20)]
    decision = go(steps, Order(2, 2), doubt=(20,))
    assert decision.kept == [15, 10]
    assert freed(decision) == [5]
    refused = go(steps, Order(2, 2), doubt=(20, 15, 10))
    assert freed(refused) == []
    assert (
        refused.refused
        == "1 of 2 checkpoints that must stay can be verified; in doubt: step 20 (torn), step "
        "15 (torn), step 10 (torn)"
    )


def test_leftovers_of_steps_that_are_gone_go_too() -> None:
    steps = [
        one(2, complete=False),
        one(5),
        one(7, complete=False),
        one(10),
        one(12, complete=False),
        one(15),
    ]
    assert freed(go(steps, Order(2, 2))) == [2, 5, 7]


def test_milestones_stay() -> None:
    steps = [one(0), *(one(s) for s in (50, 60, 100, 110, 120)), one(150, complete=False)]
    decision = go(steps, Order(2, 2, milestones=50))
    assert freed(decision) == [0, 60]
    assert decision.spared == {50: "a milestone", 100: "a milestone"}


def test_no_file_is_opened_while_nothing_can_go() -> None:
    """Milestones stay for weeks, and the guard looks every five seconds."""
    looked: list[int] = []

    def verified(one: StepSet) -> str:
        looked.append(one.step)
        return ""

    decide(
        [one(s) for s in (50, 100, 110, 120)],
        Order(2, 2, milestones=50),
        ALONE,
        verified,
        lambda s: "",
    )
    assert looked == []
    decide(
        [one(s) for s in (50, 60, 100, 110, 120)],
        Order(2, 2, milestones=50),
        ALONE,
        verified,
        lambda s: "",
    )
    assert looked == [120, 110]


def test_in_an_emergency_fewer_stay_only_when_the_user_said_so() -> None:
    steps = [one(s) for s in (5, 10, 15, 20)]
    assert freed(go(steps, Order(4, 4), emergency=True)) == []
    assert freed(go(steps, Order(4, 3), emergency=True)) == [5]
    assert freed(go(steps, Order(4, 3))) == []
    assert freed(go(steps, Order(0, 0), emergency=True)) == [5, 10], (
        "never one of the two newest, whatever the record says"
    )


def test_a_run_that_was_set_back_keeps_its_new_low_numbers() -> None:
    """Resumed at 50 with 80 to 100 left lying: by number the newest work is the oldest."""
    steps = [
        one(40, t=1),
        one(50, t=2),
        one(55, t=100),
        one(60, t=101),
        one(80, t=5),
        one(90, t=6),
        one(100, t=7),
    ]
    decision = go(steps, Order(2, 2))
    assert freed(decision) == [40, 50, 80]
    assert set(decision.spared) == {55, 60}


def test_the_best_one_stays_however_old_it_is() -> None:
    """verl: "best 0.5938 at step 105", and its checkpoint was gone."""
    steps = [one(s) for s in (100, 105, 110, 115, 120)]
    worth = {100: 0.41, 105: 0.5938, 110: 0.5, 115: 0.52, 120: 0.55}
    order = Order(2, 2, best="val")
    decision = go(steps, order, quality=Quality(worth))
    assert freed(decision) == [100, 110]
    assert decision.spared == {105: "the best by val"}
    assert freed(go(steps, Order(2, 2), quality=Quality(worth))) == [100, 105, 110]
    # Its disk does not matter.
    assert 105 not in freed(go(steps, order, emergency=True, quality=Quality(worth)))


def test_a_best_one_that_is_torn_protects_the_next_best_too() -> None:
    steps = [one(s) for s in (100, 105, 110, 115, 120)]
    worth = {100: 0.41, 105: 0.5938, 110: 0.56, 115: 0.52, 120: 0.55}
    decision = go(steps, Order(2, 2, best="val"), doubt=(105,), quality=Quality(worth))
    assert freed(decision) == [100]


def test_while_the_metric_is_not_known_nothing_complete_goes() -> None:
    steps = [one(5, complete=False), *(one(s) for s in (10, 15, 20, 25))]
    decision = go(steps, Order(2, 2, best="val"))
    assert freed(decision) == [5]
    assert decision.spared == {10: "its val is not known", 15: "its val is not known"}
    # What was recorded before the first value may be the best.
    later = go(steps, Order(2, 2, best="val"), quality=Quality({15: 0.1, 20: 0.2, 25: 0.3}))
    assert freed(later) == [5, 15]
    assert later.spared == {10: "its val is not known"}


def test_one_of_unknown_value_stays_wherever_it_lies() -> None:
    """Only those below the oldest value stayed, although the page said that all do."""
    steps = [one(s) for s in (10, 15, 20, 25, 30)]
    quality = Quality({10: 0.1, 25: 0.2, 30: 0.3}, frozenset({20}))
    decision = go(steps, Order(2, 2, best="val"), quality=quality)
    assert freed(decision) == [10, 20]
    assert decision.spared == {15: "its val is not known"}


def test_held_and_changing_ones_are_left_alone() -> None:
    decision = go([one(s) for s in (5, 10, 15, 20)], Order(2, 2), busy=(5,))
    assert freed(decision) == [10]
    assert decision.spared == {5: "held by upload"}


OWN_ROOTS = frozenset({"/out/checkpoints"})


@pytest.mark.parametrize(
    ("saved", "gone"),
    [
        ((), []),  # it has found 5 to 20 at its start and will delete them after its first save
        ((20,), []),  # it is at it
        ((15, 20), [5, 10]),  # it has saved again: what it has not deleted by now it has forgotten
        ((5, 10, 15, 20), []),
    ],
)
def test_what_the_trainer_still_means_to_delete_is_the_trainers(
    saved: tuple[int, ...], gone: list[int]
) -> None:
    """An outside deleter made the trainer's own rmtree fail, and with it the run
    (cleanup-crashes-trainer).
    """
    steps = [one(s) for s in (5, 10, 15, 20)]
    assert freed(go(steps, Order(2, 2), OwnCleaning(3, saved, OWN_ROOTS))) == gone
    assert freed(go(steps, Order(2, 2), OwnCleaning(3, saved, frozenset({"/out/weights"})))) == [
        5,
        10,
    ], "a tree that it does not clean"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"last": 1},
        {"last": 0},
        {"last": "2"},
        {"last": True},
        {"last": 2, "milestones": -1},
        {"last": 3, "at_least": 1},
        {"last": 3, "at_least": 4},
        {"last": 3, "synced": "yes"},
    ],
)
def test_orders_that_would_lose_what_a_resume_needs_are_refused(body: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        order_fields(body)


def test_orders() -> None:
    assert order_fields({"last": 3}) == {
        "last": 3,
        "at_least": 3,
        "milestones": 0,
        "synced": False,
        "best": "",
    }
    assert Order.of(order_fields({"last": 3, "best": "reward"})) == Order(3, 3, best="reward")
    assert order_fields({"off": True})["best"] is None
    assert Order.of(order_fields({"last": 3, "synced": True})) == Order(3, 3, synced=True)
    assert Order.of({"last": 3, "at_least": 2, "milestones": 50, "who": "alice"}) == Order(
        3, 2, 50, "alice"
    )
    assert Order.of(dict(order_fields({"off": True}))) is None
    assert Order.of(None) is None
