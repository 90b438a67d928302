"""Counting, filtering and moving by the clock on the pod: each against the plain way of doing it
over the same bytes.
"""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from typing import Any

import pytest

from bs4_common.errors import BadRequest
from bs4_common.streams import blocks, clockseek
from bs4_common.streams.budget import Budget
from bs4_common.streams.logs import LogStream
from bs4_common.streams.query import Queries

LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40}


class Log:
    """Two files and their lines as a plain list of (cursor, line)."""

    def __init__(self, root: Path, *contents: bytes) -> None:
        self.lines: list[tuple[str, bytes]] = []
        stream = LogStream("log/r/t", root / "archive", root / "state.json")
        for attempt, content in enumerate(contents, 1):
            path = root / f"attempt{attempt}.log"
            path.write_bytes(content)
            stream.follow(path, attempt)
            stream.poll()
            stream.poll()
            at = 0
            for line in content.removesuffix(b"\n").split(b"\n"):
                self.lines.append((f"{attempt}:{at}", line))
                at += len(line) + 1
        self.queries = Queries(stream)

    def all(self, op: str, key: str, **arguments: Any) -> list[Any]:
        """What an op gives when it is asked on as it says."""
        found: list[Any] = []
        for _ in range(10_000):
            answer = self.queries.run(op, arguments)
            found += answer[key]
            if answer["next"] is None:
                return found
            arguments |= answer["next"]
        raise AssertionError("it never ends")


def written(seed: int, count: int, clock: int) -> bytes:
    """Lines with levels, tracebacks, colours, progress bars, and a clock that runs over
    midnight.
    """
    chance = random.Random(seed)
    lines = []
    for n in range(count):
        clock += chance.choice((0, 0, 1, 7, 61))
        stamp = f"{clock // 3600 % 24:02}:{clock // 60 % 60:02}:{clock % 60:02}"
        level = chance.choice(("DEBUG", "INFO", "INFO", "INFO", "WARNING", "ERROR"))
        colour = ("\x1b[31m", "\x1b[0m") if n % 11 == 0 else ("", "")
        lines.append(
            f"{stamp} {colour[0]}{level:>7}{colour[1]} Step {n} | Loss: "
            f"0.{chance.randrange(10**5):05}"
        )
        if n % 37 == 0:
            lines += [
                "Traceback (most recent call last):",
                '  File "x.py", line 3',
                "ValueError: timeout of Worker",
            ]
        if n % 53 == 0:
            lines.append(f"10%|# |\r50%|##|\r100%|###| {n}/99")
    return "\n".join(lines).encode() + b"\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setattr("bs4_common.streams.chain.QUIET_S", 0.0)
    # Small blocks and strides, so that their edges fall everywhere.
    monkeypatch.setattr(blocks, "BLOCK", 700)
    monkeypatch.setattr(clockseek, "STRIDE", 900)
    return Log(tmp_path, written(1, 600, 85_000), written(2, 600, 12_000))


def plain(line: bytes) -> bytes:
    text = re.sub(rb"\x1b\[[0-9]*m", b"", line)
    return text.split(b"\r")[-1]


def inside(cursor: str, stretch: list[int]) -> bool:
    generation, offset = map(int, cursor.split(":"))
    return generation == stretch[0] and stretch[1] <= offset < stretch[2]


@pytest.mark.parametrize(
    ("line", "clock"),
    [
        (b"21:36:59 INFO x", 21 * 3600 + 36 * 60 + 59),
        (b"2026-01-09 00:00:07,120 INFO x", 7),
        (b"took 1:2:3", None),
        (b"24:00:00", None),
        (b"no clock here", None),
        (b"." * 60 + b"21:36:59", None),
    ],
)
def test_the_clock_of_a_line(line: bytes, clock: int | None) -> None:
    assert clockseek.clock_of(line) == clock


