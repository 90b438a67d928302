"""Log streams into a store: tail, follow, older pages, gaps, and a link that goes away."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from bs4_console.errors import RemoteError, Unreachable
from bs4_console.logs.feed import LogFeed, gap_text
from bs4_console.logs.merge import keyed, rows_of, same_day
from bs4_console.logs.store import MARK, LogStore


@dataclass
class Chunk:
    start: str
    next: str
    data: bytes
    gap: dict[str, Any] | None = None
    partial: bool = False
    more: bool = False


@dataclass
class Reader:
    """Streams as lists of files (generations), read with the agent's cursors."""

    streams: dict[str, list[bytes]]
    down: bool = False
    reads: int = 0
    queries: int = 0
    waiting: int = 0
    waiting_allowed: int = 16
    refused: int = 0
    gaps: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def read_log(
        self,
        stream: str,
        cursor: str,
        limit: int = 262144,
        wait: float = 0.0,
        *,
        seen: int = 0,
        ahead: bool = False,
    ) -> Chunk:
        self.reads += 1
        if self.waiting == self.waiting_allowed:
            self._refuse()
        self.waiting += 1
        try:
            await asyncio.sleep(0.001)
        finally:
            self.waiting -= 1
        if self.down:
            raise Unreachable("pod-a did not answer.", "It is tried again.")
        if stream not in self.streams:
            raise RemoteError("unknown-stream", f"There is no stream {stream}.")
        files = self.streams[stream]
        generation, offset = (1, 0) if cursor == "start" else map(int, cursor.split(":"))
        if offset >= len(files[generation - 1]) and generation < len(files):
            generation, offset = generation + 1, 0
        data = files[generation - 1][offset : offset + limit]
        end = offset + len(data)
        more = end < len(files[generation - 1]) or generation < len(files)
        return Chunk(
            f"{generation}:{offset}",
            f"{generation}:{end}",
            data,
            self.gaps.pop(stream, None),
            more=more,
        )

    def _refuse(self) -> None:
        self.refused += 1
        raise RemoteError(
            "too-many-calls",
            "This connection has 16 reads waiting or 4 queries running; end one first.",
        )

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        """As the agent: not more than four at a time, of which one is the session's own."""
        assert op == "seek-line"
        if self.queries == 3:
            self._refuse()
        self.queries += 1
        try:
            await asyncio.sleep(0.001)
        finally:
            self.queries -= 1
        if self.down:
            raise Unreachable("pod-a did not answer.", "It is tried again.")
        places = []
        for number, data in enumerate(self.streams[stream], 1):
            at = 0
            for line in data.splitlines(keepends=True):
                places.append((number, at))
                at += len(line)
        if "cursor" in parameters:
            generation, offset = map(int, parameters["cursor"].split(":"))
            places = [place for place in places if place < (generation, offset)]
        place = places[max(0, len(places) + parameters["line"])] if places else (1, 0)
        return {"cursor": f"{place[0]}:{place[1]}", "next": None}


def text(store: LogStore) -> list[str]:
    return [store.line(n)[1].decode() for n in range(store.first, store.first + len(store))]


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)


class Running:
    """A feed at work; ends with the block."""

    def __init__(self, reader: Reader, *streams: str, store: LogStore | None = None) -> None:
        self.store = store or LogStore()
        self.feed = LogFeed(reader, self.store, lambda: None)
        self._streams = streams

    async def __aenter__(self) -> Running:
        self.task = asyncio.create_task(self.feed.run(self._streams))
        await until(lambda: self.feed.loaded or self.feed.waiting)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bs4_console.logs.pages.RETRY_S", 0.01)
    monkeypatch.setattr("bs4_console.logs.feed.DISCOVER_S", 0.01)


def numbered(first: int, last: int) -> bytes:
    return b"".join(b"line %d\n" % i for i in range(first, last))


