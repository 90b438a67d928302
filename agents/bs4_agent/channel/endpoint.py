"""The agent's unix socket: binding it, connecting to it, and identifying the process at the other
end.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from bs4_common.errors import AgentError

_UCRED = struct.Struct("3i")


class SocketInUse(AgentError):
    """Raised if another agent already listens at the socket."""

    type = "socket-in-use"


def listen(path: Path, backlog: int = 16) -> socket.socket:
    """Return a listening Unix socket at `path`, with mode 0600 in a directory of mode 0700. At most
    `backlog` connections wait to be accepted. If a dead agent has left a socket file there, it is
    replaced.

    Raises SocketInUse if a live agent listens there. This does not keep two agents apart that start
    at the same moment; `lifecycle.handover.claim` does.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    try:
        connect(path).close()
    except (FileNotFoundError, ConnectionRefusedError):
        path.unlink(missing_ok=True)
    else:
        raise SocketInUse(f"An agent listens at {path} already; attach to it.")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _at(path, listener.bind)
        path.chmod(0o600)
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    return listener


def connect(path: Path) -> socket.socket:
    """Return a connection to the agent that listens at `path`. Raises FileNotFoundError if there is
    no socket, and ConnectionRefusedError if nobody listens at it.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _at(path, connection.connect)
    except OSError as error:
        connection.close()
        if error.errno == errno.ENOTDIR:
            raise FileNotFoundError(errno.ENOENT, "no such socket", str(path)) from None
        raise
    return connection


def peer_uid(connection: socket.socket) -> int:
    """Return the user id of the process at the other end of a Unix socket, as the kernel reports
    it.
    """
    uid: int = _UCRED.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    )[1]
    return uid


def _at(path: Path, call: Callable[[str], None]) -> None:
    """Call `call` with an address for the socket at `path`. A socket address holds 107 bytes and a
    path in a home directory can be longer, so the socket is named through an open directory.
    """
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        call(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
