from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from bs4_agent.streams.registry import Streams
from bs4_common.errors import BadRequest, UnknownStream
from bs4_common.streams.cursor import Chunk
from bs4_common.streams.logs import LogStream
from bs4_common.streams.segments import SegmentStream
from tests.agent.streams.tiny import until


@pytest.fixture
def streams() -> Iterator[Streams]:
    registry = Streams()
    yield registry
    registry.close()


@pytest.fixture
def later() -> Iterator[Callable[..., Future[Chunk]]]:
    with ThreadPoolExecutor(20) as pool:
        yield pool.submit


def add_log(streams: Streams, root: Path, name: str = "log/r/trainer") -> Path:
    root.mkdir(exist_ok=True)
    path = root / f"{name.replace('/', '_')}.log"
    stream = LogStream(name, None, root / f"{path.name}.json")
    stream.follow(path, 1)
    streams.add(name, stream)
    return path


def test_names_and_unknown_names(streams: Streams, tmp_path: Path) -> None:
    for name in ("telemetry", "journal", "steps/run-1"):
        streams.add(name, SegmentStream(tmp_path / name, 1 << 20))
    assert streams.names() == ["journal", "steps/run-1", "telemetry"]
    with pytest.raises(UnknownStream, match=r"did you mean steps/run-1\?"):
        streams.read("steps/run1", "start")
    with pytest.raises(UnknownStream, match="list the streams"):
        streams.get("x" * 10000)
    with pytest.raises(BadRequest, match="already"):
        streams.add("journal", streams.get("journal"))
    streams.remove("journal")
    assert "journal" not in streams.names()


def test_a_read_waits_for_an_append(
    streams: Streams, tmp_path: Path, later: Callable[..., Future[Chunk]]
) -> None:
    stream = SegmentStream(tmp_path, 1 << 20)
    streams.add("telemetry", stream)
    waiting = [later(streams.read, "telemetry", "end", 262144, 20.0) for _ in range(5)]
    until(lambda: streams._entries["telemetry"].waiting == 5, "all of them wait")
    stream.append({"t": 1, "n": 1})
    # Who slept through it would come after the 20 s of the wait.
    assert [future.result(15).data for future in waiting] == [b'{"t":1,"n":1}\n'] * 5


def test_a_read_that_finds_nothing_gives_its_cursor_back(streams: Streams, tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 1 << 20)
    streams.add("telemetry", stream)
    cursor = stream.append({"t": 1})
    began = time.monotonic()
    chunk = streams.read("telemetry", cursor, wait=0.2)
    assert 0.2 <= time.monotonic() - began < 10
    assert (chunk.data, chunk.start, chunk.next) == (b"", cursor, cursor)


def test_appends_while_reading_are_never_slept_through(streams: Streams, tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 1 << 20)
    streams.add("telemetry", stream)
    writer = threading.Thread(target=lambda: [stream.append({"t": 1, "n": n}) for n in range(3000)])
    writer.start()
    cursor, lines = "start", 0
    while lines < 3000:
        began = time.monotonic()
        chunk = streams.read("telemetry", cursor, wait=30.0)
        assert time.monotonic() - began < 20
        lines += chunk.data.count(b"\n")
        cursor = chunk.next
    writer.join()


def test_stop_and_remove_end_a_wait(
    streams: Streams, tmp_path: Path, later: Callable[..., Future[Chunk]]
) -> None:
    streams.add("telemetry", SegmentStream(tmp_path / "a", 1 << 20))
    streams.add("journal", SegmentStream(tmp_path / "b", 1 << 20))
    stop = threading.Event()
    stopped = later(lambda: streams.read("telemetry", "end", wait=20.0, stop=stop))
    removed = later(lambda: streams.read("journal", "end", wait=20.0))
    for name in ("telemetry", "journal"):
        until(lambda name=name: streams._entries[name].waiting == 1, f"a read of {name} waits")
    stop.set()
    streams.notify("telemetry")
    streams.remove("journal")
    assert stopped.result(15).data == b""
    with pytest.raises(UnknownStream):
        removed.result(15)


