"""The store of a log view: numbers that stay, memory that does not grow."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bs4_console.logs.merge import rows_of
from bs4_console.logs.store import LINE_BYTES, MARK, OPEN_BYTES, OPEN_TOTAL, LogStore, Repeats
from bs4_console.logs.text import size_of

LINES = b"".join(
    b"21:36:59 INFO line %06d of the trainer's log, as long as such lines are, more or less\n" % i
    for i in range(20_000)
)


def lines(store: LogStore) -> list[bytes]:
    return [store.line(n)[1] for n in range(store.first, store.first + len(store))]


@settings(max_examples=100)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_chunks_may_be_cut_anywhere(cuts: list[int]) -> None:
    text = b"".join(b"line %d\n" % i for i in range(40))
    store, at = LogStore(), 0
    for cut in cuts:
        store.append(text[at : at + cut])
        at += cut
    store.append(text[at:])
    assert lines(store) == text.splitlines()


def test_an_unfinished_line_is_shown_and_then_completed() -> None:
    store = LogStore()
    store.append(b"one\ntw")
    assert lines(store) == [b"one", b"tw"]
    assert store.end == 1
    store.append(b"o\nthree")
    assert lines(store) == [b"one", b"two", b"three"]
    store.finish()
    assert store.end == 3
    assert lines(store) == [b"one", b"two", b"three"]


def test_a_progress_bar_shows_its_last_state_while_it_runs() -> None:
    store = LogStore()
    for percent in range(100):
        store.append(b"\r%3d%%|####" % percent)
    assert lines(store) == [b" 99%|####"]


def test_a_line_that_never_ends_is_bounded() -> None:
    store = LogStore()
    for _ in range(100):
        store.append(b"x" * 100_000)
        assert len(store._open[0].text) <= LINE_BYTES + 100_000
    assert len(store._open[0].text) <= OPEN_BYTES
    assert lines(store)[0].endswith(" … 10,000,000 bytes so far".encode())
    store.append(b"the end\nnext\n")
    first, last = lines(store)
    assert (first.startswith(b"xxx"), first.endswith(b"the end"), last) == (True, True, b"next")
    assert size_of(first) == 10_000_007
    assert len(first) < OPEN_BYTES + 100


def test_a_line_of_megabytes_is_held_whole_once_it_is_whole() -> None:
    store = LogStore()
    data = b"".join(b"<%07d>" % n for n in range(300_000))
    for at in range(0, len(data), 262_144):
        store.append(data[at : at + 262_144])
        assert len(lines(store)[0]) < OPEN_BYTES + 40, (
            "an unfinished line is looked at again with every read"
        )
    store.append(b"\n")
    assert lines(store) == [data]


def test_unfinished_lines_of_many_sources_are_bounded_together() -> None:
    store = LogStore()
    for _ in range(12):
        for source in range(40):
            store.append(b"x" * 300_000, source)
    assert sum(len(held.text) for held in store._open.values()) < OPEN_TOTAL + 40 * (
        OPEN_BYTES + 300_000
    )


def test_a_file_that_ends_in_a_long_line_without_an_end_says_how_much_is_missing() -> None:
    store = LogStore()
    for _ in range(50):
        store.append(b"x" * 100_000)
    store.finish()
    assert size_of(lines(store)[0]) == 5_000_000


def test_an_unfinished_line_is_found_by_its_place() -> None:
    store = LogStore()
    store.append(b"one\nhalf a line", 0, "1:0")
    assert store.number_at((0, 1, 4)) == 1
    assert store.place(1) == (0, 1, 4)


def test_an_escape_cut_in_two_is_still_removed() -> None:
    store = LogStore()
    store.append(b"a\x1b[3")
    store.append(b"1mb\n")
    assert lines(store) == [b"ab"]


def test_sources_do_not_mix() -> None:
    store = LogStore()
    store.append(b"trainer says ", 0)
    store.append(b"orchestrator talks\n", 1)
    store.append(b"something\n", 0)
    assert [store.line(n) for n in (0, 1)] == [
        (1, b"orchestrator talks"),
        (0, b"trainer says something"),
    ]


def test_pruning_keeps_the_numbers_and_the_bound() -> None:
    store = LogStore(cap_bytes=3 * 1024 * 1024)
    for _ in range(10):
        store.append(LINES)
    assert store.bytes <= 3 * 1024 * 1024
    assert store.end == 200_000
    assert store.first > 0
    assert store.line(store.end - 1)[1].startswith(b"21:36:59 INFO line 019999")
    assert store.line(store.first)[1] == LINES.splitlines()[store.first % 20_000]
    with pytest.raises(IndexError):
        store.line(store.first - 1)


def test_older_lines_get_negative_numbers() -> None:
    store = LogStore()
    store.append(b"three\nfour\n")
    assert store.prepend_rows(rows_of(b"one\ntwo\n", 0, "0:0")) == 2
    assert store.first == -2
    assert lines(store) == [b"one", b"two", b"three", b"four"]
    assert store.line(0)[1] == b"three"


def test_older_lines_are_refused_when_there_is_no_room() -> None:
    store = LogStore(cap_bytes=len(LINES))
    store.append(LINES[: len(LINES) // 2 + 1])
    assert store.prepend_rows(rows_of(LINES, 0, "0:0")) == 0
    assert store.full


def test_marks_are_lines_of_their_own() -> None:
    store = LogStore()
    store.append(b"before\n")
    store.mark("gap: 12.3 MB lost")
    store.append(b"after\n")
    assert [store.line(n) for n in range(3)] == [
        (0, b"before"),
        (MARK, b"gap: 12.3 MB lost"),
        (0, b"after"),
    ]


@pytest.mark.parametrize("repeats", [None, Repeats()])
def test_half_a_million_lines_a_second_on_one_core(repeats: Repeats | None) -> None:
    """The rate that the screen promises; measured 1 to 4 million. Splitting the lines into words is
    slower than that, and a busy machine stretches the CPU time of both. The best round of each.
    """
    store = LogStore(repeats=repeats)
    words, rounds = [], []
    for _ in range(10):
        begin = time.thread_time()
        assert len([line.decode().split() for line in LINES.splitlines()]) == 20_000
        words.append(time.thread_time() - begin)
        begin = time.thread_time()
        for at in range(0, len(LINES), 262144):
            store.append(LINES[at : at + 262144])
        rounds.append(time.thread_time() - begin)
    assert min(rounds) < min(words)


@pytest.mark.parametrize(
    ("line", "json"),
    [
        (b'{"timestamp": "2026-11-20T21:37:07+00:00", "level": "INFO", "message": "x"}', True),
        (b'[trainer0]:{"timestamp": "2026-11-20T21:37:07+00:00", "level": "INFO"}', True),
        (b'21:36:59 INFO The server answered {"timestamp": 1, "level": "x"}', False),
        (b'[trainer0]:21:36:59 INFO {"timestamp": 1}', False),
    ],
)
def test_a_plain_line_that_quotes_one_of_json_makes_no_log_of_json(line: bytes, json: bool) -> None:
    appended, put_before, extended = LogStore(), LogStore(), LogStore()
    appended.append(b"21:36:58 INFO one\n" + line + b"\n" + line + b"\n")
    put_before.prepend_rows([(0, 0, 0, b"one"), (0, 0, 4, line)])
    extended.extend([(0, 0, 0, b"one"), (0, 0, 4, line)])
    assert [appended.json, put_before.json, extended.json] == [json] * 3


def test_what_a_launcher_repeats_is_shown_once() -> None:
    store = LogStore(repeats=Repeats())
    line = b"21:36:59 SUCCESS Step 3 | Time: 31.27s | Loss: 0.0012\n"
    store.append(line + b"no clock, so it may be anybody's line\n" + b"21:36:59 x\n", 0)
    store.append(
        line
        + b"no clock, so it may be anybody's line\n"
        + b"21:36:59 x\n21:37:00 INFO only the launcher says this\n",
        1,
    )
    assert lines(store) == [
        line[:-1],
        b"no clock, so it may be anybody's line",
        b"21:36:59 x",
        b"no clock, so it may be anybody's line",
        b"21:36:59 x",
        b"21:37:00 INFO only the launcher says this",
    ]
    assert store.repeats is not None
    assert store.repeats.dropped == 1


def test_a_line_belongs_to_its_component_whichever_copy_came_first() -> None:
    line = b"21:36:59 SUCCESS Step 3 | Time: 31.27s | Loss: 0.0012\n"
    for first, second, owners in ((1, 0, {line: 0}), (0, 1, {})):
        store = LogStore(repeats=Repeats())
        store.append(line, first)
        store.append(line, second)
        assert store.end == 1
        assert store.repeats is not None
        assert store.repeats.owners == owners


def test_a_source_may_repeat_itself() -> None:
    store = LogStore(repeats=Repeats())
    for _ in range(3):
        store.append(b"21:36:59 WARNING Timeout waiting for enough tokens\n")
    assert store.end == 3


def test_the_memory_for_repeats_is_bounded() -> None:
    store = LogStore(repeats=Repeats())
    store.append(LINES)
    assert store.repeats is not None
    store.append(LINES)
    assert (
        sum(len(found) for pair in store.repeats._seen.values() for found in pair)
        <= 4 * Repeats.MEMORY
    )
