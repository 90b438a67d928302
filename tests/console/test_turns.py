"""Data of pods is taken in piece by piece, and pods take turns."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bs4_common.streams.cursor import Chunk
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.reader import PIECE_BYTES, STEP_READS, PodReader, pieces
from bs4_console.pods.state import PodState
from bs4_console.pods.streams import position
from bs4_console.turns import Turns

LINES = st.lists(st.integers(0, PIECE_BYTES + 9), max_size=9).map(
    lambda lengths: b"".join(b"x" * length + b"\n" for length in lengths)
)


@given(data=LINES, offset=st.integers(0, 2**53), rest=st.binary(max_size=9))
def test_the_pieces_of_a_chunk_are_the_chunk(data: bytes, offset: int, rest: bytes) -> None:
    chunk = Chunk(start=f"3:{offset}", next="4:0", data=data + rest.replace(b"\n", b""))
    found = list(pieces(chunk))
    assert b"".join(piece.data for piece in found) == chunk.data
    assert (found[0].start, found[-1].next) == (chunk.start, chunk.next)
    at = offset
    for one, other in itertools.pairwise(found):
        at += len(one.data)
        assert one.next == other.start == f"3:{at}"
        assert one.data.endswith(b"\n")
        assert len(one.data) <= PIECE_BYTES or one.data.count(b"\n") == 1


async def test_the_first_to_ask_has_the_first_turn_and_a_pod_with_little_waits_for_one_piece() -> (
    None
):
    turns, order = Turns(), []

    async def take(name: str, count: int) -> None:
        for _ in range(count):
            async with turns.turn():
                order.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(take("flood", 5))
        group.create_task(take("little", 1))
    assert order == ["flood", "little", *["flood"] * 4]


async def test_a_turn_that_fails_leaves_the_next_one_free() -> None:
    turns = Turns()
    with pytest.raises(ZeroDivisionError):
        async with turns.turn():
            raise ZeroDivisionError
    async with asyncio.timeout(60), turns.turn():
        pass


class Pod:
    """Answers each read at once with a chunk of many records, and counts the chunks that nobody has
    taken in yet.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.read_bytes = data, 0

    async def read(self, stream: str, cursor: str, limit: int, wait: float) -> Chunk:
        await asyncio.sleep(0)
        at = position(cursor)[1] if ":" in cursor else 0
        self.read_bytes += len(self.data)
        return Chunk(f"1:{at}", f"1:{at + len(self.data)}", self.data, more=True)


async def test_a_pod_with_many_streams_gets_no_more_turns_than_one_with_one() -> None:
    turns = Turns()
    taken: dict[str, int] = {"crowd": 0, "lonely": 0}
    line = b'{"t":1.0,"side":"trainer","step":1,"pad":"' + b"x" * 200 + b'"}\n'
    crowd, lonely = Pod(line * 1000), Pod(line)

    def follow(name: str, pod: Pod, streams: int) -> list[asyncio.Task[None]]:
        reader = PodReader(PodState(name=name), Mirror(None))
        reader.turns = turns
        reader.state.streams = [f"steps/r{number}" for number in range(streams)]

        def count(_: dict[str, Any]) -> None:
            taken[name] += 1

        return [
            asyncio.create_task(reader._follow(pod, stream, count))  # type: ignore[arg-type]
            for stream in reader.state.streams
        ]

    tasks = follow("crowd", crowd, 500) + follow("lonely", lonely, 1)
    try:
        async with asyncio.timeout(60):
            while taken["lonely"] < 20:
                await asyncio.sleep(0.01)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    pieces_of_crowd = taken["crowd"] * len(line) / PIECE_BYTES
    assert pieces_of_crowd <= 2 * taken["lonely"] + 4
    # What was read and waits is a few chunks, not one for each stream.
    assert crowd.read_bytes - taken["crowd"] * len(line) <= (STEP_READS + 1) * len(crowd.data)


async def test_the_pause_after_a_turn_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [0.0], []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("bs4_console.turns.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("bs4_console.turns.asyncio.sleep", sleep)
    turns = Turns()
    for seconds in (0.01, 3600.0):
        async with turns.turn():
            now[0] += seconds
    assert slept == [pytest.approx(0.03), 1.0]
