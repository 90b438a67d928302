"""A TCP link to a server that is far away: every byte arrives late, and no more than so many a
second pass. It runs as a process of its own, so that it costs the measured programs nothing.

    python -m tests.support.distance HOST PORT ROUND_TRIP_MS [MBIT_PER_S]

The first line that it prints is the port on 127.0.0.1 at which it listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tests.support import processes

_ROOT = Path(__file__).resolve().parents[2]
_PIECE = 64 * 1024
#: Bytes that a link without a limit carries in a second, and bytes that wait in front of any link,
#: as in a router's buffer, beside those that are on their way.
_UNLIMITED, _BUFFER = 2e9, 1024 * 1024


class _Direction:
    """One direction of a connection. A piece waits until those before it have passed, and arrives
    half a round trip later. Unlike a pause after each piece, that leaves the bandwidth as it is.
    """

    def __init__(self, delay: float, rate: float) -> None:
        self._delay, self._rate = delay, rate
        self._limit = rate * delay + _BUFFER
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._passed = 0.0
        self._changed = asyncio.Condition()

    async def take(self, reader: asyncio.StreamReader) -> None:
        clock = asyncio.get_running_loop().time
        data = b"more"
        while data:
            data = await reader.read(_PIECE)
            self._passed = max(self._passed, clock()) + len(data) / self._rate
            async with self._changed:
                self._pieces.append((self._passed + self._delay, data))
                self._bytes += len(data)
                self._changed.notify_all()
                await self._changed.wait_for(lambda: self._bytes < self._limit)

    async def give(self, writer: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self._pieces))
                due, data = self._pieces[0]
            if (early := due - clock()) > 0:
                await asyncio.sleep(early)
            if not data:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()
            async with self._changed:
                self._pieces.popleft()
                self._bytes -= len(data)
                self._changed.notify_all()


async def _serve(host: str, port: int, delay: float, rate: float) -> None:
    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, port)
        up, down = _Direction(delay, rate), _Direction(delay, rate)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(up.take(reader))
                group.create_task(up.give(far_writer))
                group.create_task(down.take(far_reader))
                group.create_task(down.give(writer))
        except* OSError:
            pass  # one side has hung up
        finally:
            writer.close()
            far_writer.close()

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def distance(host: str, port: int, round_trip_s: float, mbit: float | None = None) -> Iterator[int]:
    """Run such a link to (host, port) while the block runs. Yields its port on 127.0.0.1."""
    rate = [] if mbit is None else [str(mbit)]
    argv = [sys.executable, "-m", "tests.support.distance", host, str(port)]
    process = processes.spawn(
        [*argv, str(round_trip_s * 1000), *rate], cwd=_ROOT, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    RATE = float(sys.argv[4]) * 125_000 if len(sys.argv) > 4 else _UNLIMITED
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 2000, RATE))