@pytest.mark.parametrize(
    ("pattern", "ignore_case", "regex"),
    [
        ("Step 77", False, False),
        ("step 77", True, False),
        ("WORKER", True, False),
        ("INFO Step", False, False),
        ("Loss", False, False),
        ("nowhere", False, False),
        (r"Step \d*7 ", False, True),
        (r"step .*0\.9", True, True),
        (r"\AValue", False, True),
    ],
)
def test_a_count_is_that_of_the_lines_one_by_one(
    log: Log, pattern: str, ignore_case: bool, regex: bool
) -> None:
    flags = re.IGNORECASE if ignore_case else 0
    matcher = re.compile((pattern if regex else re.escape(pattern)).encode(), flags)
    expected = [
        cursor
        for cursor, line in log.lines
        if matcher.search(plain(line) if regex else re.sub(rb"\x1b\[[0-9]*m", b"", line))
    ]
    stretches = log.all("count", "stretches", pattern=pattern, ignore_case=ignore_case, regex=regex)
    assert sum(stretch[3] for stretch in stretches) == len(expected)
    for stretch in stretches:
        assert stretch[3] == sum(inside(cursor, stretch) for cursor in expected)
    for backwards in (False, True):
        hits = log.all(
            "search",
            "hits",
            pattern=pattern,
            ignore_case=ignore_case,
            regex=regex,
            backwards=backwards,
            limit=7,
        )
        assert [hit["cursor"] for hit in hits] == (expected[::-1] if backwards else expected)


@pytest.mark.usefixtures("in_one_slice")
def test_a_search_backwards_starts_where_it_is_told(log: Log) -> None:
    cursors = [cursor for cursor, line in log.lines if b"Step 7" in line]
    answer = log.queries.run(
        "search", {"pattern": "Step 7", "backwards": True, "cursor": cursors[5], "limit": 2}
    )
    assert [hit["cursor"] for hit in answer["hits"]] == cursors[4:2:-1]
    assert answer["next"] is not None


@pytest.mark.usefixtures("in_one_slice")
def test_a_count_goes_on_when_the_log_has_grown(tmp_path: Path) -> None:
    log = Log(tmp_path, b"needle one\nno\nneedle unfinish")
    first = log.queries.run("count", {"pattern": "needle"})
    assert (sum(s[3] for s in first["stretches"]), first["cursor"], first["next"]) == (
        1,
        "1:14",
        None,
    )
    with (tmp_path / "attempt1.log").open("ab") as handle:
        handle.write(b"ed\nneedle three\n")
    second = log.queries.run("count", {"pattern": "needle", "cursor": first["cursor"]})
    assert sum(s[3] for s in second["stretches"]) == 2


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("terms", "floor"),
    [
        ([], 30),
        ([], 40),
        ([{"pattern": "Step [0-9]*3 "}], 0),
        ([{"pattern": "step", "ignore_case": True}, {"pattern": "[05]$", "out": True}], 20),
        ([{"pattern": "Traceback|Error", "out": True}], 40),
        ([{"pattern": "INFO Step"}, {"pattern": "Loss: 0.1"}], 0),
        ([{"pattern": "100%"}], 0),
        ([{"pattern": "10%"}], 0),
    ],
)
def test_a_filter_gives_the_lines_that_pass(
    log: Log, terms: list[dict[str, Any]], floor: int, backwards: bool
) -> None:
    expected, level = [], 0
    for cursor, line in log.lines:
        text = plain(line)
        own = next(
            (LEVELS[word] for word in LEVELS if re.search(rb"\b%s\b" % word.encode(), text[:90])),
            None,
        )
        level = level if own is None else own
        passes = all(
            bool(
                re.search(t["pattern"].encode(), text, re.IGNORECASE if t.get("ignore_case") else 0)
            )
            != t.get("out", False)
            for t in terms
        )
        if level >= floor and passes:
            expected.append([cursor, text.decode(), len(text)])
    # "ERROR" of the first file does not reach into the second.
    found = log.all("sift", "lines", terms=terms, floor=floor, backwards=backwards, limit=9)
    assert found == (expected[::-1] if backwards else expected)


def test_the_letter_of_a_line_in_glogs_form_is_its_level(tmp_path: Path) -> None:
    """As torch writes it, with no word of a level anywhere."""
    head = "1130 06:49:10.577306 25428 torch/distributed/x.py:12] "
    log = Log(tmp_path, f"W{head}a\n[rank0]:E{head}b\n  more of b\nW{head}c\n".encode())
    errors = log.all("sift", "lines", terms=[], floor=40)
    assert [text[-9:] for _, text, _ in errors] == [".py:12] b", "more of b"]
    assert len(log.all("sift", "lines", terms=[], floor=30)) == 4
    assert log.all("sift", "lines", terms=[], floor=50) == []


