"""A TCP cable between a console and a pod's sshd that can be pulled out: every connection through
it is reset, and new ones are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator

#: SO_LINGER with 0 seconds: closing sends a reset, as a router does that has forgotten the
#: connection.
_RESET = struct.pack("ii", 1, 0)


class Cable:
    """Listens on 127.0.0.1 at `port` and carries everything to (host, port) of the pod."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        # Bound and never listening: while the cable is out nobody's outgoing connection gets its
        # port.
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind(("127.0.0.1", 0))
        self.port: int = self._place.getsockname()[1]
        self.carried = 0
        self._speaking = asyncio.Event()
        self._speaking.set()

    async def plug_in(self) -> None:
        self._server = await asyncio.start_server(
            self._carry, "127.0.0.1", self.port, reuse_address=True
        )

    async def pull_out(self) -> None:
        """When it returns, nothing of any connection is left: neither a socket nor a task."""
        assert self._server is not None
        self._server.close()
        self._server = None
        for writer in list(self._writers):
            _reset(writer)
        self._writers.clear()
        carrying = list(self._carrying)
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)

    def close(self) -> None:
        """The port is anybody's again."""
        self._place.close()

    def mute(self) -> None:
        """Connections are still taken, and no word passes in either direction."""
        self._speaking.clear()

    def speak(self) -> None:
        self._speaking.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.carried += 1
        if self._server is None:  # pulled out since this one was taken
            _reset(writer)
            return
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        self._writers.add(writer)
        try:
            await self._join(reader, writer)
        except asyncio.CancelledError:
            # By pull_out, or by the end of the loop. Nobody waits for a server's task: asyncio
            # would log its end as a defect.
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            self._carrying.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry both ways until both are at their end."""
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        self._writers.add(far_writer)
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        except asyncio.CancelledError:
            far_writer.transport.abort()
            raise
        finally:
            self._writers.discard(far_writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._speaking.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    made: socket.socket = writer.get_extra_info("socket")
    if made.fileno() >= 0:  # its other end may have closed it already
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


@contextlib.asynccontextmanager
async def cable(host: str, port: int) -> AsyncIterator[Cable]:
    made = Cable(host, port)
    await made.plug_in()
    try:
        yield made
    finally:
        if made._server is not None:
            await made.pull_out()
        made.close()
