"""Filters over a store: which lines are left, and where the anchor is among them."""

from __future__ import annotations

import pytest

from bs4_console.core.log_filter import Lens, LogFilter, compile_pattern
from bs4_console.core.log_store import CAP_BYTES, LogStore

TEXT = b"".join(
    b"21:00:%02d %s line %d\n" % (i % 60, (b"   INFO", b"WARNING", b"  ERROR")[0 if i % 10 else 1 if i % 20 else 2], i) for i in range(3000)
)


def lens(text: bytes = TEXT, cap_bytes: int = CAP_BYTES) -> Lens:
    held = LogStore(cap_bytes)
    held.append(text)
    return Lens(held)


def shown(view: Lens) -> list[bytes]:
    while view.step(0.0):
        pass
    return [view.store.line(view.number(i))[1] for i in range(len(view))]


def test_without_a_filter_it_is_the_identity() -> None:
    view = lens()
    assert shown(view) == TEXT.splitlines()


@pytest.mark.parametrize("text", ["line 17", "LINE 17", "17$", "WARNING|ERROR", "!INFO", "!info", r"line \d\d$", "(unclosed", "^21:00:07"])
def test_a_filter_keeps_what_grep_keeps(text: str) -> None:
    view = lens()
    view.set(LogFilter.parse(text))
    pattern, invert = compile_pattern(text.removeprefix("!")), text.startswith("!")
    assert shown(view) == [line for line in TEXT.splitlines() if (pattern.search(line) is None) == invert]


def test_a_match_may_not_reach_over_the_end_of_a_line() -> None:
    view = lens(b"foo\nbar\nfoo bar\n")
    view.set(LogFilter.parse(r"foo\sbar"))
    assert shown(view) == [b"foo bar"]


def test_a_level_takes_the_traceback_along() -> None:
    view = lens(b"00:00:01 INFO a\n00:00:02 ERROR b\nTraceback\n  File x\n00:00:03 INFO c\n")
    view.set(LogFilter.parse("", floor=30))
    assert shown(view) == [b"00:00:02 ERROR b", b"Traceback", b"  File x"]


def test_new_lines_are_filtered_as_they_come() -> None:
    view = lens()
    view.set(LogFilter.parse("ERROR"))
    before = len(shown(view))
    view.store.append(b"00:00:00 INFO no\n00:00:00 ERROR yes\n")
    assert shown(view)[-1].endswith(b"yes")
    assert len(view) == before + 1


def test_older_lines_are_filtered_in_their_place() -> None:
    view = lens()
    view.set(LogFilter.parse("ERROR"))
    shown(view)
    view.store.prepend(b"00:00:00 ERROR older\n00:00:00 INFO no\n")
    assert shown(view)[0].endswith(b"older")


def test_the_anchor_survives_filter_on_and_off() -> None:
    """The line at the top, by number, is found again: itself, or the next that is visible."""
    view = lens()
    number = 1234
    view.set(LogFilter.parse("ERROR"))
    shown(view)
    there = view.number(view.position(number))
    assert there == 1240
    view.set(LogFilter())
    assert view.number(view.position(there)) == 1240


def test_pruning_forgets_hits_and_keeps_the_anchor() -> None:
    view = lens(b"", cap_bytes=2 * 1024 * 1024)
    view.set(LogFilter.parse("ERROR"))
    for _ in range(60):
        view.store.append(TEXT)
        view.step(1.0)
    while view.step():
        pass
    assert view.store.first > 0
    assert view.number(0) >= view.store.first
    assert all(view.store.line(view.number(i))[1].split()[1] == b"ERROR" for i in range(len(view)))
    assert view.position(0) == 0


def test_find_goes_both_ways_and_stops_at_the_ends() -> None:
    view = lens()
    pattern = compile_pattern("line 100$")
    assert view.find(pattern, 0, 1) == 100
    assert view.find(pattern, 100, 1) is None
    assert view.find(pattern, 2999, -1) == 100


def test_a_long_line_is_looked_at_only_so_far() -> None:
    view = lens(b"x" * 100_000 + b"needle\n")
    view.set(LogFilter.parse("!nothing"))
    assert len(shown(view)) == 1
    view.set(LogFilter.parse("needle"))
    assert shown(view) == []