def test_the_letter_counts_in_torchs_cpp_lines_too(tmp_path: Path) -> None:
    lines = [
        b"12:00:00    INFO a",
        b"[rank5]:[E821 08:22:33.123456999 ProcessGroupNCCL.cpp:1383] x",
        b"[I821 08:22:34.1 y.cpp:1] y",
    ]
    log = Log(tmp_path, b"\n".join(lines) + b"\n")
    assert [line[1][-1] for line in log.all("sift", "lines", terms=[], floor=40)] == ["x"]


@pytest.mark.usefixtures("in_one_slice")
def test_a_filter_answers_how_far_it_came(log: Log) -> None:
    answer = log.queries.run("sift", {"terms": [{"pattern": "nowhere"}], "backwards": True})
    assert answer == {"lines": [], "cursor": "1:0", "next": None}
    answer = log.queries.run("sift", {"terms": [{"pattern": "nowhere"}], "cursor": "1:0"})
    assert (answer["lines"], answer["next"]) == ([], None)
    assert answer["cursor"] == str(log.queries.run("stat", {})["end"])


@pytest.mark.usefixtures("in_one_slice")
def test_where_a_line_is(log: Log) -> None:
    for number in (0, 1, 500, 777, len(log.lines) - 1):
        answer = log.queries.run("where", {"cursor": log.lines[number][0]})
        assert (answer["line"], answer["lines"]) == (number, len(log.lines))
    assert log.queries.run("where", {})["line"] == len(log.lines)


@pytest.mark.usefixtures("in_one_slice")
def test_moving_by_the_clock_over_midnight_and_files(log: Log) -> None:
    clocks: list[tuple[int, str]] = []
    day = 0
    for cursor, line in log.lines:
        found = re.match(rb"(\d\d):(\d\d):(\d\d)", plain(line))
        if found:
            clock = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
            day += 86400 if clocks and clock + day < clocks[-1][0] - 43200 else 0
            clocks.append((clock + day, cursor))
    assert day > 0, "the test needs a midnight"
    chance = random.Random(5)
    for _ in range(60):
        (here, cursor), (there, _) = chance.choice(clocks), chance.choice(clocks)
        seconds = there - here
        first = next(c for t, c in clocks if t >= there)
        if seconds > 0:
            first = next(c for t, c in clocks if t >= there and t > here)
        answer = log.queries.run("seek-clock", {"cursor": cursor, "seconds": seconds})["cursor"]
        wall = {c: t for t, c in clocks}
        assert wall[answer] == wall[first], (here, there)
    assert (
        log.queries.run("seek-clock", {"cursor": clocks[3][1], "seconds": -10 * 86400})["cursor"]
        == clocks[0][1]
    )
    end = str(log.queries.run("stat", {})["end"])
    assert (
        log.queries.run("seek-clock", {"cursor": clocks[3][1], "seconds": 10 * 86400})["cursor"]
        == end
    )


@pytest.mark.usefixtures("in_one_slice")
def test_a_log_without_a_clock_says_so(tmp_path: Path) -> None:
    log = Log(tmp_path, b"no\nclock\nhere\n")
    assert log.queries.run("seek-clock", {"cursor": "1:0", "seconds": 60})["cursor"] is None


def test_a_line_longer_than_a_block_is_found_and_counted(tmp_path: Path) -> None:
    long = b"x" * (3 * blocks.BLOCK) + b" needle\n"
    log = Log(tmp_path, b"first needle\n" + long + b"last needle\n")
    for backwards in (False, True):
        hits = log.all("search", "hits", pattern="needle", backwards=backwards)
        assert len(hits) == 3
    assert sum(s[3] for s in log.all("count", "stretches", pattern="needle")) == 3