def test_log_lines_come_within_a_moment(
    streams: Streams, tmp_path: Path, later: Callable[..., Future[Chunk]]
) -> None:
    path = add_log(streams, tmp_path)
    took: list[float] = []
    cursor = "start"
    # Looked at ten times a second: the machine may be busy once, not each time.
    while not took or (min(took) >= 0.25 and len(took) < 20):
        text = f"line {len(took)}\n"
        waiting = later(streams.read, "log/r/trainer", cursor, 262144, 30.0)
        until(lambda: streams._entries["log/r/trainer"].waiting == 1, "the read waits")
        time.sleep(0.25)
        with path.open("a") as handle:
            handle.write(text)
        began = time.monotonic()
        chunk = waiting.result(45)
        took.append(time.monotonic() - began)
        assert chunk.data == text.encode()
        cursor = chunk.next
    assert min(took) < 0.25, took


def test_a_busy_log_is_delivered_in_batches(streams: Streams, tmp_path: Path) -> None:
    path = add_log(streams, tmp_path)
    done = threading.Event()

    def write() -> None:
        with path.open("a", buffering=1) as handle:
            while not done.wait(0.001):
                handle.write("a line of a busy log\n")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        cursor, reads, over_m = "start", 0, time.monotonic() + 1.0
        while time.monotonic() < over_m:
            cursor = streams.read("log/r/trainer", cursor, wait=5.0).next
            reads += 1
            time.sleep(0.004)  # a quick network
    finally:
        done.set()
        writer.join()
    assert reads <= 14


def test_an_unfinished_line_comes_once_to_who_says_what_he_has(
    streams: Streams, tmp_path: Path, later: Callable[..., Future[Chunk]]
) -> None:
    path = add_log(streams, tmp_path)
    path.write_text("unfin")
    chunk = streams.read("log/r/trainer", "start", wait=20.0)
    assert (chunk.data, chunk.repeats) == (b"unfin", True)
    began = time.monotonic()
    assert streams.read("log/r/trainer", chunk.next, wait=0.5, seen=5).data == b""
    assert time.monotonic() - began >= 0.5
    waiting = later(lambda: streams.read("log/r/trainer", chunk.next, wait=30.0, seen=5))
    until(lambda: streams._entries["log/r/trainer"].waiting == 1, "the read waits")
    with path.open("a") as handle:
        handle.write("ished\n")
    assert waiting.result(25).data == b"unfinished\n"


def test_a_reader_that_never_says_what_it_has_gets_the_line_once_a_second(
    streams: Streams, tmp_path: Path
) -> None:
    path = add_log(streams, tmp_path)
    path.write_text("unfin")
    reads, over_m = 0, time.monotonic() + 1.5
    while time.monotonic() < over_m:
        assert streams.read("log/r/trainer", "start", wait=20.0).data == b"unfin"
        reads += 1
    assert 1 <= reads <= 3


def test_list_pages(streams: Streams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bs4_agent.streams.registry.LISTED", 2)
    for n in range(5):
        add_log(streams, tmp_path / "logs", f"log/r/{n}")
    names, arguments = [], {}
    while True:
        answer = streams.query("*", "list", arguments)
        assert set(answer["streams"][0]) == {"name", "kind", "start", "end", "bytes"}
        names += [entry["name"] for entry in answer["streams"]]
        if answer["next"] is None:
            break
        arguments = answer["next"]
    assert names == [f"log/r/{n}" for n in range(5)]
    with pytest.raises(BadRequest, match="needs one stream"):
        streams.query("*", "search", {"pattern": "x"})


def test_looking_at_quiet_logs_is_cheap(streams: Streams, tmp_path: Path) -> None:
    for n in range(20):
        add_log(streams, tmp_path / "logs", f"log/r/{n}").write_text("one line\n")
        streams.read(f"log/r/{n}", "start", wait=5.0)
    with ThreadPoolExecutor(20) as pool:
        stop = threading.Event()
        readers = [
            pool.submit(lambda n=n: streams.read(f"log/r/{n}", "end", wait=30.0, stop=stop))
            for n in range(20)
        ]
        time.sleep(0.5)
        shares: list[float] = []
        # What else this process has to do may fall into one second, not into each.
        while len(shares) < 6 and (not shares or min(shares) >= 0.018):
            before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
            time.sleep(2.0)
            after = resource.getrusage(resource.RUSAGE_SELF)
            shares.append(
                (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
                / (time.monotonic() - began)
            )
        stop.set()
        for n in range(20):
            streams.notify(f"log/r/{n}")
        assert all(reader.result(20).data == b"" for reader in readers)
    print(f"20 quiet logs with a waiting reader each: {min(shares):.2%} of a core")
    # Measured 0.3 %; the tests share the machine, and looking without the short way or out of step
    # costs 2.4 %.
    assert min(shares) < 0.018
