from __future__ import annotations

import itertools
import json
import struct
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bs4_common.errors import ProtocolError
from bs4_common.wire import HEADER_LIMIT, PAYLOAD_LIMIT, Decoder, encode, encode_head

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=8,
)
headers = st.dictionaries(st.text(max_size=10), json_values, max_size=5)
frames = st.lists(st.tuples(headers, st.binary(max_size=2000)), max_size=6)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


@given(frames, st.lists(st.integers(0, 10**6), max_size=40))
def test_frames_survive_any_split_of_their_bytes(
    sent: list[tuple[dict, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(encode(header, payload) for header, payload in sent)
    decoder = Decoder()
    received = [frame for piece in split(stream, cuts) for frame in decoder.feed(piece)]
    assert [(frame.header, frame.payload) for frame in received] == sent
    assert decoder.buffered == 0


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=300), max_size=20))
def test_hostile_bytes_raise_nothing_but_protocol_errors(pieces: list[bytes]) -> None:
    decoder = Decoder()
    for piece in pieces:
        try:
            decoder.feed(piece)
        except ProtocolError:
            with pytest.raises(ProtocolError):
                decoder.feed(b"")
            assert decoder.buffered == 0
            return
        assert decoder.buffered <= 8 + HEADER_LIMIT + PAYLOAD_LIMIT


@given(st.binary(max_size=400), st.integers(0, PAYLOAD_LIMIT))
def test_hostile_headers_raise_nothing_but_protocol_errors(header: bytes, payload: int) -> None:
    decoder = Decoder()
    try:
        for frame in decoder.feed(
            struct.pack(">II", len(header), payload) + header + bytes(payload)
        ):
            assert isinstance(frame.header, dict)
    except ProtocolError:
        pass


def test_never_more_than_one_frame_is_held() -> None:
    decoder = Decoder()
    frame = encode({"id": 1}, bytes(PAYLOAD_LIMIT))
    for start in range(0, len(frame) - 1, 1000):
        decoder.feed(frame[start : min(start + 1000, len(frame) - 1)])
        assert decoder.buffered <= 8 + HEADER_LIMIT + PAYLOAD_LIMIT
    assert decoder.buffered == len(frame) - 1
    assert len(decoder.feed(frame[-1:])) == 1
    assert decoder.buffered == 0


def test_limits_are_exact_and_known_before_the_bytes_have_come() -> None:
    padding = HEADER_LIMIT - len(b'{"a":""}')
    assert Decoder().feed(encode({"a": "x" * padding}, bytes(PAYLOAD_LIMIT)))
    with pytest.raises(ProtocolError, match="over the limit"):
        encode({"a": "x" * (padding + 1)})
    with pytest.raises(ProtocolError, match="over the limit"):
        encode_head({}, PAYLOAD_LIMIT + 1)
    for lengths in ((HEADER_LIMIT + 1, 0), (2, PAYLOAD_LIMIT + 1), (2**32 - 1, 2**32 - 1)):
        with pytest.raises(ProtocolError, match="over the limit"):
            Decoder().feed(struct.pack(">II", *lengths))


@pytest.mark.parametrize(
    "header",
    [b"", b"[1]", b"3", b"null", b'"x"', b'{"a":', b"\xff\xfe{}", '{"a": 1}'.encode("utf-16")],
)
def test_a_header_that_is_no_object_is_an_error(header: bytes) -> None:
    with pytest.raises(ProtocolError, match="header"):
        Decoder().feed(struct.pack(">II", len(header), 0) + header)


@pytest.mark.parametrize("opening", ["[", '{"a":', '["[",'])
def test_deep_nesting_neither_crashes_a_small_thread_nor_passes(opening: str) -> None:
    # In a thread with a 256 KiB stack Python 3.13 ends with SIGSEGV where json.loads is given 3000
    # levels.
    header = ('{"a":' + opening * (60000 // len(opening))).encode()
    errors: list[ProtocolError] = []

    def feed() -> None:
        try:
            Decoder().feed(struct.pack(">II", len(header), 0) + header)
        except ProtocolError as error:
            errors.append(error)

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=feed)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert "nests deeper" in errors[0].message


def test_brackets_in_texts_are_no_nesting() -> None:
    header = {"text": '[{"\\' * 500, "list": [[]] * 100}
    assert Decoder().feed(encode(header))[0].header == header


def test_a_header_is_strict_json() -> None:
    with pytest.raises(ProtocolError, match="no JSON"):
        encode({"loss": float("nan")})
    assert json.loads(encode_head({"name": "\ud800"}, 0)[8:]) == {"name": "\ud800"}
