from __future__ import annotations

import calendar
import itertools
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bs4_common.clock import boot_id
from bs4_common.errors import BadCursor, BadRequest
from bs4_common.streams import lines as lines_module
from bs4_common.streams import regexscan
from bs4_common.streams.budget import Budget
from bs4_common.streams.logs import LogStream
from bs4_common.streams.query import Queries
from bs4_common.streams.segments import SegmentStream
from bs4_common.wire import encode

BASE = float(calendar.timegm((2026, 11, 20, 10, 0, 0)))


def log_time(line: bytes) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(line[:19].decode(), "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


def text_line(n: int) -> bytes:
    """Every third "line" is a traceback without a time."""
    time_text = time.strftime("%Y-%m-%dT%H:%M:%S.000000", time.gmtime(BASE + n))
    extra = b"\n  File x, line y\n    raise" if n % 3 == 0 else b""
    return time_text.encode() + b" INFO step %d loss 0.%d" % (n, n * 7919 % 10000) + extra


class Log:
    def __init__(
        self, root: Path, timestamp: Callable[[bytes], float | None] | None = log_time
    ) -> None:
        self.path = root / "t.log"
        self.stream = LogStream(
            "log/r/t", root / "archive", root / "state.json", timestamp=timestamp
        )
        self.stream.follow(self.path, 1)
        self.queries = Queries(self.stream)

    def lines(self) -> list[tuple[str, bytes]]:
        """(cursor, line) of everything, by reading."""
        found, cursor = [], "start"
        while (chunk := self.stream.read(cursor, 262144)).data:
            generation, offset = chunk.start.split(":")
            position = int(offset)
            for line in chunk.data.splitlines(keepends=True):
                found.append((f"{generation}:{position}", line.rstrip(b"\n")))
                position += len(line)
            cursor = chunk.next
        return found

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        """The answer when the query is asked on as it says."""
        hits: list[Any] = []
        while True:
            answer = self.queries.run(op, arguments)
            hits += answer.get("hits", [])
            if answer["next"] is None:
                return {**answer, "hits": hits}
            arguments |= answer["next"]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """3 MB in two files, the second without an end."""
    monkeypatch.setattr("bs4_common.streams.chain.QUIET_S", 0.0)
    log = Log(tmp_path)
    log.path.write_bytes(b"".join(text_line(n) + b"\n" for n in range(20000)))
    log.stream.poll()
    log.path.rename(tmp_path / "t.log.1")
    log.path.write_bytes(b"".join(text_line(n) + b"\n" for n in range(20000, 24000)))
    log.stream.poll()
    log.stream.poll()
    return log


def test_seek_line_from_both_ends(log: Log) -> None:
    lines = log.lines()
    assert len(lines) == 24000 + 2 * 8000
    for line in [0, 1, 2, 777, len(lines) - 1, *random.Random(1).sample(range(len(lines)), 40)]:
        assert log.ask("seek-line", line=line)["cursor"] == lines[line][0]
        assert log.ask("seek-line", line=line - len(lines))["cursor"] == lines[line][0]
    end = log.stream.stat()["end"]
    assert log.ask("seek-line", line=len(lines))["cursor"] == end
    assert log.ask("seek-line", line=10**9)["cursor"] == end
    assert log.ask("seek-line", line=-(10**9))["cursor"] == "1:0"
    assert log.ask("seek-line", line=-3, cursor=lines[5000][0])["cursor"] == lines[4997][0]


def test_the_index_is_small_and_right_when_its_stride_has_doubled(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "MAX_COUNTS", 4)
    lines = log.lines()
    for line in (3, 9000, 26000, 39000, 17):
        assert log.ask("seek-line", line=line)["cursor"] == lines[line][0]
    assert all(len(index._counts) < 4 for index in log.queries._indexes.values())


def test_every_line_where_strides_cut_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "STRIDE", 64)
    log = Log(tmp_path)
    random_lengths = random.Random(3)
    log.path.write_bytes(
        b"".join(
            b"x" * random_lengths.choice((0, 1, 30, 63, 64, 65, 200)) + b"\n" for _ in range(400)
        )
    )
    log.stream.poll()
    lines = log.lines()
    assert len(lines) == 400
    for line in range(400):
        assert log.ask("seek-line", line=line)["cursor"] == lines[line][0]
        assert log.ask("seek-line", line=line - 400)["cursor"] == lines[line][0]


