"""When the disk is full, by sizes and pace."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_common.checkpoints.forecast import Forecast, Limits, forecast
from bs4_common.checkpoints.sets import Part, StepSet

T0 = 1_800_000_000.0
GB = 10**9


def one(step: int, *, every_s: float = 60.0, complete: bool = True, **sizes: int) -> StepSet:
    parts = {
        name: Part(name, Path(f"/x/{name}/step_{step}"), size, T0 + step * every_s, "")
        for name, size in sizes.items()
    }
    return StepSet(step, complete, parts, {}, [part.path for part in parts.values()])


def run(*steps: int, **more: float) -> list[StepSet]:
    return [
        one(step, trainer=10 * GB, orchestrator=1 * GB, broadcast=2 * GB, **more) for step in steps
    ]  # type: ignore[arg-type]


def test_without_a_checkpoint_nothing_is_known() -> None:
    assert forecast([], 100 * GB, interval=5) == Forecast(every_steps=5)


def test_without_limits_the_save_that_does_not_fit_is_named() -> None:
    seen = forecast(run(5, 10, 15), 30 * GB)
    assert (seen.set_bytes, seen.every_steps, seen.every_s, seen.room) == (13 * GB, 5, 300.0, 2)
    assert seen.full_step == 30, "two fit, the third does not"
    assert seen.full_t == pytest.approx(T0 + 30 * 60)
    assert not seen.lasts


def test_the_new_one_must_fit_before_an_old_one_goes() -> None:
    """keep_last deletes after the save: three lie there for a moment where two are kept, (keep + 1)
    times the size.
    """
    limits = Limits(keep=2)
    assert forecast(run(5, 10), 13 * GB, limits=limits).lasts
    short = forecast(run(5, 10), 12 * GB, limits=limits)
    assert (short.full_step, short.lasts) == (15, False)
    # The second of two is still to come and stays: then the third needs its room beside it.
    assert forecast(run(10), 13 * GB, limits=limits, interval=5, step_s=60).full_step == 20
    assert forecast(run(10), 26 * GB, limits=limits, interval=5, step_s=60).lasts


def test_what_the_trainer_forgets_grows_on_under_its_keep_last() -> None:
    """2026-01 rotates its own tree and weights; orchestrator and broadcasts grow for ever."""
    limits = Limits(own_keep=2, own_parts=frozenset({"trainer", "weights"}))
    seen = forecast(run(5, 10), 20 * GB, limits=limits)
    # Every save needs 13; 3 stay of each: 20 - 3n >= 13 for n = 0, 1, 2.
    assert seen.full_step == 10 + 4 * 5
    assert forecast(
        run(5, 10), 20 * GB, limits=Limits(keep=3, own_keep=2, own_parts=limits.own_parts)
    ).lasts


def test_milestones_add_up() -> None:
    """Two of 13 GB lie there; the next needs 13 for a moment, and every 50th step stays: 50, 100,
    150 beside the two newest.
    """
    limits = Limits(keep=2, milestones=50)
    seen = forecast(run(5, 10), 40 * GB, limits=limits)
    # 40 - 13 n >= 13 for two of them; the third stays when step 160 is saved, and the save after
    # that does not fit.
    assert seen.full_step == 165
    assert forecast(run(5, 10), 40 * GB, limits=limits, goal=160).lasts
    # The trainer's own keep_last deletes its part of them all the same: what adds up is the rest.
    own = Limits(keep=2, milestones=50, own_keep=2, own_parts=frozenset({"trainer", "broadcast"}))
    assert forecast(run(5, 10), 40 * GB, limits=own, goal=500).lasts


def test_a_run_that_ends_before_lasts() -> None:
    assert forecast(run(5, 10, 15), 30 * GB, goal=25).lasts
    seen = forecast(run(5, 10, 15), 30 * GB, goal=30)
    assert (seen.to_come, seen.full_step) == (3, 30)
    assert not forecast(run(5, 10, 15), 30 * GB, goal=25, live=False).lasts, (
        "it saves nothing any more"
    )


def test_a_night_in_which_nothing_ran_is_no_pace() -> None:
    sets = [
        *run(5, 10, 15),
        *(one(step, every_s=60 + 40_000 / step, trainer=13 * GB) for step in (20, 25, 30)),
    ]
    assert forecast(sets, 30 * GB).every_s == pytest.approx(300.0)
    assert forecast(run(5, 10), 30 * GB, step_s=30.0).every_s == 150.0, (
        "the log knows better than the files"
    )


def test_half_sets_do_not_count() -> None:
    sets = [*run(5, 10), one(15, complete=False, orchestrator=1)]
    assert forecast(sets, 30 * GB).set_bytes == 13 * GB
    assert forecast(run(10), 30 * GB, interval=5).full_t is None, "one alone has no pace"
    assert forecast(run(5, 10), None).full_t is None, "a disk that does not answer"
