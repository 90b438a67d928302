"""A TCP cable between a console and a pod's sshd that can be pulled out: every connection through it is reset, and new ones are refused."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator

#: SO_LINGER with 0 seconds: closing sends a reset, as a router does that has forgotten the connection.
_RESET = struct.pack("ii", 1, 0)


class Cable:
    """Listens on 127.0.0.1 at `port` and carries everything to (host, port) of the pod."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.carried = 0
        self._speaking = asyncio.Event()
        self._speaking.set()

    async def plug_in(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def pull_out(self) -> None:
        assert self._server is not None
        self._server.close()
        self._server = None
        for writer in list(self._writers):
            made: socket.socket = writer.get_extra_info("socket")
            if made.fileno() >= 0:  # its other end may have closed it already
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
        self._writers.clear()

    def mute(self) -> None:
        """Connections are still taken, and no word passes in either direction."""
        self._speaking.clear()

    def speak(self) -> None:
        self._speaking.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.carried += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        self._writers -= {writer, far_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._speaking.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def cable(host: str, port: int) -> AsyncIterator[Cable]:
    made = Cable(host, port)
    await made.plug_in()
    try:
        yield made
    finally:
        if made._server is not None:
            await made.pull_out()