def test_seeking_goes_on_where_the_slice_ended(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = log.lines()
    monkeypatch.setattr(
        Budget, "spent", property(lambda self: random.Random(id(self)).random() < 0.9)
    )
    for line in (39999, -39000, -5, 12345):
        asked = 0
        arguments: dict[str, Any] = {"line": line}
        while (answer := log.queries.run("seek-line", arguments))["next"] is not None:
            arguments |= answer["next"]
            asked += 1
            monkeypatch.undo() if asked > 20 else None
        assert answer["cursor"] == lines[line][0]


def test_lines_without_an_end_count(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.path.write_bytes(b"one\ntwo\nunfinished")
    log.stream.poll()
    assert [log.ask("seek-line", line=n)["cursor"] for n in (0, 1, 2, 3)] == [
        "1:0",
        "1:4",
        "1:8",
        "1:18",
    ]
    assert [log.ask("seek-line", line=n)["cursor"] for n in (-1, -2, -3, -4)] == [
        "1:8",
        "1:4",
        "1:0",
        "1:0",
    ]


def test_an_empty_stream(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for op, arguments in {
        "seek-line": {"line": -1},
        "seek-time": {"t": 1.0},
        "search": {"pattern": "x"},
    }.items():
        assert log.ask(op, **arguments).get("cursor", "1:0") == "1:0"
    assert log.ask("stat")["end"] == "1:0"


def test_seek_time_by_the_lines(log: Log) -> None:
    lines = log.lines()
    cursors = {time: cursor for cursor, line in lines if (time := log_time(line)) is not None}
    for n in (1, 2, 500, 19999, 20000, 20001, 23999, *random.Random(2).sample(range(24000), 40)):
        answer = log.ask("seek-time", t=BASE + n - 0.5)
        assert (answer["cursor"], answer["t"], answer["exact"]) == (
            cursors[BASE + n],
            BASE + n,
            True,
        )
    assert log.ask("seek-time", t=0)["cursor"] == "1:0"
    after = log.ask("seek-time", t=BASE + 10**6)
    assert after["exact"] is False


def test_seek_time_without_times_in_the_lines(tmp_path: Path) -> None:
    log = Log(tmp_path, timestamp=None)
    noted = []
    for n in range(2):
        with log.path.open("a") as handle:
            handle.write(f"batch {n}\nmore of {n}\n")
        log.stream.poll()
        noted.append((time.time(), log.path.stat().st_size))
        time.sleep(1.02 if n == 0 else 0)
    for t, size in noted:
        assert log.ask("seek-time", t=t)["cursor"] == f"1:{size}"
    log.stream.close()
    # What was noted outlives the agent.
    again = Log(tmp_path, timestamp=None)
    assert again.ask("seek-time", t=noted[1][0])["cursor"] == f"1:{noted[1][1]}"


@pytest.mark.usefixtures("in_one_slice")
def test_search_finds_each_line_once(log: Log) -> None:
    lines = log.lines()
    for pattern in ("step 777 ", "loss 0.99", "raise", "nowhere"):
        expected = [cursor for cursor, line in lines if pattern.encode() in line]
        assert [
            hit["cursor"] for hit in log.ask("search", pattern=pattern, limit=50)["hits"]
        ] == expected
    first = log.queries.run("search", {"pattern": "loss", "limit": 3})
    assert [hit["text"][26:38] for hit in first["hits"]] == [
        " INFO step 0",
        " INFO step 1",
        " INFO step 2",
    ]
    assert (
        log.queries.run(
            "search", {"pattern": "loss", "limit": 1, "cursor": first["next"]["cursor"]}
        )["hits"][0]["text"][36:38]
        == " 3"
    )


def test_search_by_regular_expression(log: Log) -> None:
    lines = log.lines()
    hits = log.ask("search", pattern=r"step \d*77 loss 0\.1", regex=True, limit=7)["hits"]
    expected = [cursor for cursor, line in lines if re.search(rb"step \d*77 loss 0\.1", line)]
    assert [hit["cursor"] for hit in hits] == expected
    with pytest.raises(BadRequest, match="no regular expression"):
        log.ask("search", pattern="(", regex=True)


def test_a_pattern_without_end_ends_and_stops_nothing_else(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.path.write_bytes(b"a" * 60 + b"!\n")
    log.stream.poll()
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.02):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        with pytest.raises(BadRequest, match="takes too long on a line"):
            log.ask("search", pattern="(a+)+$", regex=True)
    finally:
        done.set()
        thread.join()
    # Searched here, it would hold every other thread up for its whole time, which has no end.
    assert max((b - a for a, b in itertools.pairwise(ticks)), default=0.0) < 20


def test_no_pattern_takes_too_long_because_the_machine_is_busy(tmp_path: Path) -> None:
    """The scanner's second is one of its own CPU time. Here it has a tenth, and waits for longer
    until it gets rid of its answer.
    """
    reading, writing = os.pipe()
    filled = fill(writing)
    with os.fdopen(reading, "rb") as answer:
        scanner = subprocess.Popen(
            [sys.executable, "-I", "-S", regexscan.__file__], stdin=subprocess.PIPE, stdout=writing
        )
        os.close(writing)
        order = {
            "op": "search",
            "terms": [{"pattern": "a+"}],
            "ranges": [],
            "backwards": False,
            "limit": 1,
            "seconds": 0.1 - regexscan.GRACE_S,
            "room": 1000,
            "escapes": "x",
        }
        assert scanner.stdin is not None
        scanner.stdin.write(json.dumps(order).encode())
        scanner.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            scanner.wait(0.15)
        said = answer.read()[filled:]
    assert (scanner.wait(60), json.loads(said)["hits"]) == (0, [])


def fill(pipe: int) -> int:
    """Write to a pipe until it has no more room, and return how many bytes that took."""
    os.set_blocking(pipe, False)
    filled = 0
    try:
        while True:
            filled += os.write(pipe, b" " * 4096)
    except BlockingIOError:
        os.set_blocking(pipe, True)
        return filled


def test_a_search_is_cancelled(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.path.write_bytes(b"a" * 60 + b"!\n")
    os.truncate(log.path, 2**32)
    log.stream.poll()
    stop = threading.Event()
    stop.set()
    began = time.monotonic()
    assert log.queries.run("search", {"pattern": "nowhere"}, stop)["next"] is not None
    assert log.queries.run("search", {"pattern": "(a+)+$", "regex": True}, stop) == {
        "hits": [],
        "next": {"cursor": "0:0"},
    }
    assert time.monotonic() - began < 20


def test_a_slice_of_a_huge_file_is_short(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.path.write_bytes(b"first\n")
    os.truncate(log.path, 100 * 2**30)
    with log.path.open("ab") as handle:
        handle.write(b"\nsecond to last\nlast\n")
    log.stream.poll()
    began = time.monotonic()
    assert log.queries.run("seek-line", {"line": -1})["cursor"] == f"1:{100 * 2**30 + 16}"
    assert time.monotonic() - began < 10, "read through, it would take a minute"
    for op, arguments in {"search": {"pattern": "x"}, "seek-line": {"line": 10}}.items():
        began = time.monotonic()
        assert log.queries.run(op, arguments)["next"] is not None
        assert time.monotonic() - began < 10


def test_an_answer_fits_a_frame(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.path.write_bytes(("\u20ac\x01" * 3000 + "\n").encode() * 1000)
    log.stream.poll()
    for regex in (False, True):
        answer = log.queries.run("search", {"pattern": "\x01", "regex": regex, "limit": 500})
        assert answer["next"] is not None
        assert encode({"id": 1, "ok": True, "result": answer})


@pytest.mark.usefixtures("in_one_slice")
def test_record_streams_are_asked_the_same_way(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 1 << 24, segment_bytes=5000)
    cursors = ["1:0"]
    for n in range(500):
        cursors.append(
            stream.append(
                {"t": BASE + n, "m": float(n), "b": boot_id(), "n": n, "text": f"entry <{n}>"}
            )
        )
    queries = Queries(stream)

    def number_at(cursor: str) -> int:
        return int(stream.read(cursor, 1).data.split(b'"n":')[1].split(b",")[0])

    assert [
        number_at(queries.run("seek-line", {"line": n})["cursor"]) for n in (0, 250, -1, -120)
    ] == [0, 250, 499, 380]
    for n in (1, 17, 250, 499):
        assert number_at(queries.run("seek-time", {"t": BASE + n - 0.5})["cursor"]) == n
    assert number_at(queries.run("seek-time", {"t": 0})["cursor"]) == 0
    (hit,) = queries.run("search", {"pattern": "<321>"})["hits"]
    assert number_at(hit["cursor"]) == 321


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("seek-line", {}),
        ("seek-line", {"line": "1"}),
        ("seek-line", {"line": True}),
        ("seek-line", {"line": -1, "cursor": 5}),
        ("seek-time", {"t": "now"}),
        ("seek-time", {}),
        ("search", {}),
        ("search", {"pattern": ""}),
        ("search", {"pattern": "x" * 2000}),
        ("search", {"pattern": "x", "limit": 0}),
        ("delete", {}),
    ],
)
def test_a_senseless_query_is_refused(log: Log, op: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        log.queries.run(op, arguments)


def test_a_bad_cursor_in_a_query(log: Log) -> None:
    with pytest.raises(BadCursor):
        log.queries.run("search", {"pattern": "x", "cursor": "x"})