async def test_the_tail_first_then_what_comes() -> None:
    reader = Reader({"log/r/trainer": [numbered(0, 5000)]})
    async with Running(reader, "log/r/trainer") as running:
        assert text(running.store) == [f"line {i}" for i in range(3000, 5000)]
        reader.streams["log/r/trainer"][0] += numbered(5000, 5003)
        await until(lambda: running.store.end == 2003)
        assert text(running.store)[-1] == "line 5002"


async def test_older_pages_come_before_without_a_hole_or_a_double() -> None:
    reader = Reader({"log/r/trainer": [numbered(0, 2500), numbered(2500, 7000)]})
    async with Running(reader, "log/r/trainer") as running:
        assert text(running.store)[0] == "line 5000"
        while await running.feed.older():
            pass
        assert [line for line in text(running.store) if line.startswith("line")] == [
            f"line {i}" for i in range(7000)
        ]
        assert running.store.line(0)[1] == b"line 5000"


async def test_a_lost_link_costs_no_line_and_says_so() -> None:
    reader = Reader({"log/r/trainer": [numbered(0, 10)]})
    async with Running(reader, "log/r/trainer") as running:
        reader.down = True
        await until(lambda: running.feed.waiting)
        assert "did not answer" in running.feed.waiting
        reader.streams["log/r/trainer"][0] += numbered(10, 30)
        reader.down = False
        await until(lambda: running.store.end == 30)
        assert text(running.store) == [f"line {i}" for i in range(30)]
        assert running.feed.waiting == ""


async def test_a_log_that_is_opened_while_the_link_is_down_waits() -> None:
    reader = Reader({"log/r/trainer": [numbered(0, 10)]}, down=True)
    async with Running(reader, "log/r/trainer") as running:
        assert not running.feed.loaded
        reader.down = False
        await until(lambda: running.feed.loaded)
        assert len(running.store) == 10


async def test_gaps_and_new_files_are_shown() -> None:
    reader = Reader({"log/r/trainer": [b"unfinished"]})
    async with Running(reader, "log/r/trainer") as running:
        reader.gaps["log/r/trainer"] = {
            "generation": 1,
            "from": 1000,
            "to": 12_301_000,
            "reason": "truncated",
        }
        reader.streams["log/r/trainer"].append(b"second attempt\n")
        await until(lambda: "second attempt" in text(running.store))
        assert text(running.store) == [
            "unfinished",
            "gap: 12.3 MB lost before they were read (truncated)",
            "trainer: a new file begins",
            "second attempt",
        ]
        assert running.store.line(1)[0] == MARK


async def test_several_sources_are_merged_by_their_clocks() -> None:
    reader = Reader(
        {
            "log/r/trainer": [b"21:00:01 INFO t1\n21:00:05 INFO t5\n  continued\n"],
            "log/r/orchestrator": [b"21:00:02 INFO o2\n21:00:09 INFO o9\n"],
        }
    )
    async with Running(reader, "log/r/trainer", "log/r/orchestrator") as running:
        assert [line.split()[-1] for line in text(running.store)] == [
            "t1",
            "o2",
            "t5",
            "continued",
            "o9",
        ]
        assert [running.store.line(n)[0] for n in range(5)] == [0, 1, 0, 0, 1]
        assert await running.feed.older() is False


async def test_a_stream_that_is_gone_ends_with_a_line_and_the_others_go_on() -> None:
    reader = Reader({"log/r/trainer": [numbered(0, 3)], "log/r/env": [b"x\n"]})
    async with Running(reader, "log/r/trainer", "log/r/env") as running:
        del reader.streams["log/r/env"]
        await until(lambda: any("no stream" in line for line in text(running.store)))
        reader.streams["log/r/trainer"][0] += b"still here\n"
        await until(lambda: "still here" in text(running.store))


