"""Filters over a store: which lines are left, and where the anchor is among them."""

from __future__ import annotations

import random
import re

import pytest

from bs4_console.logs import filter as log_filter
from bs4_console.logs.filter import Fold, Lens, LogFilter, compile_pattern
from bs4_console.logs.merge import rows_of
from bs4_console.logs.store import CAP_BYTES, MARK, LogStore
from bs4_console.logs.text import level_of, of_many

TEXT = b"".join(
    b"21:00:%02d %s line %d\n"
    % (i % 60, (b"   INFO", b"WARNING", b"  ERROR")[0 if i % 10 else 1 if i % 20 else 2], i)
    for i in range(3000)
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


@pytest.mark.parametrize(
    "text",
    [
        "line 17",
        "LINE 17",
        "17$",
        "WARNING|ERROR",
        "!INFO",
        "!info",
        r"line \d\d$",
        "(unclosed",
        "^21:00:07",
    ],
)
def test_a_filter_keeps_what_grep_keeps(text: str) -> None:
    view = lens()
    view.set(LogFilter.parse(text))
    pattern, invert = compile_pattern(text.removeprefix("!")), text.startswith("!")
    assert shown(view) == [
        line for line in TEXT.splitlines() if (pattern.search(line) is None) == invert
    ]


def test_a_match_may_not_reach_over_the_end_of_a_line() -> None:
    view = lens(b"foo\nbar\nfoo bar\n")
    view.set(LogFilter.parse(r"foo\sbar"))
    assert shown(view) == [b"foo bar"]


def test_a_level_takes_the_traceback_along() -> None:
    view = lens(b"00:00:01 INFO a\n00:00:02 ERROR b\nTraceback\n  File x\n00:00:03 INFO c\n")
    view.set(LogFilter.parse("", floor=30))
    assert shown(view) == [b"00:00:02 ERROR b", b"Traceback", b"  File x"]


def test_the_letter_of_a_line_in_glogs_form_is_its_level() -> None:
    """As torch's C++ parts write it, with no word of a level anywhere."""
    view = lens(
        b"00:00:01 ERROR a\nW1130 00:00:02.577306 25428 torch/x.py:9] b\n  more of b\n"
        b"E1130 00:00:03.577306 25428 torch/x.py:9] c\n  more of c\n00:00:04 INFO d\n"
    )
    view.set(LogFilter.parse("", floor=40))
    assert [line[-9:] for line in shown(view)] == [b"1 ERROR a", b"x.py:9] c", b"more of c"]
    view.set(LogFilter.parse("", floor=30))
    assert len(shown(view)) == 5


def test_new_lines_are_filtered_as_they_come() -> None:
    view = lens()
    view.set(LogFilter.parse("ERROR"))
    before = len(shown(view))
    view.store.append(b"00:00:00 INFO no\n00:00:00 ERROR yes\n")
    assert shown(view)[-1].endswith(b"yes")
    assert len(view) == before + 1


def test_an_unfinished_line_is_there_while_it_passes_and_once_when_it_is_whole() -> None:
    view = lens(b"00:00:01 INFO a\n00:00:02 INFO load\n")
    view.set(LogFilter.parse("load"))
    states: list[list[bytes]] = []
    numbers: list[int] = []
    for piece in (b"\rload 10%", b"\rload 20%", b"\rload 100%\n", b"00:00:03 INFO c", b"\n"):
        view.store.append(piece)
        states.append(shown(view)[1:])
        numbers += [view.number(1)] if len(view) > 1 else []
    assert states == [[b"load 10%"], [b"load 20%"], [b"load 100%"], [b"load 100%"], [b"load 100%"]]
    assert len(set(numbers)) == 1, (
        "it got another number when it was whole, so what points at it would point elsewhere"
    )


def test_an_unfinished_line_has_the_level_of_the_line_before_it() -> None:
    view = lens(b"00:00:01 INFO a\n00:00:02 ERROR b\nTraceback (most recent call last):\n")
    view.set(LogFilter.parse("", floor=40))
    view.store.append(b"RuntimeErr")
    assert shown(view)[-1] == b"RuntimeErr"
    view.store.append(b"or: gone\n00:00:03 INFO c\nhalf a li")
    assert shown(view)[-1] == b"RuntimeError: gone"


def test_unfinished_lines_of_several_sources_are_filtered_and_found() -> None:
    view = lens(b"")
    for source, text in enumerate((b"a rare one", b"b", b"c rare as well")):
        view.store.append(b"line\n" + text, source)
    view.set(LogFilter.parse("!line && !^b"))
    assert shown(view) == [b"a rare one", b"c rare as well"]
    assert [view.position(view.store.end + n) for n in range(3)] == [0, 1, 1]
    assert view.find(compile_pattern("rare"), -1, 1) == 0
    assert view.find(compile_pattern("rare"), 0, 1) == 1
    assert view.find(compile_pattern("rare"), 2, -1) == 1


def test_lines_behind_those_that_a_pod_sifted_have_the_level_of_the_last_of_them() -> None:
    wanted = LogFilter.parse("", floor=40)
    store = LogStore()
    store.append(b"00:00:00 INFO a\n")
    store.extend([(0, 1, 100, b"00:00:01 ERROR b")], wanted.key)
    store.append(b"Traceback\n00:00:02 INFO c\n")
    view = Lens(store)
    view.set(wanted, near=0)
    assert shown(view) == [b"00:00:01 ERROR b", b"Traceback"]


def test_older_lines_are_filtered_in_their_place() -> None:
    view = lens()
    view.set(LogFilter.parse("ERROR"))
    shown(view)
    older = b"00:00:00 ERROR older\n00:00:00 INFO no\n"
    view.store.prepend_rows(rows_of(older, 0, "0:0"))
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


def test_a_text_is_found_anywhere_in_a_long_line_and_an_expression_only_so_far() -> None:
    """An expression over an unbounded line is how a viewer hangs."""
    view = lens(b"short\n" + b"x" * 100_000 + b"needle\nneedle\n")
    for text, expected in (
        ("needle", 2),
        ("!needle", 1),
        ("needl[e]", 1),
        (re.escape("needle"), 2),
    ):
        view.set(LogFilter.parse(text))
        assert len(shown(view)) == expected, text
    view.set(LogFilter())
    assert view.find(compile_pattern("needle"), -1, 1) == 1
    assert view.find(compile_pattern("needl[e]"), -1, 1) == 2


def naive(lines: list[bytes], wanted: LogFilter) -> list[bytes]:
    level, kept = 0, []
    for line in lines:
        own = level_of(line)
        level = level if own is None else own
        if level >= wanted.floor and wanted.matches(line):
            kept.append(line)
    return kept


@pytest.mark.parametrize("seed", range(12))
def test_wherever_it_begins_and_however_it_is_cut_the_same_lines_pass(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(log_filter, "SLICE_LINES", chance.choice([1, 7, 64]))
    heads = [
        b"21:00:00    INFO ",
        b"21:00:00 WARNING ",
        b"21:00:00   ERROR ",
        b"W1130 21:00:00.577306 25428 torch/x.py:9] ",
        b"E1130 21:00:00.577306 25428 torch/x.py:9] ",
        b"  File ",
        b"no level, ERROR is a word here: " + b"x" * 90,
    ]
    lines = [chance.choices(heads, [20, 1, 1, 1, 1, 3, 1])[0] + b"%d" % n for n in range(600)]
    store = LogStore()
    for at in range(0, 400, 80):
        store.append(b"\n".join(lines[200 + at : 280 + at]) + b"\n")
    view = Lens(store)
    wanted = LogFilter.parse(chance.choice(["", "7", "!7"]), chance.choice([0, 20, 30, 40]))
    view.set(wanted, chance.choice([None, 0, 200, 399]))
    for _ in range(chance.randrange(5)):
        view.step(0.0)
    # an older page comes while it is at work
    store.prepend_rows(rows_of(b"\n".join(lines[:200]), 0, "0:0"))
    expected = naive(lines, wanted) if wanted.active else lines
    found = shown(view)
    # At the window's old edge a traceback's head was not held yet: its lines pass as if they had no
    # level.
    edge = {line for line in lines[200:210] if level_of(line) is None}
    assert [line for line in found if line not in edge] == [
        line for line in expected if line not in edge
    ]


def test_what_is_looked_at_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_filter, "SLICE_LINES", 100)
    view = lens()
    for near, wanted in ((None, b"line 2999"), (1500, b"line 1500"), (0, b"line 0")):
        view.set(LogFilter.parse("line"), near)
        view.step(0.0)
        assert any(view.store.line(view.number(i))[1].endswith(wanted) for i in range(len(view)))
        assert view.pending


@pytest.mark.parametrize("near", [None, 0, 1500])
def test_lines_fold_over_the_edges_of_slices(
    near: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_filter, "SLICE_LINES", 64)
    view = lens(
        b"".join(b"step %d done\n" % n for n in range(1000))
        + b"other\n"
        + b"".join(b"step %d done\n" % n for n in range(1000))
    )
    view.set(LogFilter.parse("", fold="alike"), near)
    assert shown(view) == [b"step 0 done", b"other", b"step 0 done"]
    assert sorted(view.folded.values()) == [999, 999]


def request(port: int, path: str = "/v1/chat/completions", status: str = "200 OK") -> bytes:
    method = "GET" if path.startswith(("/health", "/metrics")) else "POST"
    return f'INFO:     127.0.0.1:{port} - "{method} {path} HTTP/1.1" {status}\n'.encode()


@pytest.mark.parametrize("near", [None, 0, 150])
def test_requests_fold_and_what_failed_or_is_no_request_stays(
    near: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same request by different clients is one line. Another path, a bad answer, and lines that
    differ only in numbers are lines of their own.
    """
    monkeypatch.setattr(log_filter, "SLICE_LINES", 64)
    failed = request(5, status="500 Internal Server Error")
    view = lens(
        b"".join(map(request, range(100)))
        + failed
        + failed
        + request(7, "/update_weights")
        + b"".join(map(request, range(100)))
        + b"step 1 done\nstep 2 done\n"
    )
    view.set(LogFilter.parse("", fold="requests"), near)
    lines = [
        request(0),
        failed,
        failed,
        request(7, "/update_weights"),
        request(0),
        b"step 1 done\n",
        b"step 2 done\n",
    ]
    assert shown(view) == [line.rstrip(b"\n") for line in lines]
    assert view.folded == {0: 99, 103: 99}
    assert [view.stands_for(n) for n in (0, 50, 99, 100, 101, 102, 150, 203)] == [
        *(0, 0, 0, 100, 101, 102, 103, 203)
    ]


@pytest.mark.parametrize("near", [None, 0, 150])
def test_alternating_requests_are_one_line_that_counts_each(
    near: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a hang a log is half of them. What changes something, such as new weights, and what failed
    stay lines of their own, so does what a person looks for.
    """
    monkeypatch.setattr(log_filter, "SLICE_LINES", 64)
    polls = [request(n, path) for n in range(100) for path in ("/health", "/metrics?name=vllm")]
    failed = request(5, "/health", "503 Service Unavailable")
    weights = request(6, "/update_weights")
    lora = request(7, "/v1/load_lora_adapter")
    view = lens(b"".join([*polls, failed, weights, lora, request(8), *polls[:3]]))
    view.set(LogFilter.parse("", fold="requests"), near)
    heads = [polls[0], failed, weights, lora, request(8)]
    assert shown(view) == [line.rstrip(b"\n") for line in heads]
    assert view.folded == {0: 199, 203: 3}
    assert dict(view.requests[0]) == {b"GET /health 200": 100, b"GET /metrics 200": 100}
    assert dict(view.requests[203]) == {
        b"POST /v1/chat/completions 200": 1,
        b"GET /health 200": 2,
        b"GET /metrics 200": 1,
    }
    view.set(LogFilter.parse("", fold="requests", found="127.0.0.1:50 .*health"), near)
    assert len(shown(view)) == len(heads) + 2
    assert sorted(view.folded.values()) == [3, 98, 99]


def test_requests_that_come_later_are_counted_too_and_dropped_lines_are_forgotten() -> None:
    view = lens(b"", cap_bytes=2 * 1024 * 1024)
    view.set(LogFilter.parse("", fold="requests"))
    for _ in range(3):
        view.store.append(request(1, "/health") + request(2, "/metrics"))
        view.step(1.0)
    assert dict(view.requests[0]) == {b"GET /health 200": 3, b"GET /metrics 200": 3}
    while view.store.first == 0:
        view.store.append(b"step\n" + request(1) * 1000)
        view.step(1.0)
    view.step(1.0)
    assert min(view.folded) >= view.store.first
    assert min(view.requests) >= view.store.first


def test_requests_after_a_drop_of_all_lines_are_shown() -> None:
    """Catching up drops everything that is held. A line that is gone stands for none."""
    view = lens(request(1) * 3)
    view.set(LogFilter.parse("", fold="requests"))
    assert len(shown(view)) == 1
    view.store.drop()
    view.store.append(request(2) * 5 + request(3, "/metrics") * 5)
    assert shown(view) == [request(2)[:-1]]
    assert view.folded == {3: 9}
    assert view.requests == {3: {b"POST /v1/chat/completions 200": 5, b"GET /metrics 200": 5}}


@pytest.mark.parametrize(
    ("fold", "two"),
    [
        ("requests", request(1, "/health") + request(2)),
        ("alike", b"step 8 done, and more of it\nstep 9 done, and more of it\n"),
    ],
)
def test_of_lines_whose_head_was_dropped_the_first_that_is_held_is_the_head(
    fold: Fold, two: bytes
) -> None:
    """Both while the newest line is folded and when another one follows."""
    view = lens(b"", cap_bytes=5 * 1024 * 1024)
    view.set(LogFilter.parse("", fold=fold))
    while view.store.first < 10_000:
        view.store.append(two * 500)
        view.step(1.0)
    lines = [two.splitlines()[0]]
    assert shown(view) == lines
    first, count = view.store.first, len(view.store)
    assert (view.number(0), view.folded) == (first, {first: count - 1})
    assert fold == "alike" or view.requests[first].total() == count

    view.store.append(b"else\n")
    while view.store.first == first:
        view.store.append(two * 500)
        view.step(1.0)
    assert shown(view) == [*lines, b"else", *lines]
    assert view.number(0) == view.store.first > first
    assert sum(view.folded.values()) == len(view.store) - 3


def test_a_line_names_eight_requests_at_most_without_query_and_id() -> None:
    """A client that polls with another query, or asks for another id, is one name."""
    polls = [request(n, f"/health?n={n}") for n in range(1000)]
    asked = [request(n, f"/v1/responses/r{n}").replace(b"POST", b"GET") for n in range(1000)]
    answers = [request(1, status=f"{status} OK") for status in range(200, 220)]
    view = lens(b"".join([*polls, *asked, *answers]))
    view.set(LogFilter.parse("", fold="requests"))
    assert len(shown(view)) == 1
    counts = dict(view.requests[0])
    assert counts.pop(b"GET /health 200") == 1000
    assert counts.pop("GET /v1/responses/… 200".encode()) == 1000
    assert counts.pop(b"others") == 14
    assert counts == {b"POST /v1/chat/completions %d" % status: 1 for status in range(200, 206)}


@pytest.mark.parametrize(
    "line",
    [
        'INFO: 1:2 - "DELETE /v1/models/x HTTP/1.1" 200 OK',
        'INFO: 1:2 - "POST /v1/responses/r/cancel HTTP/1.1" 200 OK',
        'INFO: 1:2 - "POST /v1/models HTTP/1.1" 200 OK',
        '127.0.0.1 [29/Nov/2026:21:00:00 +0000] "GET /health HTTP/1.1" 200 2 "-" "curl"',
        '"GET /health HTTP/1.1" 200',
        'GET /health HTTP/1.1" 200',
    ],
)
def test_a_request_that_acts_or_is_told_in_another_form_is_folded_with_no_other(line: str) -> None:
    """Other forms: such a line would name its own request and hide the others."""
    row = line.encode() + b"\n"
    view = lens(request(1) + row + row + request(1, "/health") + request(2))
    view.set(LogFilter.parse("", fold="requests"))
    assert shown(view) == [request(1)[:-1], row[:-1], request(1, "/health")[:-1]]
    assert view.folded == {1: 1, 3: 1}


def test_a_line_of_many_requests_names_no_client() -> None:
    chat = b"POST /v1/chat/completions 200"
    assert of_many(request(40012)[:-1], {chat: 16}) == b"INFO:     " + chat
    behind = b"(APIServer pid=8) " + request(1, "/health")[:-1]
    assert of_many(behind, {}) == b"(APIServer pid=8) INFO:     GET /health 200"
    of_two = of_many(behind, {b"GET /health 200": 2, b"GET /metrics 200": 1})
    told = "(APIServer pid=8) INFO:     GET /health 200 ×2, GET /metrics 200 ×1"
    assert of_two.decode() == told


@pytest.mark.parametrize("seed", range(6))
def test_the_next_match_is_what_a_loop_over_the_lines_finds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(log_filter, "SLICE_LINES", chance.choice([1, 7, 64]))
    store = LogStore()
    for n in range(0, 300, 30):
        store.append(
            b"".join(
                b"line %d%s\n" % (i, b" rare" * (chance.random() < 0.05)) for i in range(n, n + 30)
            )
        )
        if chance.random() < 0.3:
            store.mark("a new file begins, which is rare")
    store.append(b"unfinished" + b" and rare" * chance.randrange(2))
    view = Lens(store)
    view.set(LogFilter.parse(chance.choice(["", "!3", "[05]"])))
    pattern = compile_pattern("rare")
    while view.step():
        pass
    lines = [view.store.line(view.number(i)) for i in range(len(view))]
    hits = [i for i, (source, line) in enumerate(lines) if source != MARK and pattern.search(line)]
    for at in range(-1, len(lines) + 1):
        assert view.find(pattern, at, 1) == next((i for i in hits if i > at), None)
        assert view.find(pattern, at, -1) == next((i for i in reversed(hits) if i < at), None)
