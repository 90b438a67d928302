"""The logs of a pod as its agent serves them, in this process: real files, real cursors, real
queries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bs4_common.streams.logs import LogStream
from bs4_common.streams.query import Queries
from bs4_console.logs.store import LogStore


class PodsLogs:
    """Stands where a PodSession stands. `asked` lists the queries' ops; `read_bytes` is what was
    transferred.
    """

    def __init__(self, root: Path, logs: Mapping[str, bytes]) -> None:
        self.paths: dict[str, Path] = {}
        self.streams: dict[str, LogStream] = {}
        self.queries: dict[str, Queries] = {}
        self.asked: list[str] = []
        self.read_bytes = 0
        for name, data in logs.items():
            path = root / f"{name.replace('/', '-')}.log"
            path.write_bytes(data)
            stream = LogStream(name, root / "archive", root / f"{path.name}.json")
            stream.follow(path, 1)
            stream.poll()
            self.paths[name], self.streams[name], self.queries[name] = path, stream, Queries(stream)

    def write(self, name: str, data: bytes) -> None:
        with self.paths[name].open("ab") as handle:
            handle.write(data)
        self.streams[name].poll()

    async def read_log(
        self,
        stream: str,
        cursor: str,
        limit: int = 262144,
        wait: float = 0.0,
        *,
        seen: int = 0,
        ahead: bool = False,
    ) -> Any:
        chunk = self.streams[stream].read(cursor, limit)
        # A reader that never gives the loop back would stop everything else.
        await asyncio.sleep(0 if chunk.data else min(wait, 0.001))
        self.read_bytes += len(chunk.data)
        return chunk

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        self.asked.append(op)
        await asyncio.sleep(0)
        return self.queries[stream].run(op, parameters)


def texts(store: LogStore) -> list[str]:
    """The held lines."""
    return [store.line(number)[1].decode() for number in range(store.first, store.end)]


def cursor_of(data: bytes, part: bytes) -> str:
    """Where the first line with `part` begins."""
    return f"1:{data.rfind(bytes([10]), 0, data.index(part)) + 1}"
