"""The agent's side of all consoles' channels: one unix socket, one thread for each connection."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path

from bs4_agent.channel.connection import Connection, Hello, Submit, TooManyConsoles
from bs4_agent.channel.endpoint import listen, peer_uid
from bs4_agent.streams.registry import Streams
from bs4_agent.workers import spawn
from bs4_common.wire import encode

#: Consoles at the same time. Each may occupy 21 threads and some 5 MB while it does not read its
#: answers.
CONNECTIONS = 16
#: How many of them may be consoles that only look. The others are kept for keys that may act: a
#: person must be able to stop a run whatever the keys do that were given away for looking.
LOOKING = 12
#: Seconds to wait when the process has no descriptor left for another connection.
EXHAUSTED_S = 0.2


class Server:
    """Serves the pod's streams to consoles at the Unix socket `socket_path`, with one thread for
    each console.

    `submit(action, who)` accepts an action: `action` is the JSON object that the console has sent,
    and `who` the person's name as the console gives it. If the action comes with a payload (bytes),
    that is the third argument. The function returns the fields of the reply (`action`, `state`) or
    raises AgentError, and must not block. `hello()` returns the fields of the answer to the
    handshake, except the protocol's version.
    """

    def __init__(self, socket_path: Path, streams: Streams, submit: Submit, hello: Hello) -> None:
        self.path = socket_path
        self._streams, self._submit, self._hello = streams, submit, hello
        self._listener: socket.socket | None = None
        self._inode = 0
        self._stopping = threading.Event()
        self._connections: dict[Connection, threading.Thread] = {}
        self._lock = threading.Lock()

    def bind(self) -> None:
        """Begin to listen at the socket, so that consoles can connect from now on; `serve_forever`
        answers them. Raises SocketInUse if another agent listens there.
        """
        self._listener = listen(self.path)
        self._inode = self.path.stat().st_ino

    def serve_forever(self) -> None:
        """Accept connections of consoles until `stop` is called, then return. `bind` is called
        first if it was not called yet; its errors are raised.
        """
        if self._listener is None:
            self.bind()
        while (peer := self._accept()) is not None:
            self._welcome(peer)

    def stop(self) -> None:
        """Close the socket and every connection, and wait up to 5 seconds for each console's thread
        to end. This may be called from any thread.
        """
        self._stopping.set()
        if self._listener is not None:
            self._remove_socket()
            try:
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
            except OSError:
                pass  # stopped twice
            self._listener.close()
        with self._lock:
            connections = dict(self._connections)
        for connection in connections:
            connection.close()
        for thread in connections.values():
            thread.join(5.0)

    def _accept(self) -> socket.socket | None:
        """Return the next console's socket, or None after `stop`."""
        while self._listener is not None and not self._stopping.is_set():
            try:
                return self._listener.accept()[0]
            except OSError as error:
                if self._stopping.is_set() or error.errno in (errno.EBADF, errno.EINVAL):
                    return None
                if error.errno not in (
                    errno.EMFILE,
                    errno.ENFILE,
                    errno.ENOBUFS,
                    errno.ENOMEM,
                    errno.ECONNABORTED,
                ):
                    raise
                self._stopping.wait(EXHAUSTED_S)
        return None

    def _welcome(self, peer: socket.socket) -> None:
        """Serve a console on a thread of its own, or turn it away. Processes of other users are
        disconnected.
        """
        if peer_uid(peer) != os.getuid():
            peer.close()
            return
        connection = Connection(peer, self._streams, self._submit, self._hello, self._admit)
        with self._lock:
            if len(self._connections) < CONNECTIONS and not self._stopping.is_set():
                self._connections[connection] = spawn(lambda: self._serve(connection), "console")
                return
        _turn_away(peer)

    def _admit(self, connection: Connection) -> None:
        """Let a console in that only looks. Raises TooManyConsoles if as many as may do already."""
        with self._lock:
            looking = sum(other.looks_only for other in self._connections)
            connection.looks_only = looking < LOOKING
        if not connection.looks_only:
            raise TooManyConsoles(
                f"This agent serves {LOOKING} consoles that only look already, and keeps its other "
                "places for keys that may act; close one of them."
            )

    def _serve(self, connection: Connection) -> None:
        try:
            connection.serve()
        finally:
            with self._lock:
                self._connections.pop(connection, None)

    def _remove_socket(self) -> None:
        """Remove the socket's file if it is ours. A successor may have bound the path already."""
        try:
            if self.path.stat().st_ino == self._inode:
                self.path.unlink()
        except FileNotFoundError:
            pass


def _turn_away(peer: socket.socket) -> None:
    """Tell a console that too many are connected, and close its connection."""
    error = TooManyConsoles(f"This agent serves {CONNECTIONS} consoles already; close one of them.")
    peer.setblocking(False)
    try:
        peer.send(encode({"error": error.as_dict()}))
    except OSError:
        pass  # it did not even wait for that
    peer.close()
