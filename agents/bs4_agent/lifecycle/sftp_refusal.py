"""Refuses SFTP in its own words. sshd drops what a subsystem writes to standard error, so a client
that only saw the connection end could not say why.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

#: How sshd names the program of the subsystem `sftp`, in SSH_ORIGINAL_COMMAND.
_SFTP = re.compile(r"(internal-sftp|\S*/sftp-server)(\s.*)?", re.DOTALL)

#: Of the protocol's version 3: the type of each packet, and the status "permission denied".
_INIT, _VERSION, _STATUS = 1, 2, 101
_DENIED = 3
#: Bytes. OpenSSH's own limit of a packet.
_PACKET_MOST = 256 * 1024


def is_sftp(asked: str) -> bool:
    """Return True if `asked`, the request of an SSH client in the words in which sshd passes it on,
    is for file transfer (the subsystem sftp).
    """
    return _SFTP.fullmatch(asked) is not None


def refuse(sentence: str, receive: Callable[[], bytes], send: Callable[[bytes], None]) -> None:
    """Answer each request of an SFTP client with "permission denied" and `sentence`, until the
    client has gone or sends something that is not SFTP. `receive()` returns the next bytes of the
    client, b"" at their end, and `send(data)` sends bytes to it. Of a request only its type and
    number are read.
    """
    data = b""
    while received := receive():
        data += received
        while len(data) >= 9:
            length, kind, number = struct.unpack_from(">IBI", data)
            if not 5 <= length <= _PACKET_MOST:
                return
            if len(data) < 4 + length:
                break
            data = data[4 + length :]
            if kind == _INIT:
                send(struct.pack(">IBI", 5, _VERSION, 3))
            else:
                send(_status(number, sentence.encode()))


def _status(number: int, message: bytes) -> bytes:
    """Return the packet that denies the request with this number."""
    body = struct.pack(">BII", _STATUS, number, _DENIED)
    for text in (message, b"en"):
        body += struct.pack(">I", len(text)) + text
    return struct.pack(">I", len(body)) + body
