from __future__ import annotations

from bs4_common.streams.generations import MAX_PAIRS, Trail


def test_the_last_size_before_a_time() -> None:
    trail = Trail()
    for n in range(100):
        trail.add(1000.0 + 2 * n, n * 10)
    assert [trail.size_at(t) for t in (999.9, 1000.0, 1001.9, 1002.0, 5000.0)] == [
        None,
        0,
        0,
        10,
        990,
    ]


def test_at_most_one_a_second_and_none_while_the_clock_is_set_back() -> None:
    trail = Trail()
    for t, size in ((10.0, 1), (10.5, 2), (5.0, 3), (10.9, 4), (11.0, 5)):
        trail.add(t, size)
    assert trail.saved(9) == [[10.0, 1], [11.0, 5]]


def test_a_week_stays_small_and_close() -> None:
    trail = Trail()
    week = 7 * 86400
    for second in range(week):
        trail.add(float(second), second * 100)
    assert len(trail.saved(10**6)) < MAX_PAIRS
    for t in (0.0, 3600.0, 86400.0, 400000.5, week - 1.0):
        size = trail.size_at(t)
        assert size is not None
        assert 0 <= t * 100 - size <= 100 * 512


def test_a_few_pairs_survive_a_restart() -> None:
    trail = Trail()
    for second in range(1000):
        trail.add(float(second), second)
    saved = trail.saved(16)
    assert len(saved) <= 16
    again = Trail(saved)
    assert again.size_at(saved[5][0]) == saved[5][1]
    assert again.size_at(500.0) is not None
