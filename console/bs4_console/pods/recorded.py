"""A pod as it once was: what a console had mirrored of it, opened again where there is no pod.
Nothing can be done to it.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

from bs4_agent.errors import AgentError, BadCursor, UnknownStream
from bs4_agent.streams.cursor import END, START, Chunk, Cursor
from bs4_agent.streams.query import Queries
from bs4_agent.streams.segments import record_time
from bs4_agent.streams.stream import Piece
from bs4_console.errors import RefusedError, RemoteError
from bs4_console.pods.channel import Channel
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.port import Transport
from bs4_console.pods.recorded_trail import Trail, midnight_of, place_at, span_of, trail_of
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState

#: The word for the link.
RECORDED: Final = "recorded"

_FILE = re.compile(r"([0-9]{1,12})(?:\.0)?\.data")


class MirroredStream:
    """One stream's files in a mirror as an agent's own stream (bs4_agent.streams.stream.Stream), so
    that the same queries work on it.

    Only for streams that were kept whole, each generation in one file; nothing is ever added.
    """

    def __init__(self, directory: Path, kind: str, trail: Callable[[], Trail] = list) -> None:
        """`kind`: "log" or "records". `trail`: when which line was written, for logs."""
        found = (
            (match, path)
            for path in directory.iterdir()
            if (match := _FILE.fullmatch(path.name)) and path.is_file()
        )
        self._paths = {int(match[1]): path for match, path in found}
        self._kind, self._trail = kind, trail

    @property
    def timestamp(self) -> Callable[[bytes], float | None] | None:
        if self._kind == "records":
            return record_time
        return None

    def read(self, cursor: str, limit: int) -> Chunk:
        pieces = self.pieces()
        place = self._place(cursor, pieces)
        piece = None
        for p in pieces:
            if p.generation > place.generation or (p.generation, p.size) > (
                place.generation,
                place.offset,
            ):
                piece = p
                break
        if piece is None:
            return Chunk(str(place), str(place))
        if piece.generation == place.generation:
            begin = place
        else:
            begin = Cursor(piece.generation, 0)
        data = self._bytes(piece, begin.offset, limit)
        end = Cursor(piece.generation, begin.offset + len(data))
        return Chunk(
            str(begin),
            str(end),
            data,
            partial=not data.endswith(b"\n"),
            more=end < Cursor(pieces[-1].generation, pieces[-1].size),
        )

    def stat(self) -> dict[str, Any]:
        pieces = self.pieces()
        end = Cursor(pieces[-1].generation, pieces[-1].size)
        start, size = Cursor(pieces[0].generation, 0), sum(piece.size for piece in pieces)
        return {"kind": self._kind, "start": str(start), "end": str(end), "bytes": size}

    def pieces(self) -> list[Piece]:
        return [
            Piece(
                number,
                path.stat().st_size,
                functools.partial(os.open, path, os.O_RDONLY | os.O_CLOEXEC),
            )
            for number, path in sorted(self._paths.items())
        ]

    def place_at(self, t: float) -> str | None:
        return place_at(self._trail(), t)

    @property
    def files(self) -> list[tuple[int, Path]]:
        """(generation, path), in order."""
        return sorted(self._paths.items())

    @staticmethod
    def _place(cursor: str, pieces: list[Piece]) -> Cursor:
        if cursor == START:
            return Cursor(pieces[0].generation, 0)
        if cursor == END:
            return Cursor(pieces[-1].generation, pieces[-1].size)
        place = Cursor.parse(cursor)
        if place > Cursor(pieces[-1].generation, pieces[-1].size):
            raise BadCursor(f"{cursor} lies behind what was recorded; read from 'start'.")
        return place

    @staticmethod
    def _bytes(piece: Piece, offset: int, limit: int) -> bytes:
        """Whole lines; a piece of one only where it is longer than `limit`, or where the file ended
        in it.
        """
        fd = piece.open()
        try:
            data = os.pread(fd, min(limit, piece.size - offset), offset)
        finally:
            os.close(fd)
        whole = data.rfind(b"\n") + 1
        if whole and offset + len(data) < piece.size:
            return data[:whole]
        return data


class RecordedSession(PodSession):
    """What a PodSession offers, out of a mirror's directory. Ages are true: what was recorded in
    spring is months old in autumn.
    """

    def __init__(self, name: str, root: Path, why: str) -> None:
        """`why`: a sentence that says what is shown and why it is no live pod."""
        super().__init__(
            PodState(name=name, address=RECORDED, read_only=True),
            _no_transport,
            Mirror(root, write=False),
            "",
            deploy=False,
        )
        self._why = why
        self._home = root / self.mirror.home
        self._streams = {stream: self._open(stream, kind) for stream, kind in _found(self._home)}
        self._trails: dict[str, Trail] = {}
        self._queries = {stream: Queries(opened) for stream, opened in self._streams.items()}

    async def run(self) -> None:
        self.replay()
        state = self.state
        state.streams = sorted(self._streams)
        state.link.set(
            RECORDED, self._why, "Connect to a real pod with `bs4-console pods add NAME HOST`."
        )
        state.changed()
        await asyncio.Event().wait()

    async def run_once(self, patience: float = 0.0) -> None:
        await self.run()

    def retry_now(self) -> None:
        """There is nothing to try."""

    async def connected(self, timeout: float) -> Channel:
        self._refuse("is no live pod")

    async def synced(self, timeout: float = 30.0) -> None:
        self.replay()

    async def read_log(
        self, stream: str, cursor: str, limit: int = 262144, wait: float = 0.0, *, seen: int = 0
    ) -> Chunk:
        opened = self._stream(stream)
        try:
            chunk = await asyncio.to_thread(opened.read, cursor, limit)
        except AgentError as error:
            raise RemoteError(error.type, error.message) from None
        if not chunk.data and wait > 0:
            await asyncio.sleep(wait)
        return chunk

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        if op == "list":
            return {
                "streams": [
                    {"name": name, **opened.stat()}
                    for name, opened in sorted(self._streams.items())
                ],
                "next": None,
            }
        self._stream(stream)
        try:
            return await asyncio.to_thread(self._queries[stream].run, op, parameters)
        except AgentError as error:
            raise RemoteError(error.type, error.message) from None

    async def streams(self) -> list[str]:
        return sorted(self._streams)

    async def submit(self, kind: str, **body: Any) -> str:
        self._refuse("is a recording: nothing can be done to it")

    def _refuse(self, what: str) -> NoReturn:
        raise RefusedError(
            f"{self.state.name} {what}.",
            "`bs4-console demo` on Linux has practice pods that can be mended.",
        )

    def _stream(self, name: str) -> MirroredStream:
        if name not in self._streams:
            error = UnknownStream(
                f"There is no stream {name} in this recording; it has "
                f"{', '.join(sorted(self._streams))}."
            )
            raise RemoteError(error.type, error.message)
        return self._streams[name]

    def _open(self, stream: str, kind: str) -> MirroredStream:
        return MirroredStream(self._home / stream, kind, functools.partial(self._trail, stream))

    def _trail(self, stream: str) -> Trail:
        """Made once: nothing is ever added to a recording. Only logs of runs have one."""
        words = stream.split("/")
        if len(words) != 3 or words[0] != "log":
            return []
        made = self._trails.get(stream)
        if made is None:
            run = self.state.runs.get(words[1])
            made = []
            if run is not None:
                mine = {}
                for name, opened in self._streams.items():
                    if name.startswith(f"log/{run.name}/"):
                        mine[name] = opened.files
                made = trail_of(
                    mine[stream], midnight_of(run, mine), span_of(run, self.state.latest)
                )
            self._trails[stream] = made
        return made


def _found(home: Path) -> list[tuple[str, str]]:
    """(stream, kind) of every directory that holds data under a name that is read."""
    directories = set()
    for path in home.rglob("*.data"):
        if _FILE.fullmatch(path.name) and path.is_file():
            directories.add(path.parent)
    names = sorted(str(directory.relative_to(home)) for directory in directories)
    rows = []
    for name in names:
        rows.append((name, "log" if name.startswith("log/") else "records"))
    return rows


def _no_transport() -> Transport:
    raise RefusedError("A recording has no pod behind it.")
