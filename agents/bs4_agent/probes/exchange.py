"""One HTTP/1.1 exchange with a server on this pod, over a plain socket and with a deadline.

http.client is not used: it imports an e-mail parser, which costs 1.5 MB of the 30 MB that an agent
may use, for ever, and it checks its time-out only between two packets. Implemented is the part of
RFC 9112 that a client needs if it closes after one answer.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

#: The most bytes of status line and headers together; uvicorn's own limit for a request is 64 KiB.
_HEAD_BYTES = 65536
#: The most bytes of a body; /metrics of a server with many models has some 100 KiB.
_BODY_BYTES = 4 * 1024 * 1024
#: The most digits of a length.
_DIGITS = 16
_PIECE_BYTES = 65536
_BEGIN = b"HTTP/"


class NoHttp(ValueError):
    """Raised if a server's answer is not HTTP, or has more than 64 KiB of headers or 4 MiB of
    body.
    """


class CutOff(ConnectionError):
    """Raised if the server closed the connection before its answer was complete."""


@dataclass(frozen=True)
class Answer:
    """A server's answer: its HTTP status, such as 200, and the bytes of its body."""

    status: int
    body: bytes


def exchange(address: str, port: int, request: bytes, deadline: float) -> Answer:
    """Send `request`, a complete HTTP request with the header `Connection: close`, to the given
    port of the IP `address`, and return the server's answer.

    `deadline` is in seconds of the monotonic clock and covers the whole exchange. Raises
    ConnectionRefusedError if no process listens, TimeoutError after the deadline, CutOff or another
    ConnectionError if the connection breaks, and NoHttp if the answer is not HTTP.
    """
    # create_connection is not used: its getaddrinfo loads the tables of international names (0.8
    # MB), and `address` is an IP address already.
    with socket.socket(
        socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM
    ) as connection:
        connection.settimeout(_left(deadline))
        connection.connect((address, port))
        reader = _Reader(connection, deadline)
        connection.settimeout(_left(deadline))
        connection.sendall(request)
        while True:
            status, headers = _head(reader.head())
            if status >= 200:  # 1xx announces that the answer follows
                break
        return Answer(status, _body(reader, status, headers))


def request(method: str, host: str, path: str, body: bytes | None) -> bytes:
    """Return the bytes of an HTTP request, in the form in which `exchange` sends them. `body` is
    JSON, or None for no body. `host` and `path` must come from urlsplit, which removes line breaks.
    """
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {host}",
        "Connection: close",
        "Accept-Encoding: identity",
    ]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


class _Reader:
    """Reads a connection piece by piece, as bytes are needed, until the deadline."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline
        self._held = bytearray()
        self.ended = False

    def head(self) -> bytes:
        """Return the status line and the headers. Raises NoHttp as soon as another protocol shows
        (an SSH server sends its name and waits).
        """
        while len(self._held) < len(_BEGIN) and _BEGIN.startswith(self._held):
            self._more()
        if not self._held.startswith(_BEGIN):
            raise NoHttp("no status line")
        return self.until(b"\r\n\r\n", _HEAD_BYTES)

    def until(self, mark: bytes, most: int) -> bytes:
        """Return the bytes before `mark` and skip the mark itself. Raises NoHttp if it does not
        come within `most` bytes.
        """
        while (found := self._held.find(mark)) < 0:
            if len(self._held) > most:
                raise NoHttp(f"no end of the headers in {most} bytes")
            self._more()
        taken = bytes(self._held[:found])
        del self._held[: found + len(mark)]
        return taken

    def exactly(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        while len(self._held) < count:
            self._more()
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken

    def rest(self, most: int) -> bytes:
        """Return all bytes until the server closes. Raises NoHttp if there are more than `most`."""
        while not self.ended:
            if len(self._held) > most:
                raise NoHttp(f"an answer of over {most} bytes")
            self._receive()
        return bytes(self._held)

    def _more(self) -> None:
        self._receive()
        if self.ended:
            raise CutOff

    def _receive(self) -> None:
        self._connection.settimeout(_left(self._deadline))
        piece = self._connection.recv(_PIECE_BYTES)
        self._held += piece
        self.ended = not piece


def _head(raw: bytes) -> tuple[int, Mapping[str, str]]:
    """Return the status and the headers by lower-case name."""
    first, *lines = raw.decode("latin-1").split("\r\n")
    version, _, status = first.partition(" ")
    if not version.startswith("HTTP/1.") or not status[:3].isdecimal() or len(status) < 3:
        raise NoHttp(f"a status line of its own kind: {first[:40]!r}")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(status[:3]), headers


def _body(reader: _Reader, status: int, headers: Mapping[str, str]) -> bytes:
    """Return the body of the answer. Raises NoHttp if its length is malformed or above
    `_BODY_BYTES`.
    """
    if status in (204, 304):
        return b""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _chunks(reader)
    if "content-length" not in headers:
        return reader.rest(_BODY_BYTES)
    length = headers["content-length"]
    # Python refuses to read a number of thousands of digits.
    if not length.isdecimal() or len(length) > _DIGITS or int(length) > _BODY_BYTES:
        raise NoHttp(f"an answer of {length[:20]} bytes")
    return reader.exactly(int(length))


def _chunks(reader: _Reader) -> bytes:
    """Return a body in chunked transfer encoding."""
    body = bytearray()
    while True:
        try:
            size = int(reader.until(b"\r\n", _HEAD_BYTES).partition(b";")[0], 16)
        except ValueError:
            raise NoHttp("no size of a chunk") from None
        if size < 0 or len(body) + size > _BODY_BYTES:
            raise NoHttp(f"an answer of over {_BODY_BYTES} bytes")
        if size == 0:
            return bytes(body)  # trailers are ignored
        body += reader.exactly(size)
        if reader.exactly(2) != b"\r\n":
            raise NoHttp("a chunk that does not end")


def _left(deadline: float) -> float:
    """Return the seconds until the deadline. Raises TimeoutError if it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
