"""A raw line is passed over only when no text that it can have matches."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bs4_common.failures.prefilter import Prefilter
from bs4_common.failures.shapes import Shapes
from bs4_common.failures.signatures import Expression
from bs4_common.trainers import registry
from bs4_console.failures.patterns import literals, relaxed
from bs4_console.failures.playbooks import lint

PATTERNS = (
    r"^Step \d+ \|",
    r"needle$",
    r"(?i)^needle \w+",
    r"^(?:needle|[\w.]{0,9}thread): .{0,5}eye",
    r"needle[^a—]{2,3}thread",
    r"needle — \S+é",
    r"needle.thread(?=x)",
    r'"needle \S{0,4}" 200',
    r"^\s{1,3}needle\b",
    r"needle(?: \(.{1,4}\))?: thread\b",
    r"^[nN]eedle (?<!x)\D{2}thread",
)
WORD = st.sampled_from(
    [
        "needle",
        "Needle",
        "NEEDLE",
        "thread",
        " thread",
        ": ",
        "eye",
        "Step 4 |",
        "—",
        "é",
        "😀",
        '"',
        "\\",
        "\t",
        "a",
        "x",
        " ",
        "200",
        "(",
    ]
)
TEXT = st.lists(WORD, max_size=7).map("".join)
HEADS = st.sampled_from(
    [
        "",
        "12:00:01   ERROR ",
        "12:00:01 ",
        "[rank0]: ",
        "[default1]:",
        "(EngineCore_0 pid=7) ERROR 11-18 07:11:40 [core.py:1512] ",
        "2026-11-20 21:25:48,123 - a.b - ERROR - ",
        "ERROR:a.b:",
        "50%|##  | 3/6 [00:01<00:02, 1.0s/it]",
        "INFO:     ",
        "(APIServer pid=7) ",
    ]
)


def _seen(pattern: str, raw: bytes) -> bool:
    """Whether the line is worth it. The quicker ways may only find more: one escaped character is
    to them like another.
    """
    known = [("key", literals(pattern), relaxed(pattern))]
    others = [(f"other {number}", [f"no such word {number}"], "") for number in range(20)]
    ways = [Prefilter(known), Prefilter([*known, *others]), Prefilter(known, shapes=True)]
    few, many, shapes = (prefilter.next_line(raw, 0) < len(raw) for prefilter in ways)
    assert not many or (few and shapes)
    return many


def _matches(pattern: str, source: str, raw: bytes) -> bool:
    line = registry.get("prime-rl").parse_line(source, raw)
    return any(Expression(pattern).search(part) is not None for part in line.text.split("\n"))


@settings(max_examples=400)
@given(st.sampled_from(PATTERNS), HEADS, TEXT, st.sampled_from(["trainer", "inference", "kernel"]))
def test_no_plain_line_that_matches_is_passed_over(pattern, head, text, source):
    raw = (head + text).encode()
    assert _seen(pattern, raw) or not _matches(pattern, source, raw)


@settings(max_examples=400)
@given(st.sampled_from(PATTERNS), TEXT, TEXT, st.booleans(), st.booleans())
def test_no_json_line_that_matches_is_passed_over(pattern, text, second, ascii_only, exception):
    row = {
        "timestamp": "2026-08-21T12:00:01+00:00",
        "level": "ERROR",
        "message": text if exception else f"{text}\n{second}",
    }
    raw = json.dumps(
        {**row, **({"exception": second} if exception else {})}, ensure_ascii=ascii_only
    ).encode()
    assert _seen(pattern, raw) or not _matches(pattern, "trainer", raw)


def test_a_progress_record_is_always_taken_apart():
    raw = (
        b'{"timestamp": "2026-08-21T12:00:01+00:00", "level": "INFO", "type": "progress", '
        b'"desc": "needle", "percent": 50, "current": 3}'
    )
    assert _matches(r"^needle: 50% 3/None", "trainer", raw)
    assert _seen(r"^needle: 50% 3/None", raw)


@pytest.mark.parametrize(
    ("raw", "worth"),
    [
        (b"12:00:00 INFO needle: thread", True),
        (b"12:00:00 INFO needle (x): thread", True),
        (b"12:00:00 INFO needle: threads", False),
        (b"12:00:00 INFO needle and thread", False),
        (b"12:00:00 INFO a needle", False),
    ],
)
def test_near_misses_are_passed_over(raw, worth):
    assert _seen(r"^needle(?: \(.{1,4}\))?: thread\b", raw) is worth


def test_a_key_that_is_done_needs_no_line():
    prefilter: Prefilter[str] = Prefilter([("one", ["needle"], ""), ("two", ["thread"], "")])
    view = b"a needle\na thread\n"
    assert prefilter.next_line(view, 0) == 0
    prefilter.skip({"one"})
    assert prefilter.next_line(view, 0) == 9
    assert prefilter.idle == 1
    prefilter.skip(())
    assert prefilter.next_line(view, 0) == 0


def test_every_shipped_pattern_can_be_looked_for_in_bytes():
    patterns = [
        s["pattern"] for entry in lint()[0] for s in entry.get("detect", {}).get("logs", ())
    ]
    loose = [pattern for pattern in patterns if not relaxed(pattern)]
    assert len(patterns) > 300
    assert not loose, "these would take every line apart that holds one of their words"
    for pattern in patterns:
        re.compile(relaxed(pattern).encode("ascii"))


LINES = st.lists(
    st.lists(
        st.sampled_from(
            [
                "Xid 79",
                "Xid 1",
                "79",
                "errno 28",
                "Errno 28",
                "12",
                "0",
                " ",
                "x",
                "\\u0041",
                "step 7",
            ]
        ),
        max_size=4,
    ).map("".join),
    max_size=12,
)


@settings(max_examples=300)
@given(LINES, LINES, st.integers(0, 40), st.integers(0, 40))
def test_every_way_of_looking_finds_the_same_lines(first, second, start, back):
    """Also where digits are part of a word, in block after block, and when somebody asks again from
    further up.
    """
    needs = [("xid", ["Xid 79"], r"Xid 79"), ("errno", ["(?i)errno 28"], r"[eE]rrno 28")]
    ways = [
        Prefilter(needs),
        Prefilter(needs, shapes=True),
        Prefilter([needs[0]]),
        Prefilter([needs[0]], shapes=True),
    ]
    for lines in (first, second):
        raw = "\n".join(lines).encode()
        begins = [0, *(at + 1 for at, byte in enumerate(raw) if byte == 10)]
        for place in (begins[min(start, len(begins) - 1)], begins[min(back, len(begins) - 1)]):
            found = [prefilter.next_line(raw, place) for prefilter in ways]
            assert found[0] == found[1]
            assert found[2] == found[3]


def test_a_shape_whose_digits_are_another_words_is_still_seen():
    shapes = Shapes([("xid", ["Xid 79"])])
    assert shapes.starts(b"Xid 13\nXid 79\nnothing 1\nXid 7\n") == [0, 7]
    assert shapes.starts(b"nothing 2\nXid 79") == [10]


def test_shapes_whose_words_are_all_done_are_passed_over_until_they_count_again():
    shapes = Shapes([("xid", ["Xid 79"]), ("errno", ["(?i)errno 28"]), ("both", ["Xid 79 ERRNO"])])
    view = b"Xid 13\nErrNo 28\nXid 79 ERRNO\nXid 79 errno 28"
    assert shapes.starts(view) == [0, 7, 16, 29]
    shapes.skip({"xid", "both"})
    assert shapes.starts(view) == [7, 29]
    shapes.skip({"xid", "errno"})
    assert shapes.starts(view) == [16]
    shapes.skip({"xid", "errno", "both"})
    assert shapes.starts(view) == shapes.starts(view) == []
    shapes.skip(())
    assert shapes.starts(view) == [0, 7, 16, 29]
