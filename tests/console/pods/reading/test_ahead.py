"""Reading ahead over a channel that answers late, one read after the other, out of the agent's own
LogStream over real files: what comes is what reads one at a time would bring.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
import os
import random
import types
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bs4_common.errors import AgentError
from bs4_common.streams.cursor import Chunk
from bs4_common.streams.logs import LogStream
from bs4_console import ceilings
from bs4_console.errors import ChannelLost, RemoteError
from bs4_console.pods.reader import READ_BYTES
from bs4_console.pods.reading import ahead as module
from bs4_console.pods.reading import window as windows
from bs4_console.pods.reading.ahead import ReadAhead
from bs4_console.pods.reading.window import FIRST, ReadWindow

#: Seconds of a round trip, and seconds that the link needs for one piece.
TRIP_S, PIECE_S = 0.01, 0.0002


class LinkTime:
    """The time of the link. It goes on to the next moment at which anything arrives once nobody has
    anything left to do, so that a busy machine makes no read longer than it is.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, asyncio.Future[None]]] = []
        self._wanted = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), future))
        self._wanted.set()
        await future

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            for _ in range(20):  # more than it takes from an answer to the reads that it leads to
                await asyncio.sleep(0)
            self.now, _, future = heapq.heappop(self._due)
            if not self._due:
                self._wanted.clear()
            if not future.done():
                future.set_result(None)


@pytest.fixture(autouse=True)
async def link_time(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """What reads ahead measures by the time of the link, as Far lets it pass."""
    made = LinkTime()
    monkeypatch.setattr(Far, "time", made, raising=False)
    monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: made.now))
    passing = asyncio.create_task(made.run())
    yield
    passing.cancel()
    await asyncio.gather(passing, return_exceptions=True)


class Far:
    """A channel to an agent that is TRIP_S away and answers one read after the other."""

    time: LinkTime

    def __init__(self, **streams: LogStream) -> None:
        self.streams = streams
        self.reads: list[tuple[str, str, int]] = []
        self.served: list[str] = []
        self.open: dict[str, int] = {}
        self.most = self.sent = 0
        self.lost = False
        self.alter: Callable[[Chunk], Chunk] = lambda chunk: chunk
        self.before_answer: Callable[[int], None] = lambda number: None
        self._turn = asyncio.Lock()

    async def read(
        self, stream: str, cursor: str, limit: int = READ_BYTES, wait: float = 0.0, *, seen: int = 0
    ) -> Chunk:
        self.reads.append((stream, cursor, limit))
        self.open[stream] = self.open.get(stream, 0) + 1
        self.most = max(self.most, sum(self.open.values()))
        try:
            await self.time.sleep(TRIP_S / 2)
            async with self._turn:  # asyncio.Lock is fair: first come, first served
                if self.lost:
                    raise ChannelLost("The link was cut.", "It is made again.")
                self.before_answer(len(self.served))
                self.served.append(stream)
                self.streams[stream].poll()
                chunk = self._answer(stream, cursor, limit)
                self.sent += len(chunk.data)
                await self.time.sleep(PIECE_S)
            await self.time.sleep(TRIP_S / 2)
        finally:
            self.open[stream] -= 1
        if self.lost:
            raise ChannelLost("The link was cut.", "It is made again.")
        if chunk.repeats and len(chunk.data) == seen:
            return Chunk(chunk.start, chunk.next)
        return chunk

    def _answer(self, stream: str, cursor: str, limit: int) -> Chunk:
        try:
            return self.alter(self.streams[stream].read(cursor, limit))
        except AgentError as error:
            raise RemoteError(error.type, error.message) from None


def log_at(path: Path) -> LogStream:
    """A followed log."""
    archive = path.parent / "archive"
    stream = LogStream(path.stem, archive, path.with_suffix(".json"))
    stream.follow(path, 1)
    return stream


@functools.cache
def lines(size: int, longest: int, seed: int = 7) -> bytes:
    """Whole lines of random lengths, each with its own number, `size` bytes or a little more."""
    chance = random.Random(seed)
    made, total = [], 0
    while total < size:
        line = b"%09d %s\n" % (len(made), b"x" * int(longest ** chance.random()))
        made.append(line)
        total += len(line)
    return b"".join(made)


