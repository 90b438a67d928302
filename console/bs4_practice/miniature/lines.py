"""JSON messages over a stream socket, one a line: what stands in for ZMQ, shared memory and queues
between processes.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from typing import Any

Message = dict[str, Any]


class Closed(ConnectionError):
    """The other side is gone."""


class Lines:
    """One end. Any thread may send; one thread receives."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = b""
        self._ready: list[Message] = []
        self._lock = threading.Lock()

    @classmethod
    def pair(cls) -> tuple[Lines, Lines]:
        left, right = socket.socketpair()
        return cls(left), cls(right)

    def send(self, message: Message) -> None:
        try:
            with self._lock:
                self.sock.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self) -> Message:
        """The next message; waits for it. Raises Closed at the end."""
        while not self._ready:
            self._fill()
        return self._ready.pop(0)

    def drain(self) -> list[Message]:
        """What has arrived, without waiting."""
        while select.select([self.sock], [], [], 0)[0]:
            self._fill()
        ready, self._ready = self._ready, []
        return ready

    def _fill(self) -> None:
        try:
            data = self.sock.recv(65536)
        except OSError as error:
            raise Closed(str(error)) from error
        if not data:
            raise Closed("closed by peer")
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self._ready += [json.loads(line) for line in lines]

    def close(self) -> None:
        self.sock.close()


def wait(*channels: Lines, timeout: float | None = None) -> bool:
    """Until one of them has something to read (or has ended); False when `timeout` seconds passed
    first.
    """
    if any(channel._ready for channel in channels):
        return True
    return bool(select.select([channel.sock for channel in channels], [], [], timeout)[0])
