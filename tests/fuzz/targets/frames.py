"""Bytes that come out of the channel: frames of bs4_common/wire.py.

However the bytes are cut, the same frames or a ProtocolError come out, and at most one frame is
held.
"""

from __future__ import annotations

import json

from bs4_common.errors import ProtocolError
from bs4_common.wire import HEADER_LIMIT, PAYLOAD_LIMIT, Decoder, Frame, encode
from tests.fuzz.nesting import check_nesting

_HELD_MOST = 8 + HEADER_LIMIT + PAYLOAD_LIMIT

SEEDS = [
    encode({"id": 1, "ok": True, "start": "1:0", "next": "1:7"}, b'{"a":1}'),
    encode({"id": 2, "error": {"type": "bad-cursor", "message": "x"}}),
    encode({"id": 3}) + encode({"id": 4, "list": [1, {"a": None}]}, b"\0" * 20),
]


def feed(data: bytes) -> None:
    """Decode the bytes at once and in pieces, and compare."""
    whole = _decoded([data])
    # The first byte says how long the pieces are.
    length = data[0] % 64 + 1 if data else 1
    pieces = [data[place : place + length] for place in range(0, len(data), length)]
    assert _decoded(pieces) == whole, "the frames depend on how the bytes were cut"
    for frame in whole or ():
        check_nesting(frame.header)
        json.dumps(frame.header)


def _decoded(pieces: list[bytes]) -> list[Frame] | None:
    """Return the frames of a stream of bytes, or None if it is refused."""
    decoder = Decoder()
    frames = []
    for piece in pieces:
        try:
            frames += decoder.feed(piece)
        except ProtocolError:
            return None
        assert decoder.buffered <= _HELD_MOST
    return frames
