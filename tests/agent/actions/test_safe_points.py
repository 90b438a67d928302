"""An agent leaves between two steps, never in one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bs4_agent.actions.safe_points import SafePoints

LONG = 20.0


class Worker:
    """An action of two steps; each ends when it is told to."""

    def __init__(self, safe_points: SafePoints) -> None:
        self._boundaries = safe_points
        self.begun = [threading.Event(), threading.Event()]
        self.may_end = [threading.Event(), threading.Event()]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with self._boundaries.step():
            for begun, may_end in zip(self.begun, self.may_end, strict=True):
                with self._boundaries.rest():
                    pass
                begun.set()
                may_end.wait(LONG)


@contextmanager
def working(safe_points: SafePoints) -> Iterator[Worker]:
    worker = Worker(safe_points)
    assert worker.begun[0].wait(LONG)
    try:
        yield worker
    finally:
        safe_points.release()
        for event in worker.may_end:
            event.set()
        worker.thread.join(LONG)
        assert not worker.thread.is_alive()


def test_nothing_under_way_is_held_at_once_and_nothing_begins() -> None:
    safe_points = SafePoints()
    assert safe_points.hold(0.0)
    worker = Worker(safe_points)
    assert not worker.begun[0].wait(0.05)
    safe_points.release()
    assert worker.begun[0].wait(LONG)
    for event in worker.may_end:
        event.set()
    worker.thread.join(LONG)


def test_a_step_is_waited_for_and_the_next_one_does_not_begin() -> None:
    safe_points = SafePoints()
    with working(safe_points) as worker:
        assert not safe_points.hold(0.0)
        threading.Timer(0.05, worker.may_end[0].set).start()
        assert safe_points.hold(LONG)
        assert not worker.begun[1].is_set()


def test_a_step_that_takes_too_long_ends_the_wait_and_goes_on() -> None:
    safe_points = SafePoints()
    with working(safe_points) as worker:
        assert not safe_points.hold(0.05)
        worker.may_end[0].set()
        assert worker.begun[1].wait(LONG)


def test_waiting_for_training_to_move_is_a_boundary_all_along() -> None:
    safe_points = SafePoints()
    resting, over, ended = threading.Event(), threading.Event(), threading.Event()

    def verify() -> None:
        with safe_points.step():
            with safe_points.rest():
                resting.set()
                over.wait(LONG)
            ended.set()

    thread = threading.Thread(target=verify, daemon=True)
    thread.start()
    assert resting.wait(LONG)
    assert safe_points.hold(0.0)
    over.set()
    assert not ended.wait(0.05)
    safe_points.release()
    assert ended.wait(LONG)
    thread.join(LONG)


def test_a_step_that_fails_is_over() -> None:
    safe_points = SafePoints()
    with pytest.raises(ZeroDivisionError), safe_points.step():
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), safe_points.step(), safe_points.rest():
        raise ZeroDivisionError
    assert safe_points.hold(0.0)