async def test_from_the_evidence_on_with_a_page_before_it() -> None:
    data = numbered(0, 9000)
    reader = Reader({"log/r/trainer": [data]})
    store = LogStore()
    feed = LogFeed(reader, store, lambda: None)
    at = data.index(b"line 4000\n")
    await feed.go_to({"log/r/trainer": f"1:{at}"})
    task = asyncio.create_task(feed.go_on(lambda: store.end < 1))
    await until(lambda: store.end > 0)
    assert store.line(0)[1] == b"line 4000"
    assert store.line(-1)[1] == b"line 3999"
    assert store.first == -2000
    reads = reader.reads
    await asyncio.sleep(0.05)
    assert reader.reads == reads, "it reads on although nobody wants more"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_many_sources_keep_within_what_an_agent_allows() -> None:
    reader = Reader(
        {f"log/r/env-{i:02}": [b"21:00:%02d INFO from %d\n" % (i, i)] for i in range(30)}
    )
    async with Running(reader, *reader.streams) as running:
        await until(lambda: running.store.end == 30)
        assert reader.refused == 0


async def test_a_refusal_for_too_many_calls_is_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bs4_console.logs.pages.BUSY_S", 0.001)
    monkeypatch.setattr("bs4_console.logs.feed.BUSY_S", 0.001)
    reader = Reader(
        {f"log/r/env-{i:02}": [b"21:00:%02d INFO from %d\n" % (i, i)] for i in range(8)},
        waiting_allowed=3,
    )
    async with Running(reader, *reader.streams) as running:
        await until(lambda: running.store.end == 8)
        assert reader.refused > 0
        for name in reader.streams:
            reader.streams[name][0] += b"21:01:00 INFO more\n"
        await until(lambda: running.store.end == 16)


def test_midnight_is_no_way_back() -> None:
    tails = (b"23:59:58 a\n00:00:03 d\n", b"23:59:59 b\n00:00:01 c\n", b"00:00:02 x\n")
    pages = same_day([keyed(rows_of(data, source, "1:0")) for source, data in enumerate(tails)])
    assert [row[3].split()[-1] for _, row in sorted(entry for page in pages for entry in page)] == [
        b"a",
        b"b",
        b"c",
        b"x",
        b"d",
    ]


def test_a_gap_of_unknown_size_says_unknown() -> None:
    assert gap_text({"generation": 2, "from": 0, "to": None, "reason": "unlinked"}) == (
        "gap: an unknown number of bytes lost before they were read (unlinked)"
    )


async def test_an_unfinished_last_line_is_replaced_as_it_grows_and_never_doubled() -> None:
    """The agent gives it again from its start (Chunk.repeats), so what is shown of it must go
    first.
    """
    reader = Repeating([b"one\nload", b"loading", b"loading 50%", b"loading done\ntwo\n"])
    async with Running(reader, "log/r/trainer") as running:
        shown = [["one", "loading"], ["one", "loading 50%"], ["one", "loading done", "two"]]
        for piece, lines in enumerate(shown, 1):
            reader.stage = piece
            await until(lambda piece=piece: reader.given >= piece)
            await until(lambda lines=lines: text(running.store) == lines)
        assert reader.seen[-2:] != [0, 0]


class Repeating(Reader):
    """One log with an unfinished last line: `stage` 0 is the tail, each later one what stands there
    then.
    """

    def __init__(self, stages: list[bytes]) -> None:
        super().__init__({"log/r/trainer": [stages[0]]})
        self.stages, self.stage, self.given = stages, 0, 0
        self.seen: list[int] = []

    async def read_log(
        self,
        stream: str,
        cursor: str,
        limit: int = 262144,
        wait: float = 0.0,
        *,
        seen: int = 0,
        ahead: bool = False,
    ) -> Chunk:
        await asyncio.sleep(0.001)
        if cursor == "1:0":
            return Chunk("1:0", "1:4", b"one\n")
        if cursor != "1:4":
            return Chunk(cursor, cursor, b"")
        data = self.stages[self.stage] if self.stage else b"load"
        if len(data) == seen:
            return Chunk("1:4", "1:4", b"")
        self.seen.append(seen)
        self.given = self.stage
        whole = data.endswith(b"\n")
        return Chunk("1:4", f"1:{4 + len(data)}" if whole else "1:4", data, partial=not whole)