async def whole(
    ahead: ReadAhead,
    stream: str = "log",
    cursor: str = "start",
    until: Callable[[Chunk], bool] = lambda chunk: not chunk.more,
    pause: Callable[[], Awaitable[None]] | None = None,
) -> tuple[bytes, list[Chunk], str]:
    """Read on and on. Returns the bytes, the chunks and the cursor behind them."""
    got, data = [], b""
    while True:
        chunk = await ahead.read(stream, cursor)
        got.append(chunk)
        if not chunk.repeats:
            data += chunk.data
        cursor = chunk.next
        if until(chunk):
            return data, got, cursor
        if pause is not None:
            await pause()


def continues(chunks: list[Chunk]) -> bool:
    """Whether each chunk begins where the one before it ended."""
    pairs = itertools.pairwise(chunks)
    return all(a.next == b.start or b.start.endswith(":0") for a, b in pairs)


@pytest.mark.parametrize("longest", [10, 300, 30_000, 700_000])
async def test_every_byte_comes_once_and_in_order(tmp_path: Path, longest: int) -> None:
    path = tmp_path / "a.log"
    data = lines(5_000_000, longest)
    path.write_bytes(data)
    far = Far(log=log_at(path))
    got, chunks, _ = await whole(ReadAhead(far))
    assert got == data
    assert continues(chunks)
    assert not any(chunk.repeats for chunk in chunks)
    # What comes twice is little, unless the lines are nearly as long as the reads.
    assert longest > 100_000 or far.sent < 1.25 * len(data)


async def test_many_reads_are_under_way_and_no_more_than_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(lines(12_000_000, 3000))
    far = Far(log=log_at(path))
    await whole(ReadAhead(far))
    assert FIRST < far.most <= ceilings.READS_AHEAD


