"""Data of pods is taken in piece by piece, and pods take turns."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bs4_agent.streams.cursor import Chunk
from bs4_console.pods.reader import PIECE_BYTES, pieces
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
    async with asyncio.timeout(1.0), turns.turn():
        pass