@pytest.mark.parametrize("regex", [False, True])
def test_a_hit_far_inside_a_line_says_where_the_line_begins_and_how_far_in_it_is(
    tmp_path: Path, regex: bool
) -> None:
    far = 3 * blocks.BLOCK - 3  # over the edge of two blocks
    long = b"x" * far + b"needle" + b"y" * blocks.BLOCK + b"needle\n"
    log = Log(tmp_path, b"first\n" + long + b"last\n")
    pattern = "needle" if not regex else re.escape("needle")
    for backwards in (False, True):
        hits = log.all("search", "hits", pattern=pattern, regex=regex, backwards=backwards)
        assert {hit["cursor"] for hit in hits} == {"1:6"}
        if not regex:
            assert [hit["at"] for hit in hits] == [far + 6 + blocks.BLOCK if backwards else far]
    assert sum(s[3] for s in log.all("count", "stretches", pattern="needle")) == 1


@pytest.mark.usefixtures("in_one_slice")
def test_lines_longer_than_a_block_are_counted_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 64)
    chance = random.Random(3)
    lines = [
        b"".join(
            chance.choices([b"x" * 20, b"lo", b"ss", b"loss", b"y"], k=chance.randrange(1, 40))
        )
        for _ in range(400)
    ]
    log = Log(tmp_path, b"\n".join(lines) + b"\n")
    for ignore_case in (False, True):
        found = sum(
            s[3] for s in log.all("count", "stretches", pattern="loss", ignore_case=ignore_case)
        )
        assert found == sum(b"loss" in line for line in lines)
    starts = [sum(len(line) + 1 for line in lines[:n]) for n in range(len(lines))]
    expected = [f"1:{at}" for at, line in zip(starts, lines, strict=True) if b"loss" in line]
    for backwards in (False, True):
        hits = [
            hit["cursor"]
            for hit in log.all("search", "hits", pattern="loss", backwards=backwards, limit=500)
        ]
        assert hits == (expected[::-1] if backwards else expected)


def test_a_long_line_is_counted_once_although_the_time_is_over_inside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 64)
    log = Log(tmp_path, (b"loss " * 100 + b"\n") * 40)
    looked = itertools.count()
    # Each slice ends at another place; a line has eight blocks.
    monkeypatch.setattr(Budget, "spent", property(lambda self: next(looked) % 21 == 20))
    assert sum(s[3] for s in log.all("count", "stretches", pattern="loss")) == 40


def test_a_filter_finds_a_text_in_the_whole_of_a_line_and_an_expression_in_its_beginning(
    tmp_path: Path,
) -> None:
    log = Log(tmp_path, b"x" * 20_000 + b" needle\nneedle\n")
    assert [size for _, _, size in log.all("sift", "lines", terms=[{"pattern": "needle"}])] == [
        20_007,
        6,
    ]
    assert [size for _, _, size in log.all("sift", "lines", terms=[{"pattern": "needl[e]"}])] == [6]


@pytest.mark.usefixtures("in_one_slice")
def test_the_way_back_ends_where_its_room_does(tmp_path: Path) -> None:
    log = Log(tmp_path, b"first\n" + b"x" * 1_000_000 + b"\n" + b"short\n" * 10)
    whole = log.queries.run("seek-line", {"line": -5, "room": 1000})
    assert whole == {"cursor": "1:1000037", "next": None}
    before = log.queries.run("seek-line", {"line": -500, "room": 100_000})
    assert before == {"cursor": "1:1000007", "next": None, "cut": True, "within": False}
    inside = log.queries.run(
        "seek-line", {"line": -500, "room": 100_000, "cursor": before["cursor"]}
    )
    assert (inside["cut"], inside["within"]) == (True, True)
    assert 100_000 <= 1_000_007 - int(inside["cursor"][2:]) < 100_000 + 2 * 65536
    assert log.queries.run("seek-line", {"line": -500, "room": 5_000_000}) == {
        "cursor": "1:0",
        "next": None,
    }


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("count", {}),
        ("count", {"pattern": ""}),
        ("count", {"pattern": "(", "regex": True}),
        ("sift", {"terms": "x"}),
        ("sift", {"terms": [{"pattern": 5}]}),
        ("sift", {"terms": [{"pattern": "x"}] * 17}),
        ("sift", {"floor": "ERROR"}),
        ("seek-clock", {}),
        ("seek-clock", {"seconds": 1e12}),
        ("where", {"cursor": 7}),
        ("seek-line", {"line": -1, "room": 0}),
        ("seek-line", {"line": -1, "room": "all"}),
    ],
)
def test_a_senseless_question_is_refused(log: Log, op: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        log.queries.run(op, arguments)
