"""A TCP link between a console and a pod's sshd that can be cut, delayed, stalled, half open, and
cut after a number of bytes. Several of these may be in effect at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

#: SO_LINGER with 0 seconds: closing sends a reset.
_RESET = struct.pack("ii", 1, 0)
_PIECE = 64 * 1024


class Link:
    """Listens on 127.0.0.1 at `port` and carries everything to (host, port) of the pod."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._cuts = 0
        self._forgotten = 0
        self._near: set[asyncio.StreamWriter] = set()
        self._far: set[asyncio.StreamWriter] = set()
        self._flowing, self._hearing, self._closing = (asyncio.Event() for _ in range(3))
        for event in (self._flowing, self._hearing, self._closing):
            event.set()
        self.port = 0
        self.delay = 0.0
        """Seconds by which every piece is late, in each direction."""
        self.budget: int | None = None
        """Bytes that still reach the console before all connections are reset; None: no limit."""
        self.carried = 0

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Reset what is connected and stop listening."""
        assert self._server is not None
        self._server.close()
        self.reset()
        for event in (self._flowing, self._hearing, self._closing):
            event.set()

    def cut(self) -> None:
        """Reset all connections, and each new one, until `mend` was called as often."""
        self._cuts += 1
        self.reset()

    def mend(self) -> None:
        """End one cut."""
        self._cuts -= 1

    def reset(self) -> None:
        """Reset all connections; new ones are carried."""
        self._reset(self._near)
        self._reset(self._far)

    def stall(self) -> None:
        """Let nothing pass in either direction, until `flow`."""
        self._flowing.clear()

    def flow(self) -> None:
        """End a stall."""
        self._flowing.set()

    def deafen(self) -> None:
        """Let nothing of the pod reach the console, until `hear`; the other direction works."""
        self._hearing.clear()

    def hear(self) -> None:
        """End what `deafen` began."""
        self._hearing.set()

    def forget(self) -> None:
        """Half open: the pod's ends are reset, and the console's stay open and silent until
        `remember`. New connections are carried.
        """
        self._forgotten += 1
        self._closing.clear()
        self._reset(self._far)

    def remember(self) -> None:
        """Close the console's ends that `forget` left open."""
        self._closing.set()

    def _reset(self, writers: set[asyncio.StreamWriter]) -> None:
        for writer in list(writers):
            made: socket.socket = writer.get_extra_info("socket")
            if made.fileno() >= 0:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
        writers.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cuts:
            self._reset({writer})
            return
        self.carried += 1
        self._near.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            self._reset({writer})
            return
        self._far.add(far_writer)
        try:
            up = asyncio.create_task(self._pump(reader, far_writer, down=False))
            await self._pump(far_reader, writer, down=True)
            up.cancel()
            await asyncio.gather(up, return_exceptions=True)
        except asyncio.CancelledError:
            pass  # by the end of the loop; asyncio would log it
        finally:
            self._near.discard(writer)
            self._far.discard(far_writer)
            writer.transport.abort()
            far_writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, down: bool
    ) -> None:
        forgotten = self._forgotten
        with contextlib.suppress(OSError):
            while data := await reader.read(_PIECE):
                if self.delay:
                    await asyncio.sleep(self.delay)
                await self._flowing.wait()
                if down:
                    await self._hearing.wait()
                    if forgotten != self._forgotten:
                        break  # what was on its way is lost with the connection
                    data = self._within_budget(data)
                writer.write(data)
                await writer.drain()
                if down and self.budget == 0:
                    self.budget = None
                    self.reset()
                    return
        if down:
            await self._closing.wait()
        writer.close()

    def _within_budget(self, data: bytes) -> bytes:
        if self.budget is None:
            return data
        data = data[: self.budget]
        self.budget -= len(data)
        return data
