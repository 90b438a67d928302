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
    """Raised when the other end of a connection is gone."""


class Lines:
    """One end of a connection that carries JSON messages, one on each line. Several threads may
    send, but only one may receive.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = b""
        self._ready: list[Message] = []
        self._lock = threading.Lock()

    @classmethod
    def pair(cls) -> tuple[Lines, Lines]:
        """Return both ends of a new connection, which a process can share with a child that it
        forks.
        """
        left, right = socket.socketpair()
        return cls(left), cls(right)

    def send(self, message: Message) -> None:
        """Send a message. Raises Closed if the other end is gone."""
        try:
            with self._lock:
                self.sock.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self) -> Message:
        """Wait for the next message and return it. Raises Closed if the other end is gone."""
        while not self._ready:
            self._fill()
        return self._ready.pop(0)

    def drain(self) -> list[Message]:
        """Return the messages that have arrived, without waiting; the list may be empty. Raises
        Closed if the other end is gone.
        """
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
        """Close this end of the connection."""
        self.sock.close()


def wait(*channels: Lines, timeout: float | None = None) -> bool:
    """Wait until one of `channels` has a message or its other end is gone, and return True. Returns
    False if `timeout` seconds passed before that; with None it waits without limit.
    """
    if any(channel._ready for channel in channels):
        return True
    return bool(select.select([channel.sock for channel in channels], [], [], timeout)[0])
