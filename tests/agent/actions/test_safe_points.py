"""An agent leaves between two steps, never in one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bs4_agent.actions.safe_points import Boundaries

LONG = 20.0


class Worker:
    """An action of two steps; each ends when it is told to."""

    def __init__(self, boundaries: Boundaries) -> None:
        self._boundaries = boundaries
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
def working(boundaries: Boundaries) -> Iterator[Worker]:
    worker = Worker(boundaries)
    assert worker.begun[0].wait(LONG)
    try:
        yield worker
    finally:
        boundaries.release()
        for event in worker.may_end:
            event.set()
        worker.thread.join(LONG)
        assert not worker.thread.is_alive()


def test_nothing_under_way_is_held_at_once_and_nothing_begins() -> None:
    boundaries = Boundaries()
    assert boundaries.hold(0.0)
    worker = Worker(boundaries)
    assert not worker.begun[0].wait(0.05)
    boundaries.release()
    assert worker.begun[0].wait(LONG)
    for event in worker.may_end:
        event.set()
    worker.thread.join(LONG)


def test_a_step_is_waited_for_and_the_next_one_does_not_begin() -> None:
    boundaries = Boundaries()
    with working(boundaries) as worker:
        assert not boundaries.hold(0.0)
        threading.Timer(0.05, worker.may_end[0].set).start()
        assert boundaries.hold(LONG)
        assert not worker.begun[1].is_set()


def test_a_step_that_takes_too_long_ends_the_wait_and_goes_on() -> None:
    boundaries = Boundaries()
    with working(boundaries) as worker:
        assert not boundaries.hold(0.05)
        worker.may_end[0].set()
        assert worker.begun[1].wait(LONG)


def test_waiting_for_training_to_move_is_a_boundary_all_along() -> None:
    boundaries = Boundaries()
    resting, over, ended = threading.Event(), threading.Event(), threading.Event()

    def verify() -> None:
        with boundaries.step():
            with boundaries.rest():
                resting.set()
                over.wait(LONG)
            ended.set()

    thread = threading.Thread(target=verify, daemon=True)
    thread.start()
    assert resting.wait(LONG)
    assert boundaries.hold(0.0)
    over.set()
    assert not ended.wait(0.05)
    boundaries.release()
    assert ended.wait(LONG)
    thread.join(LONG)


def test_a_step_that_fails_is_over() -> None:
    boundaries = Boundaries()
    with pytest.raises(ZeroDivisionError), boundaries.step():
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), boundaries.step(), boundaries.rest():
        raise ZeroDivisionError
    assert boundaries.hold(0.0)
