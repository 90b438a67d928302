"""Frames between console and agent, without any I/O: bytes in, frames out, and a limit on
everything.

A frame is a 4-byte big-endian header length, a 4-byte big-endian payload length, the header (one
UTF-8 JSON object) and the payload (raw bytes). Both sides use this module, so both are equally
strict with each other.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bs4_common.errors import ProtocolError
from bs4_common.foreign_json import loads

#: Protocol versions that this side speaks, newest first. The console picks the newest that both
#: know. N and N-1 stay supported.
PROTOCOLS = (1,)
#: The environment variable with the bytes that a console sends ahead of its channel, in base64, and
#: the most bytes. A greeting and the first questions are some 500 bytes; more would make a long
#: command line.
AHEAD_VARIABLE, AHEAD_LIMIT = "BS4_AHEAD", 4096
#: Bytes. A header holds names, cursors and one query result. Log bytes and records are payload.
HEADER_LIMIT = 64 * 1024
PAYLOAD_LIMIT = 256 * 1024

_LENGTHS = struct.Struct(">II")


@dataclass(frozen=True)
class Frame:
    """One message between console and agent: a JSON header and a payload of raw bytes."""

    header: dict[str, Any]
    payload: bytes


def encode(header: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """Return one message as the bytes to send. Raises ProtocolError if its header is larger than 64
    KiB or its payload larger than 256 KiB, or if the header cannot be written as JSON.
    """
    return encode_head(header, len(payload)) + payload


def encode_head(header: Mapping[str, Any], payload_length: int) -> bytes:
    """Return the bytes of a message that come before its payload: the lengths and the JSON header.
    `payload_length` is the number of bytes of the payload, which can then be sent separately
    without another copy. Raises ProtocolError if the header is larger than 64 KiB or the payload
    larger than 256 KiB, or if the header cannot be written as JSON.
    """
    try:
        text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    except ValueError as error:
        raise ProtocolError(
            f"A frame's header is no JSON ({error}); report this as a bug."
        ) from None
    _check_lengths(len(text), payload_length)
    return _LENGTHS.pack(len(text), payload_length) + text


def first_frame(data: bytes) -> tuple[Frame, bytes] | None:
    """Return the first message of `data` and the bytes behind it, or None if it is not complete
    yet. Raises ProtocolError if its header is larger than 64 KiB or not a JSON object, or if its
    payload is larger than 256 KiB.
    """
    if len(data) < _LENGTHS.size:
        return None
    header_length, payload_length = _LENGTHS.unpack_from(data)
    _check_lengths(header_length, payload_length)
    payload_at = _LENGTHS.size + header_length
    end = payload_at + payload_length
    if len(data) < end:
        return None
    header = _parse_header(data[_LENGTHS.size : payload_at])
    return Frame(header, data[payload_at:end]), data[end:]


class Decoder:
    """Splits a stream of bytes, which may arrive in pieces of any size, into messages. It holds at
    most one incomplete message. After an error it cannot be used any more.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._broken: ProtocolError | None = None

    @property
    def buffered(self) -> int:
        """Return the number of bytes of an incomplete message that are held: at most the size of
        the largest message that is accepted.
        """
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """Add `data` and return the messages that are complete now; empty if none is. Raises
        ProtocolError if a header is larger than 64 KiB or not a JSON object, or if a payload is
        larger than 256 KiB.
        """
        if self._broken:
            raise self._broken
        self._buffer += data
        try:
            return self._complete_frames()
        except ProtocolError as error:
            self._broken = error
            self._buffer.clear()
            raise

    def _complete_frames(self) -> list[Frame]:
        """Return the complete frames in the buffer and remove them from it."""
        frames = []
        position = 0
        with memoryview(self._buffer) as view:
            while len(view) - position >= _LENGTHS.size:
                header_length, payload_length = _LENGTHS.unpack_from(view, position)
                _check_lengths(header_length, payload_length)
                header_at = position + _LENGTHS.size
                payload_at = header_at + header_length
                end = payload_at + payload_length
                if len(view) < end:
                    break
                frames.append(
                    Frame(
                        _parse_header(bytes(view[header_at:payload_at])),
                        bytes(view[payload_at:end]),
                    )
                )
                position = end
        del self._buffer[:position]
        return frames


def _check_lengths(header: int, payload: int) -> None:
    """Raise ProtocolError if a header or payload is too long."""
    if header > HEADER_LIMIT or payload > PAYLOAD_LIMIT:
        raise ProtocolError(
            f"A frame of {header} + {payload} bytes is over the limit of {HEADER_LIMIT} + "
            f"{PAYLOAD_LIMIT}; the other side is no bs4-console, or something else writes into "
            "the channel."
        )


def _parse_header(raw: bytes) -> dict[str, Any]:
    """Return a frame's header. Raises ProtocolError if it is not a JSON object."""
    try:
        header = loads(raw.decode("utf-8"))
    except ValueError as error:
        raise ProtocolError(
            f"A frame's header is no JSON ({error}); the channel is out of step, connect again."
        ) from None
    if not isinstance(header, dict):
        raise ProtocolError(
            "A frame's header is no JSON object; the channel is out of step, connect again."
        )
    return header