async def test_a_short_piece_in_the_middle_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    data = lines(5_000_000, 300)
    path.write_bytes(data)
    far = Far(log=log_at(path))

    def shorten(chunk: Chunk) -> Chunk:
        """Every fifth answer holds only a third, as from an agent with a smaller limit."""
        if len(far.served) % 5 or not chunk.data:
            return chunk
        part = chunk.data[: chunk.data.rfind(b"\n", 0, len(chunk.data) // 3) + 1]
        generation, offset = chunk.start.split(":")
        return replace(chunk, data=part, next=f"{generation}:{int(offset) + len(part)}", more=True)

    far.alter = shorten
    got, chunks, _ = await whole(ReadAhead(far))
    assert got == data
    assert continues(chunks)


async def test_a_log_that_grows_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    data = lines(6_000_000, 300)
    cut = 2_000_017  # inside a line
    path.write_bytes(data[:cut])
    far = Far(log=log_at(path))
    written = cut

    def grow(number: int) -> None:
        nonlocal written
        more = data[written : written + 400_001]
        with path.open("ab") as handle:
            handle.write(more)
        written += len(more)

    far.before_answer = grow
    got, _, _ = await whole(
        ReadAhead(far), until=lambda chunk: not chunk.more and chunk.next.endswith(f":{len(data)}")
    )
    assert got == data


async def test_a_rotation_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    old, new = lines(5_000_000, 200), lines(4_000_000, 200, seed=8)
    path.write_bytes(old)
    far = Far(log=log_at(path))

    def rotate(number: int) -> None:
        if number == 6:
            path.rename(tmp_path / "a.log.1")
            path.write_bytes(new)

    far.before_answer = rotate
    # A file that was renamed may still be written to for a moment, so the log is quiet in between.
    got, chunks, _ = await whole(
        ReadAhead(far), until=lambda chunk: chunk.next == f"2:{len(new)}" and not chunk.more
    )
    assert got == old + new
    assert {chunk.start.split(":")[0] for chunk in chunks[1:]} == {"1", "2"}
    assert [chunk.gap for chunk in chunks if chunk.gap] == []


async def test_a_file_that_ends_where_a_read_was_foretold(tmp_path: Path) -> None:
    """The agent answers a read at the end of a finished file with the begin of the next one."""
    path = tmp_path / "a.log"
    line = b"x" * 63 + b"\n"
    end = 2 * READ_BYTES - module.OVERLAP_LEAST
    old, new = line * (end // 64), b"y" * 63 + b"\n" + line * 20_000
    path.write_bytes(old)
    log = log_at(path)
    path.rename(tmp_path / "a.log.1")
    path.write_bytes(new)
    while log.stat()["generations"][0]["state"] == "live":
        log.poll()
        await asyncio.sleep(TRIP_S)
    far = Far(log=log)
    _, chunks, _ = await whole(
        ReadAhead(far), until=lambda chunk: chunk.next == f"2:{len(new)}" and not chunk.more
    )
    assert any(cursor == f"1:{end}" for _, cursor, _ in far.reads)
    files = {"1": old, "2": new}
    got = {"1": b"", "2": b""}
    for chunk in chunks:
        generation, offset = chunk.start.split(":")
        assert files[generation][int(offset) :].startswith(chunk.data)
        got[generation] += chunk.data
    assert got == files


async def test_a_truncation_in_the_middle_is_the_same_gap_as_without(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    old, new = lines(5_000_000, 200), lines(3_000_000, 200, seed=8)
    path.write_bytes(old)
    far = Far(log=log_at(path))

    def truncate(number: int) -> None:
        if number == 6:
            with path.open("r+b") as handle:
                handle.truncate(0)
                handle.write(new)

    far.before_answer = truncate
    got, chunks, _ = await whole(ReadAhead(far))
    gaps = [chunk for chunk in chunks if chunk.gap]
    assert len(gaps) == 1
    held = int(gaps[0].start.split(":")[1])
    assert gaps[0].gap is not None
    assert gaps[0].gap["from"] == held
    assert 0 < held < len(old)
    assert got == old[:held] + new


async def test_a_gap_between_two_pieces_is_handed_on(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    data = lines(5_000_000, 200)
    path.write_bytes(data)
    far = Far(log=log_at(path))
    lost = 2_000_000, data.index(b"\n", 2_400_000) + 1

    def gap(chunk: Chunk) -> Chunk:
        """The agent cannot read the bytes between."""
        offset = int(chunk.start.split(":")[1])
        if lost[0] <= offset < lost[1]:
            why = {"generation": 1, "from": offset, "to": lost[1], "reason": "a bad sector"}
            return Chunk(chunk.start, f"1:{lost[1]}", gap=why, more=True)
        if offset < lost[0] < offset + len(chunk.data):
            part = chunk.data[: lost[0] - offset]
            return replace(chunk, data=part, next=f"1:{lost[0]}", partial=True, more=True)
        return chunk

    far.alter = gap
    got, chunks, _ = await whole(ReadAhead(far))
    assert got == data[: lost[0]] + data[lost[1] :]
    assert [chunk.gap["from"] for chunk in chunks if chunk.gap] == [lost[0]]


async def test_a_link_that_is_lost_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    data = lines(6_000_000, 300)
    path.write_bytes(data)
    log = log_at(path)
    far = Far(log=log)

    def cut(number: int) -> None:
        far.lost = far.lost or number == 14

    far.before_answer = cut
    ahead = ReadAhead(far)
    got, cursor = b"", "start"
    with pytest.raises(ChannelLost):
        while True:
            chunk = await ahead.read("log", cursor)
            got, cursor = got + chunk.data, chunk.next
    await ahead.close()
    assert 0 < len(got) < len(data)
    rest, _, _ = await whole(ReadAhead(Far(log=log)), cursor=cursor)
    assert got + rest == data
    assert sum(far.open.values()) == 0


async def test_an_unfinished_last_line_is_handed_on_and_repeats(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    data = lines(3_000_000, 200)
    path.write_bytes(data + b"unfinished")
    os.utime(path, (1, 1))
    far = Far(log=log_at(path))
    seen: list[Chunk] = []
    got, chunks, _ = await whole(
        ReadAhead(far), until=lambda chunk: seen.append(chunk) or chunk.repeats
    )
    assert got == data
    assert chunks[-1].data == b"unfinished"


async def test_a_slow_consumer_holds_a_bounded_number_of_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(lines(14_000_000, 3000))
    far = Far(log=log_at(path))
    ahead = ReadAhead(far)
    taken = 0
    got: list[Chunk] = []

    async def pause() -> None:
        nonlocal taken
        taken += 1
        if taken in (10, 25):
            before = -1
            while before != len(far.reads) or sum(far.open.values()):
                before = len(far.reads)
                await asyncio.sleep(2 * TRIP_S)  # until nothing is sent and nothing is under way
            held = far.sent - sum(len(chunk.data) for chunk in got)
            assert 0 < held <= 2 * ceilings.READS_AHEAD * READ_BYTES

    await whole(ahead, until=lambda chunk: got.append(chunk) or taken == 26, pause=pause)
    await ahead.close()
    assert taken == 26


async def test_a_stream_that_joins_gets_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "FIRST", ceilings.READS_AHEAD)
    streams = {}
    for name in ("long", "late"):
        path = tmp_path / f"{name}.log"
        path.write_bytes(lines(16_000_000 if name == "long" else 4_000_000, 3000))
        streams[name] = log_at(path)
    far = Far(**streams)
    ahead = ReadAhead(far)
    first = asyncio.create_task(whole(ahead, "long"))
    while far.most < ceilings.READS_AHEAD and not first.done():
        await asyncio.sleep(TRIP_S / 4)
    assert not first.done(), "the first never used all reads"
    begun = len(far.served)
    await whole(ahead, "late")
    meanwhile = far.served[begun:]
    assert not first.done(), "the one that came late was served last"
    assert far.most <= ceilings.READS_AHEAD + 1, "one that was not foretold"
    # Half each once both are under way. Until then, and on a busy machine, the late one has less; a
    # starved one would have a read where the other has sixteen.
    assert meanwhile.count("late") > 0.12 * len(meanwhile), meanwhile.count("late")
    assert meanwhile.count("long") > 0.25 * len(meanwhile), meanwhile.count("long")
    await first


async def test_more_streams_than_reads_come_whole(tmp_path: Path) -> None:
    streams, contents = {}, {}
    for number in range(ceilings.READS_AHEAD + 4):
        path = tmp_path / f"s{number}.log"
        contents[path.stem] = lines(800_000, 300, seed=number)
        path.write_bytes(contents[path.stem])
        streams[path.stem] = log_at(path)
    far = Far(**streams)
    ahead = ReadAhead(far)
    found = await asyncio.gather(*(whole(ahead, name) for name in streams))
    assert [data for data, _, _ in found] == list(contents.values())


async def test_pieces_for_a_consumer_who_does_not_come_are_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    data = lines(6_000_000, 300)
    path.write_bytes(data)
    far = Far(log=log_at(path))
    ahead = ReadAhead(far)
    got, _, cursor = await whole(ahead, until=lambda chunk: len(far.reads) > 9)
    monkeypatch.setattr(module, "UNUSED_S", -1.0)
    ahead.expire()
    while sum(far.open.values()):
        await asyncio.sleep(TRIP_S / 4)
    before = len(far.reads)
    rest, _, _ = await whole(ahead, cursor=cursor)
    assert far.reads[before][1] == cursor, "it is read again from where the consumer is"
    assert got + rest == data


async def test_a_consumer_who_jumps_gets_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    data = lines(6_000_000, 300)
    path.write_bytes(data)
    ahead = ReadAhead(Far(log=log_at(path)))
    _, _, cursor = await whole(ahead, until=lambda chunk: int(chunk.next.split(":")[1]) > 3_000_000)
    place = data.index(b"\n", 5_000_000) + 1
    jumped, _, _ = await whole(ahead, cursor=f"1:{place}")
    assert jumped == data[place:]
    rest, _, _ = await whole(ahead, cursor=cursor)
    assert rest == data[int(cursor.split(":")[1]) :]


async def test_two_consumers_at_one_place_leave_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    data = lines(3_000_000, 200)
    path.write_bytes(data)
    far = Far(log=log_at(path))
    ahead = ReadAhead(far)
    found = await asyncio.gather(whole(ahead), whole(ahead))
    assert [got for got, _, _ in found] == [data, data]
    while sum(far.open.values()):
        await asyncio.sleep(TRIP_S / 4)
    assert not ahead._alive
    assert not ahead._sequences


async def test_a_connection_that_is_closed_here_ends_the_read_that_waits(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(lines(6_000_000, 300))
    far = Far(log=log_at(path))
    ahead = ReadAhead(far)
    _, _, cursor = await whole(ahead, until=lambda chunk: len(far.reads) > 9)
    far.lost = True
    reading = asyncio.create_task(whole(ahead, cursor=cursor))
    while not reading.done() and not far.open["log"]:
        await asyncio.sleep(0)
    await ahead.close()
    with pytest.raises(ChannelLost):
        await reading
    assert not ahead._alive


async def test_a_pod_that_answers_byte_by_byte_fills_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(lines(3_000_000, 200))
    far = Far(log=log_at(path))
    ahead = ReadAhead(far)
    _, _, cursor = await whole(ahead, until=lambda chunk: True)

    def one(chunk: Chunk) -> Chunk:
        generation, offset = chunk.start.split(":")
        return replace(
            chunk, data=chunk.data[:1], next=f"{generation}:{int(offset) + 1}", more=True
        )

    far.alter = one
    before = len(far.reads)
    got, _, _ = await whole(ahead, cursor=cursor, until=lambda chunk: True)
    while sum(far.open.values()):
        await asyncio.sleep(2 * TRIP_S)  # nobody comes for the rest
    assert len(got) == 1
    assert len(far.reads) - before <= module.PIECES + ceilings.READS_AHEAD
    await ahead.close()


async def test_an_error_of_the_agent_reaches_the_consumer(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(lines(3_000_000, 200))
    far = Far(log=log_at(path))
    ahead = ReadAhead(far)
    _, _, cursor = await whole(ahead, until=lambda chunk: len(far.reads) > 5)

    def removed(chunk: Chunk) -> Chunk:
        raise AgentError("There is no such stream.")

    far.alter = removed
    with pytest.raises(RemoteError):
        await whole(ahead, cursor=cursor)


def sizes_over(trip_s: float, piece_s: float, pieces: int, most: int = 16) -> list[int]:
    """The size of a window after each of `pieces` reads over a link that carries one piece after
    the other, for a consumer who waits for each.
    """
    window = ReadWindow(most, trip_s + piece_s)
    sizes: list[int] = []
    under_way: list[tuple[float, float]] = []
    now = free = 0.0
    while len(sizes) < pieces:
        while len(under_way) < window.size:
            free = max(free, now + trip_s / 2) + piece_s
            under_way.append((now, free + trip_s / 2))
        sent, now = under_way.pop(0)
        window.wait()
        window.arrive(now - sent)
        sizes.append(window.size)
    return sizes


def test_a_window_grows_while_the_link_carries_more() -> None:
    # 38 pieces fit on the way of a link of 500 Mbit/s that is 150 ms long.
    assert sizes_over(0.15, 0.004, 30)[-1] == 16


@pytest.mark.parametrize("trip_s", [0.0001, 0.03, 0.15])
def test_few_pieces_wait_in_line_for_a_link_of_50_mbit(trip_s: float) -> None:
    piece_s = 0.042
    settled = sizes_over(trip_s, piece_s, 300)[100:]
    on_the_way = trip_s / piece_s + 1
    assert min(settled) >= min(on_the_way, 16), "the link is never idle"
    assert max(settled) <= on_the_way + 6, "what else the pod sends waits for few pieces"


def test_a_window_does_not_grow_for_a_slow_consumer() -> None:
    window = ReadWindow(16)
    for _ in range(100):
        window.arrive(0.15)
    assert window.size == FIRST
