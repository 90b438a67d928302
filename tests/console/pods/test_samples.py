"""The newest telemetry of a pod: what was packed is what came, in its order, and old records go."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from bs4_console.pods.samples import PACKED, Samples

MOST = 600


def record(t: float) -> dict[str, Any]:
    return {
        "t": t,
        "gpus": {
            "devices": [
                {"index": n, "util": int(t) % 100, "name": "H100", "power_w": 0.5 * t}
                for n in range(8)
            ]
        },
    }


@pytest.fixture
def filled() -> Samples:
    samples = Samples(MOST)
    for second in range(MOST + 5 * PACKED):
        samples.append(record(1000.0 + second))
    return samples


def test_what_is_held_comes_back_as_it_was_and_in_order(filled: Samples) -> None:
    held = list(filled)
    assert held == [record(held[0]["t"] + n) for n in range(len(held))]
    assert len(held) == len(filled)
    assert held == filled.between(-1.0, 1e9)
    assert filled.newest == held[-1] == record(1000.0 + MOST + 5 * PACKED - 1)
    assert filled.begin == held[0]["t"]


def test_at_most_so_many_are_held_and_hardly_fewer(filled: Samples) -> None:
    assert MOST - PACKED <= len(filled) <= MOST + PACKED


def test_a_stretch_across_packed_and_newest_ones_has_no_hole(filled: Samples) -> None:
    end = filled.newest["t"]  # type: ignore[index]
    assert [one["t"] for one in filled.between(end - 3 * PACKED, end)] == [
        end - 3 * PACKED + n for n in range(3 * PACKED + 1)
    ]


@pytest.mark.parametrize("back", [0.0, 0.4, PACKED - 0.6, 2.5 * PACKED + 0.4, MOST - 2 * PACKED])
def test_the_nearest_one_is_found(filled: Samples, back: float) -> None:
    t = filled.newest["t"] - back  # type: ignore[index]
    assert filled.near(t, 15.0) == record(round(t))


def test_nothing_is_near_a_time_that_nobody_saw(filled: Samples) -> None:
    assert filled.near(filled.newest["t"] + 15.1, 15.0) is None  # type: ignore[index]
    assert filled.near(filled.begin - 15.1, 15.0) is None  # type: ignore[operator]


def test_without_a_record_there_is_nothing() -> None:
    samples = Samples(MOST)
    assert (
        len(samples),
        samples.newest,
        samples.begin,
        samples.near(1.0, 9.0),
        samples.between(0, 9),
    ) == (0, None, None, None, [])
    assert not samples


def test_a_pod_that_is_forgotten_leaves_nothing(filled: Samples) -> None:
    filled.clear()
    assert not filled
    assert filled.begin is None


def test_a_full_history_takes_a_fraction_of_what_its_records_do() -> None:
    def taken(samples: Any) -> int:
        begin = tracemalloc.get_traced_memory()[0]
        for second in range(MOST):
            samples.append(record(float(second)))
        return tracemalloc.get_traced_memory()[0] - begin

    tracemalloc.start()
    try:
        plain, packed = [], Samples(MOST)
        assert taken(packed) < taken(plain) / 2
    finally:
        tracemalloc.stop()
